"""Progress of a running step, on its way to the viewers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from perdure.models.surrogates import mended
from perdure.ports import LiveEvent
from perdure.steps.attempt import Attempt

JsonObject = dict[str, Any]

MAX_BATCH_CHARACTERS = 4096
"""Text that is gathered at most before it is published, and that one delta has at most (design §7: 4 KB)."""

DELTAS = ("text_delta", "reasoning_delta", "tool.arguments_delta")
"""Progress whose `text` goes on where the one before ended."""


def parts_of(progress: Sequence[LiveEvent]) -> tuple[JsonObject, ...]:
    """Return the text and reasoning that some progress of a model step shows, as the parts of a message.

    What came before the last `attempt_reset` is gone from the screen, too.
    """
    parts: list[JsonObject] = []
    last: tuple[str, object] | None = None
    for event in progress:
        if event.type == "attempt_reset":
            parts.clear()
            last = None
        elif event.type in ("text_delta", "reasoning_delta"):
            segment = (event.type, event.payload.get("segment"))
            if segment == last:
                parts[-1]["text"] += event.payload["text"]
            else:
                parts.append({"type": event.type.removesuffix("_delta"), "text": event.payload["text"]})
            last = segment
    return tuple(parts)


def shortened(text: str) -> JsonObject:
    """Return the text of a tool's progress as it is shown: one to look at, so a long one is its head."""
    head = mended(text[:MAX_BATCH_CHARACTERS])
    return {"text": head} if len(text) <= MAX_BATCH_CHARACTERS else {"text": head, "truncated": True}


def _goes_on(last: LiveEvent, event_type: str, payload: JsonObject) -> bool:
    """Whether a delta belongs to the same segment or call as the last event, and there is room for it."""
    same = event_type in DELTAS and event_type == last.type and payload.get("tool_name") is None
    place = "index" if event_type == "tool.arguments_delta" else "segment"
    room = MAX_BATCH_CHARACTERS - len(last.payload.get("text", ""))
    return same and last.payload[place] == payload[place] and len(payload["text"]) <= room


class Progress:
    """Publishes a step's progress: at once, or gathered for `Ports.progress_interval_seconds`.

    Deltas of one segment, or of one call's arguments, that are published together are joined into one. A delta has at
    most `MAX_BATCH_CHARACTERS`.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._interval = attempt.ports.progress_interval_seconds
        self._pending: list[LiveEvent] = []
        self._characters = 0
        self._flusher: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def say(self, event_type: str, payload: JsonObject) -> None:
        """Show one event to the viewers."""
        text = payload.get("text", "") if event_type in DELTAS else ""
        if event_type in DELTAS and len(text) > MAX_BATCH_CHARACTERS:
            for start in range(0, len(text), MAX_BATCH_CHARACTERS):
                await self.say(event_type, payload | {"text": text[start : start + MAX_BATCH_CHARACTERS]})
            return
        last = self._pending[-1] if self._pending else None
        if last is not None and _goes_on(last, event_type, payload):
            joined = last.payload | {"text": last.payload["text"] + text}
            self._pending[-1] = LiveEvent(type=event_type, at=last.at, payload=joined)
        else:
            self._pending.append(LiveEvent(type=event_type, at=self._attempt.ports.clock.now(), payload=payload))
        self._characters += len(text)
        if not self._interval or self._characters >= MAX_BATCH_CHARACTERS:
            await self.flush()
        elif self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush_later())

    async def flush(self) -> None:
        """Publish what was gathered."""
        async with self._lock:
            events, self._pending, self._characters = self._pending, [], 0
            if events:
                attempt = self._attempt
                await attempt.ports.live.publish(
                    attempt.key, attempt.turn.turn_id, attempt.step_id, attempt.number, events
                )

    async def close(self) -> None:
        """End it. What was gathered and not published yet is left out: the commit that follows tells it all."""
        if self._flusher is not None:
            self._flusher.cancel()
        self._pending.clear()

    async def _flush_later(self) -> None:
        await self._attempt.ports.clock.sleep(self._interval)
        await self.flush()
