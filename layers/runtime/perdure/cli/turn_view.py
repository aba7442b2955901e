"""A running turn in a terminal: every event once, the whole of every answer, and each thing on a line of its own.

Live progress is best effort: a viewer that looks away for a moment misses the end of a text whose step has been
committed meanwhile. And durable events repeat what was seen live. So text is shown as it streams, and when its step has
ended the rest comes from the transcript.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from perdure.cli.printing import indented, one_line, print_message, say, text_of
from perdure.session import Session, SessionEvent

LATEST_MESSAGES = 50
"""Messages among which the one of a step that has just ended is looked for: more than one step ever adds."""


class TurnView:
    """Prints one session's events as they come."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seen_sequence = 0
        self._attempt: tuple[str | None, int | None] | None = None
        self._streamed = ""
        self._reconnects: set[tuple[str | None, str | None, int]] = set()
        self._open_line: Literal["text", "prompt"] | None = None

    @property
    def at_prompt(self) -> bool:
        """Whether the cursor stands behind a prompt."""
        return self._open_line == "prompt"

    def prompt(self, text: str) -> None:
        """Print something that the person answers on the same line."""
        self.end_line()
        say(text, end="")
        self._open_line = "prompt"

    def entered(self) -> None:
        """Take note that the person has ended the line."""
        self._open_line = None

    def transcript(self, messages: list[dict[str, Any]], newest: int = 10) -> None:
        """Print the newest of some messages, and remember that all of them have been seen."""
        if len(messages) > newest:
            say("  … (`perdure show` has the rest)")
        for message in messages[-newest:]:
            print_message(message)
        if messages:
            self._seen_sequence = messages[-1]["sequence"]

    def line(self, text: str) -> None:
        """Print a line of its own."""
        self.end_line()
        say(text)

    async def show(self, event: SessionEvent) -> None:
        """Print what one event adds."""
        payload = event.payload
        if event.type == "text_delta":
            self._stream(event)
        elif event.type == "model_finished":
            await self._complete(event)
        elif event.type == "attempt_reset" and event.sequence is None:
            self._begin_again()
        elif event.type == "model_retry_scheduled":
            self._tell_of_reconnect(event)
        elif event.type in ("tool_call_deferred", "tool_call_finished", *_ENDINGS):
            self.line(_described(event.type, payload))

    def _stream(self, event: SessionEvent) -> None:
        attempt = (event.step_execution_id, event.attempt)
        if self._attempt not in (None, attempt):
            self._begin_again()
        self._attempt = attempt
        if self._open_line != "text":
            self.end_line()
            say("agent: ", end="")
            self._open_line = "text"
        self._streamed += event.payload["text"]
        say(indented(event.payload["text"]), end="")

    def _tell_of_reconnect(self, event: SessionEvent) -> None:
        """Say when the model is asked again, once: live, or by the record when that was missed."""
        payload = event.payload
        reconnect = (event.turn_id, event.step_execution_id, payload["attempt"])
        if reconnect not in self._reconnects:
            self._reconnects.add(reconnect)
            when = _when(payload["retry_in_ms"], event.at)
            self.line(f"  (no whole answer: {payload['reason']}; asking again {when})")

    def _begin_again(self) -> None:
        """Leave what has streamed behind: it is no part of the answer."""
        if self._streamed:
            self.line("  (that answer was cut off; it begins again)")
        self._streamed = ""
        self._attempt = None

    async def _complete(self, event: SessionEvent) -> None:
        """Print what of a committed message was not seen live."""
        message = await self._committed(event)
        text = text_of(message) if message is not None else ""
        if text and self._open_line == "text" and text.startswith(self._streamed):
            say(indented(text[len(self._streamed) :]), end="")
        elif text:
            if self._streamed:
                self.line("  (the answer as it was kept:)")
            self.line(f"agent: {indented(text)}")
        if message is not None and "status" in message:
            self.line(f"  ({_STATUSES.get(message['status'], message['status'])})")
        if self._open_line == "text":
            self.end_line()
        self._streamed = ""
        self._attempt = None

    async def _committed(self, event: SessionEvent) -> dict[str, Any] | None:
        """Return the oldest message of the agent's that was not shown yet."""
        page = await self._session.messages(limit=LATEST_MESSAGES)
        for message in page["messages"]:
            if (
                message["sequence"] > self._seen_sequence
                and message["role"] == "assistant"
                and message["turn_id"] == event.turn_id
            ):
                self._seen_sequence = message["sequence"]
                return dict(message)
        return None

    def end_line(self) -> None:
        """Go to a new line, unless the cursor is at the start of one."""
        if self._open_line is not None:
            say()
        self._open_line = None


_ENDINGS = (
    *("turn_failed", "turn_cancelled", "turn_steered", "inbox.joined", "session_paused", "session_resumed"),
    *("timer_started", "tool_task_started", "tool.awaits_event"),
)
_STATUSES = {
    "interrupted": "interrupted: what you saw is kept",
    "superseded": "superseded: the agent will not look back at it",
}
_LONG_WAIT_MS = 5000
"""A wait that somebody may want to cut short, in milliseconds; shorter ones are over before they have read of it."""


def _when(wait_ms: int, at: str) -> str:
    """Return when a model is asked again; of a long wait the hour, and what else could be done."""
    if wait_ms < _LONG_WAIT_MS:
        return f"in {wait_ms / 1000:g} s"
    until = datetime.fromisoformat(at) + timedelta(milliseconds=wait_ms)
    return f"in {wait_ms / 1000:g} s, at {until:%H:%M:%S} UTC: /retry asks now, /stop gives up"


def _described(kind: str, payload: Mapping[str, Any]) -> str:
    if kind == "tool_call_deferred":
        return f"  tool {one_line(payload['tool_name'])} ({payload['effect']})"
    if kind == "tool_call_finished":
        return f"  -> {one_line(payload['tool_name'])} {payload['status']}"
    if kind == "turn_failed":
        return f"the turn failed: {payload['error']['code']}: {payload['error']['message']}"
    if kind == "turn_cancelled":
        return f"  ({payload.get('reason', 'stopped')})"
    if kind == "timer_started":
        why = f" for {one_line(payload['reason'])}" if payload.get("reason") else ""
        return f"  (waits until {payload['until']}{why}: /skip, /until, /cancel)"
    if kind == "tool_task_started":
        return f"  ({one_line(payload['tool_name'])} works elsewhere and is looked at from time to time: /waits)"
    if kind == "tool.awaits_event":
        return f"  (waits for the event {one_line(payload['name'])!r}: /waits)"
    return _SAID[kind]


_SAID = {
    "turn_steered": "  (steered)",
    "inbox.joined": "  (your message joined the turn)",
    "session_paused": "  (paused: /resume lets it go on)",
    "session_resumed": "  (resumed)",
}
