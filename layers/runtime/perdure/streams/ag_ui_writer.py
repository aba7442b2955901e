"""Writes the events of one AG-UI run, and keeps what its client shows by them.

Nothing overlaps: a message ends before another or a call begins, and all has ended before the run does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.core.own_events import RESERVED_PREFIXES
from perdure.streams.ag_ui_messages import (
    Conversation,
    ag_ui_messages,
    answer_segments,
    parent_of_calls,
    role_of,
    segment_id,
    tool_call,
)

JsonObject = dict[str, Any]


@dataclass(slots=True)
class _Answer:
    """The model step whose answer is shown while it comes.

    Attributes:
        showing: How often its text began, from 1. Each time needs ids of its own.
        segments: Kind and id of what was begun, in order.
        number: That of the last of them, as its pieces tell it.
        is_open: The last of them has not ended.
    """

    step_id: str
    attempt: int
    showing: int = 1
    segments: list[tuple[str, str]] = field(default_factory=list)
    number: int | None = None
    is_open: bool = False

    def next_id(self, kind: str) -> str:
        base = self.step_id if self.showing == 1 else f"{self.step_id}~{self.showing}"
        return segment_id(base, kind, sum(1 for other, _ in self.segments if other == kind) + 1)


class AgUiWriter:
    """What is written to one client.

    Args:
        messages: What it shows.
    """

    def __init__(self, messages: Iterable[JsonObject]) -> None:
        self.view = Conversation(messages)
        self._out: list[JsonObject] = []
        self._steps: list[str] = []
        self._answer: _Answer | None = None
        self._showings: dict[str, int] = {}

    def write(self, event: JsonObject) -> None:
        """Write an event that has to do with no other."""
        self._out.append(event)

    def written(self) -> list[JsonObject]:
        """Return what was written since this was asked for last."""
        out, self._out = self._out, []
        return out

    def snapshot(self) -> None:
        """Put right what the client shows."""
        self.write({"type": "MESSAGES_SNAPSHOT", "messages": self.view.snapshot()})

    def custom(self, name: str, value: JsonObject) -> None:
        """Write an event that the protocol has no word for."""
        self.write({"type": "CUSTOM", "name": name, "value": value})

    def told(self, event: JsonObject) -> None:
        """Write an event of the session: an application's own as it is, ours whole and with our name in front."""
        prefix, dot, _ = event["type"].partition(".")
        if dot and prefix not in RESERVED_PREFIXES:
            self.custom(event["type"], event["payload"])
        else:
            self.custom(f"perdure.{event['type']}", event)

    # --- steps ------------------------------------------------------------------------------------------------------

    def open_step(self, step_id: str) -> None:
        """Begin a step, unless it has begun."""
        if step_id not in self._steps:
            self._steps.append(step_id)
            self.write({"type": "STEP_STARTED", "stepName": step_id})

    def close_step(self, step_id: str) -> None:
        """End a step, if it has begun."""
        if step_id in self._steps:
            self._steps.remove(step_id)
            self.write({"type": "STEP_FINISHED", "stepName": step_id})

    def close_all(self) -> None:
        """End all that has begun."""
        self.close_answer()
        for step_id in list(self._steps):
            self.close_step(step_id)

    # --- answers ----------------------------------------------------------------------------------------------------

    def delta(self, kind: str, step_id: str, attempt: int, text: str, number: int | None = None) -> None:
        """Show a piece of an answer as it comes.

        Args:
            kind: `text` or `reasoning`.
            number: Of its segment, which tells where the next one begins.
        """
        answer = self._answer
        if answer is None or answer.step_id != step_id:
            self.take_back()
            answer = self._answer = _Answer(step_id, attempt, self._showings.get(step_id, 1))
        elif answer.attempt != attempt:
            self.begin_anew(step_id, attempt)
        self.open_step(step_id)
        if not answer.is_open or (answer.segments[-1][0], answer.number) != (kind, number):
            self._close(answer)
            begun = answer.next_id(kind)
            answer.segments.append((kind, begun))
            answer.number, answer.is_open = number, True
            self._begin(kind, begun, "assistant")
        self._grow(kind, answer.segments[-1][1], text)

    def begin_anew(self, step_id: str, attempt: int) -> None:
        """Take back what was shown of a step's answer: its next one stands alone."""
        answer = self._answer
        if answer is None or answer.step_id != step_id:
            return
        answer.attempt = attempt
        self._close(answer)
        if answer.segments:
            self.view.drop(shown for _, shown in answer.segments)
            self.snapshot()
            answer.segments = []
            answer.showing += 1
            self._showings[step_id] = answer.showing

    def take_back(self, step_id: str | None = None) -> None:
        """Take back an answer that was never committed: that of a step, or whichever there is."""
        answer = self._answer
        if answer is not None and step_id in (None, answer.step_id):
            self.begin_anew(answer.step_id, answer.attempt)
            self._answer = None

    def said(self, message: JsonObject, step_id: str | None) -> list[str]:
        """Complete what was shown of an answer from the message that was committed; returns the ids that it has.

        Args:
            step_id: Its model step. None: that of the answer which is shown, if any.
        """
        if self._answer is not None and step_id not in (None, self._answer.step_id):
            self.take_back()
        answer = self._answer
        base = step_id or (answer.step_id if answer else message["message_id"])
        self._answer = None
        whole = ag_ui_messages(message, base)
        wanted = answer_segments(message, base) if whole else []
        answer = answer or _Answer(base, 0)
        if self._fits(answer, wanted):
            self._complete(answer, wanted)
        else:
            self._close(answer)
            self._put_right([shown for _, shown in answer.segments], wanted)
        for part in message["parts"] if whole else ():
            if part["type"] == "tool_call":
                self._call(tool_call(part), parent_of_calls(message, base))
            elif part["type"] == "file":
                self.custom("perdure.file", {"message_id": message["message_id"], **part})
        return [shown["id"] for shown in whole]

    def user(self, message_id: str, text: str) -> None:
        """Show what a person wrote."""
        self.close_answer()
        self._begin("text", message_id, "user")
        self._grow("text", message_id, text)
        self._end("text", message_id)

    def result(self, result: JsonObject) -> None:
        """Show a call's result; once, and only if the client has the call."""
        if not self.view.has_call(result["toolCallId"]) or self.view.has(result["id"]):
            return
        self.close_answer()
        self.view.result(result)
        told: JsonObject = {"type": "TOOL_CALL_RESULT", "messageId": result["id"], "role": "tool"}
        self.write(told | {name: result[name] for name in ("toolCallId", "content", "metadata") if name in result})

    def drop(self, message_ids: Collection[str]) -> None:
        """Take messages back."""
        self.close_answer()
        if any(self.view.has(message_id) for message_id in message_ids):
            self.view.drop(message_ids)
            self.snapshot()

    def close_answer(self) -> None:
        """End the message that is open, if any."""
        if self._answer is not None:
            self._close(self._answer)

    def _put_right(self, shown: Sequence[str], wanted: Sequence[tuple[str, str, str]]) -> None:
        """Replace what was shown by what is so."""
        ids = [wanted_id for _, wanted_id, _ in wanted]
        kept = [shown_id for shown_id in shown if shown_id in ids]
        self.view.drop(shown)
        if kept != ids[: len(kept)]:
            self.snapshot()  # a client leaves what it has at its place, unless that was gone in between
        self.view.add({"id": wanted_id, "role": role_of(kind), "content": text} for kind, wanted_id, text in wanted)
        self.view.drop(shown_id for shown_id in shown if shown_id not in ids)
        self.snapshot()

    def _fits(self, answer: _Answer, wanted: Sequence[tuple[str, str, str]]) -> bool:
        """Whether what was shown is a beginning of what is wanted."""
        if len(answer.segments) > len(wanted):
            return False
        last = len(answer.segments) - 1
        for number, (shown, (kind, wanted_id, text)) in enumerate(zip(answer.segments, wanted, strict=False)):
            if shown != (kind, wanted_id):
                return False
            seen = self.view.text(wanted_id)
            grows = number == last and answer.is_open
            if not (text.startswith(seen) if grows else text == seen):
                return False
        return True

    def _complete(self, answer: _Answer, wanted: Sequence[tuple[str, str, str]]) -> None:
        shown = len(answer.segments)
        if answer.is_open:
            kind, wanted_id, text = wanted[shown - 1]
            self._grow(kind, wanted_id, text[len(self.view.text(wanted_id)) :])
            self._close(answer)
        for kind, wanted_id, text in wanted[shown:]:
            self._begin(kind, wanted_id, "assistant")
            self._grow(kind, wanted_id, text)
            self._end(kind, wanted_id)

    def _call(self, call: JsonObject, parent_id: str) -> None:
        if self.view.has_call(call["id"]):
            return
        self.view.call(call, parent_id)
        about = {"toolCallId": call["id"]}
        begun = {"type": "TOOL_CALL_START", **about, "toolCallName": call["function"]["name"]}
        self.write(begun | {"parentMessageId": parent_id})
        if call["function"]["arguments"]:
            self.write({"type": "TOOL_CALL_ARGS", **about, "delta": call["function"]["arguments"]})
        self.write({"type": "TOOL_CALL_END", **about})

    def _begin(self, kind: str, message_id: str, role: str) -> None:
        about = {"messageId": message_id}
        if kind == "reasoning":
            role = "reasoning"
            self.write({"type": "REASONING_START", **about})
            self.write({"type": "REASONING_MESSAGE_START", **about, "role": role})
        else:
            self.write({"type": "TEXT_MESSAGE_START", **about, "role": role})
        self.view.begin(message_id, role)

    def _grow(self, kind: str, message_id: str, delta: str) -> None:
        if delta:
            name = "REASONING_MESSAGE_CONTENT" if kind == "reasoning" else "TEXT_MESSAGE_CONTENT"
            self.write({"type": name, "messageId": message_id, "delta": delta})
            self.view.grow(message_id, delta)

    def _end(self, kind: str, message_id: str) -> None:
        names = ("REASONING_MESSAGE_END", "REASONING_END") if kind == "reasoning" else ("TEXT_MESSAGE_END",)
        for name in names:
            self.write({"type": name, "messageId": message_id})

    def _close(self, answer: _Answer) -> None:
        if answer.is_open:
            answer.is_open = False
            self._end(*answer.segments[-1])
