"""Items of a feed, built by hand: commits as the core makes them, and live progress."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from perdure.core.cursor import Cursor
from perdure.feed import Commit, Live
from perdure.streams.ui_chunks import TOKEN, UIChunks
from perdure.streams.ui_events import EVENT
from perdure.streams.ui_reducer import MessageReducer

JsonObject = dict[str, Any]
Item = Commit | Live


class Log:
    """The feed of a session with one turn, `turn-1`, unless an event says otherwise."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.version = 0
        self._sequence = 0
        self._seen: dict[tuple[str, int], int] = {}

    def commit(self, *facts: JsonObject) -> Commit:
        """Append a commit of events and messages, in the order in which they are given."""
        self.version += 1
        events: list[JsonObject] = []
        messages: list[JsonObject] = []
        for fact in facts:
            if "role" in fact:
                messages.append({"turn_id": "turn-1", **fact})
                continue
            self._sequence += 1
            cursor = Cursor(version=self.version, index=len(events) + 1).encode("s-1")
            events.append({"turn_id": "turn-1", "sequence": self._sequence, "cursor": cursor, **fact})
        cursor = Cursor(version=self.version + 1).encode("s-1")
        made = Commit(version=self.version, cursor=cursor, messages=tuple(messages), events=tuple(events))
        self.items.append(made)
        return made

    def live(self, kind: str, step: str, attempt: int = 1, /, **payload: Any) -> Live:
        """Append live progress of a step."""
        seen = self._seen[(step, attempt)] = self._seen.get((step, attempt), 0) + 1
        cursor = Cursor(version=self.version + 1, progress=((step, attempt, seen),)).encode("s-1")
        event = {"type": kind, "turn_id": "turn-1", "step_execution_id": step, "attempt": attempt, "cursor": cursor}
        made = Live(event=event | {"progress_sequence": seen, "payload": payload})
        self.items.append(made)
        return made

    @property
    def commits(self) -> list[Item]:
        """What a client gets that reads it all again later."""
        return [item for item in self.items if isinstance(item, Commit)]


def event(kind: str, step: str | None = None, attempt: int = 1, /, **payload: Any) -> JsonObject:
    place = {} if step is None else {"step_execution_id": step, "attempt": attempt}
    return {"type": kind, **place, "payload": payload}


def begun(message_id: str = "m-1", text: str = "hi", **more: Any) -> tuple[JsonObject, JsonObject]:
    """A turn begins with a message."""
    return user(message_id, text), event("turn_started", sequence=1, message_id=message_id, **more)


def user(message_id: str, text: str, *files: JsonObject) -> JsonObject:
    return {"message_id": message_id, "role": "user", "parts": [{"type": "text", "text": text}, *files]}


def said(message_id: str, *parts: JsonObject, **more: Any) -> JsonObject:
    return {"message_id": message_id, "role": "assistant", "parts": list(parts), **more}


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def reasoning(words: str) -> JsonObject:
    return {"type": "reasoning", "text": words}


def called(call_id: str, name: str = "look", **arguments: Any) -> JsonObject:
    return {"type": "tool_call", "tool_call_id": call_id, "tool_name": name, "arguments": arguments}


def stepped(step: str, attempt: int = 1, status: str = "completed") -> tuple[JsonObject, ...]:
    """What a commit tells of a model step."""
    return (
        event("model_started", step, attempt),
        event("usage_recorded", step, attempt),
        event("model_finished", step, attempt, status=status),
    )


def deferred(call_id: str, name: str = "look", *, asks: bool = False) -> JsonObject:
    return event("tool_call_deferred", tool_call_id=call_id, tool_name=name, effect="read", requires_approval=asks)


def asked(call_id: str, name: str = "look") -> JsonObject:
    return event("interrupt_raised", interrupt_id=call_id, kind="approval", tool_call_id=call_id, tool_name=name)


def decided(call_id: str, **how: Any) -> JsonObject:
    return event("interrupt_resolved", interrupt_id=call_id, kind="approval", **how)


def result(call_id: str, output: str, status: str = "succeeded") -> tuple[JsonObject, JsonObject]:
    """A call ends: its message and its event."""
    part = {"type": "tool_result", "tool_call_id": call_id, "tool_name": "look", "status": status, "output": output}
    finished = event("tool_call_finished", call_id, tool_call_id=call_id, tool_name="look", status=status)
    return {"message_id": f"result-{call_id}", "role": "tool", "parts": [part]}, finished


COMPLETED = event("turn_completed", message_count=1, usage={})


def failed(code: str, message: str = "it broke", **more: Any) -> JsonObject:
    return event("turn_failed", error={"code": code, "message": message}, message_count=1, usage={}, **more)


def mapped(items: Iterable[Item], mapping: UIChunks | None = None) -> list[JsonObject]:
    """Return the chunks of some items, without those that only a page's `onData` sees."""
    mapping = mapping or UIChunks("turn-1")
    return persistent(chunk for item in items for chunk in mapping.take(item))


def persistent(chunks: Iterable[JsonObject]) -> list[JsonObject]:
    return [chunk for chunk in chunks if chunk["type"] not in (EVENT, TOKEN)]


def types(chunks: Sequence[JsonObject]) -> list[str]:
    return [chunk["type"] for chunk in chunks]


def with_calls(log: Log, *calls: JsonObject, step: str = "model-1-0", message: str = "message-2-0") -> None:
    """Let a model step ask for calls."""
    parts = [text("Let me see."), *calls]
    log.commit(*stepped(step), said(message, *parts), *[deferred(c["tool_call_id"], c["tool_name"]) for c in calls])


def through_json(mapping: UIChunks) -> UIChunks:
    """Return the mapping as another process goes on with it."""
    return UIChunks.restored(json.loads(json.dumps(mapping.state())))


def message_of(chunks: list[JsonObject], message: JsonObject | None = None) -> JsonObject:
    """Return the message that a client makes of chunks."""
    return MessageReducer(message).take_all(chunks)
