"""One turn as a model should see it, from its messages and from what became of it (spec U-5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from perdure.core import texts
from perdure.core.entries import Entry, Input, Message
from perdure.core.fates import TURN_ENDS, TurnFate, fate_of
from perdure.core.ids import canonical_json
from perdure.core.items import (
    CallItem,
    HistoryItem,
    HistoryOptions,
    ModelItem,
    RecordDecision,
    ToolResultItem,
    UserItem,
    file_of,
)
from perdure.core.outputs import ShownOutputs

JsonObject = dict[str, Any]

_Shown = tuple[list[HistoryItem], Literal["shown", "marked", "cut", "left_out"], str | None]
"""What a message becomes, the decision, and its reason."""

_NO_ANSWER = ("truncated", "filtered", "refused", "not_accepted")
"""Statuses of a text that is never shown as an answer; the turn's note says that it failed."""

_ENDINGS = {
    "turn_failed": "This turn failed before it was answered.",
    "turn_cancelled": "The user stopped this turn.",
    "turn_steered": "The user sent something else to do before this turn was answered.",
}


class ShownTurn:
    """The facts of one turn, rendered on demand."""

    def __init__(self, turn_id: str, *, is_first: bool) -> None:
        self.turn_id = turn_id
        self._is_first = is_first
        self._messages: list[Message] = []
        self._inputs: dict[str, Input] = {}
        self._answers: list[tuple[str, int]] = []
        self._results: dict[str, JsonObject] = {}
        self._notes: dict[str, str] = {}
        self._fate: TurnFate | None = None
        self._rehomed: set[tuple[str, str]] = set()
        self._run_state: JsonObject | None = None

    def take_input(self, message: Message, accepted: Input | None) -> None:
        """Take a user's message at its place."""
        self._messages.append(message)
        if accepted is not None:
            self._inputs[message.message_id] = accepted

    def take(self, message: Message, version: int) -> None:
        """Take a message of the model, or the result of a call."""
        for part in message.parts:
            if part["type"] == "tool_result":
                self._results[part["tool_call_id"]] = part
        if message.role == "assistant":
            self._messages.append(message)
            self._answers.append((message.message_id, version))

    def reopen(self, turn_id: str) -> None:
        """Go on in the turn that retries this one, as if it had not failed. What was rehomed stays so."""
        self.turn_id = turn_id
        self._fate = None

    def note(self, entry: Entry) -> None:
        """Keep what an entry's events say about this turn."""
        for event in entry.events:
            if event.turn_id != self.turn_id:
                continue
            if event.type == "interrupt_resolved" and event.payload.get("approved"):
                if note := approval_note(event.payload):
                    self._notes[event.payload["interrupt_id"]] = note
            elif event.type == "model_finished":
                self._run_state = entry.run_state or self._run_state
            elif event.type in TURN_ENDS:
                self._fate = fate_of(event, self._answers)
                self._rehomed |= {(self.turn_id, message_id) for message_id in self._fate.rehomed}

    def rehomed_inputs(self) -> list[Input]:
        """Return what joined this turn and goes to another one."""
        rehomed = {message_id for _, message_id in self._rehomed}
        return [accepted for message_id, accepted in self._inputs.items() if message_id in rehomed]

    def render(self, options: HistoryOptions) -> tuple[list[HistoryItem], list[RecordDecision]]:
        """Return the turn as the model should see it, and what was decided of each message."""
        items: list[HistoryItem] = []
        decisions: list[RecordDecision] = []
        outputs = ShownOutputs(options)
        for message in self._messages:
            shown, decision, reason = self._message(message, options, outputs, leads=self._is_first and not items)
            items += shown
            decisions.append(
                RecordDecision(message_id=message.message_id, turn_id=self.turn_id, decision=decision, reason=reason)
            )
        items += self._unfinished(options)
        if note := self._ending_note(options):
            items.append(UserItem(text=note))
        return items, decisions

    def _message(self, message: Message, options: HistoryOptions, outputs: ShownOutputs, *, leads: bool) -> _Shown:
        fate = self._fate
        if message.role == "user":
            if (message.turn_id, message.message_id) in self._rehomed:
                return [], "left_out", "rehomed"
            accepted = self._inputs.get(message.message_id)
            if accepted is None:
                return [UserItem(text="")], "shown", None
            return [UserItem(text=accepted.text, files=accepted.files)], "shown", None
        if leads:
            return [], "left_out", "leading_assistant"
        if message.status in _NO_ANSWER:
            if not options.failed_evidence:
                return [], "left_out", message.status
            text = _with_note(_text(message.parts), f"This is no answer: {message.status}.")
            return [ModelItem(text=text)], "marked", message.status
        parts = tuple(fate.cut(message.message_id, message.parts)) if fate is not None else message.parts
        if message.status == "superseded" or (fate is not None and fate.discarded):
            return self._superseded(parts, outputs)
        if message.status == "interrupted":
            return _interrupted(_text(parts), options), "marked", "interrupted"
        was_cut = parts != message.parts
        output = _model_item(parts, None if was_cut else message.provider)
        shown: list[HistoryItem] = [output, *(self._result(call, outputs) for call in output.calls)]
        if not (output.calls or output.text or output.files):
            return [], "left_out", "behind_the_frontier" if was_cut else "empty"
        return shown, "cut" if was_cut else "shown", "frontier" if was_cut else None

    def _superseded(self, parts: tuple[JsonObject, ...], outputs: ShownOutputs) -> _Shown:
        """Leave a superseded answer out, but for calls that ran: effects are never hidden from the model."""
        calls = _model_item(parts, None).calls
        ran = any(self._results.get(call.call_id, {}).get("status") != "rejected" for call in calls)
        if not ran:
            return [], "left_out", "superseded"
        return [ModelItem(text="", calls=calls), *(self._result(call, outputs) for call in calls)], "cut", "superseded"

    def _unfinished(self, options: HistoryOptions) -> list[HistoryItem]:
        """Return what the agent's runner has to say of a turn that failed on its way (spec SESS-09)."""
        failed = self._fate is not None and self._fate.ending == "turn_failed"
        if not failed or self._run_state is None or options.unfinished is None:
            return []
        try:
            return [ModelItem(text=text) for text in options.unfinished(self._run_state) if text]
        except Exception:  # noqa: BLE001  a runner's fault may not keep every later turn from its prompt (MODEL-06)
            return []

    def _ending_note(self, options: HistoryOptions) -> str | None:
        """Return the note behind a turn that ended without an answer; None for one that was answered or still runs."""
        fate = self._fate
        if fate is None or fate.ending not in _ENDINGS:
            return None
        what = _ENDINGS[fate.ending]
        if options.failed_evidence and fate.error_code is not None:
            what = f"{what} The reason was {fate.error_code!r}."
        ran = [f"{r['tool_name']} ({r['status']})" for r in self._results.values() if r["status"] != "rejected"]
        if not ran:
            silent = fate.ending == "turn_failed" and not options.failed_evidence
            return None if silent or fate.discarded else f"{texts.NOTE} {what}"
        return (
            f"{texts.NOTE} {what} These tool calls have a final record: {', '.join(ran)}. "
            "Do not repeat these tool calls unless the user asks again."
        )

    def _result(self, call: CallItem, outputs: ShownOutputs) -> ToolResultItem:
        result = self._results.get(call.call_id)
        status, output = ("outcome_unknown", texts.OUTCOME_UNKNOWN)
        if result is not None:
            status, output = result["status"], outputs.shown(call, result)
        if call.call_id in self._notes:
            note = self._notes[call.call_id]
            output = f"{output}\n\n{texts.NOTE} {note}"
        return ToolResultItem(call_id=call.call_id, tool_name=call.tool_name, status=status, output=output)


def approval_note(approval: JsonObject) -> str:
    """Return what the model is told about how a call was approved: other arguments, and a word with it."""
    notes = []
    if "arguments" in approval:
        notes.append(
            "The person who approved this call changed its arguments; it ran with "
            f"{canonical_json(approval['arguments'])}."
        )
    if approval.get("message"):
        notes.append(f"The person who approved this call wrote: {approval['message']}")
    return " ".join(notes)


def _interrupted(text: str, options: HistoryOptions) -> list[HistoryItem]:
    """Show an answer that the user stopped, as the agent wants it (spec STOP-10)."""
    how = options.interrupted_assistant
    if not text or how == "omit":
        return []
    if how == "marked":
        return [ModelItem(text=_with_note(text, "The user stopped this answer here."))]
    if how == "note":
        return [UserItem(text=f"{texts.NOTE} The user stopped an answer that had come this far:\n\n{text}")]
    return [UserItem(text=f"[turn_aborted]\n{text}\n[/turn_aborted]")]


def _with_note(text: str, note: str) -> str:
    return f"{text}\n\n{texts.NOTE} {note}".lstrip()


def _text(parts: tuple[JsonObject, ...]) -> str:
    return "".join(part["text"] for part in parts if part["type"] == "text")


def _model_item(parts: tuple[JsonObject, ...], provider: JsonObject | None) -> ModelItem:
    return ModelItem(
        text=_text(parts),
        reasoning="".join(part["text"] for part in parts if part["type"] == "reasoning"),
        calls=tuple(_call(part) for part in parts if part["type"] == "tool_call"),
        provider=provider,
        files=tuple(file_of(part) for part in parts if part["type"] == "file"),
    )


def _call(part: Mapping[str, Any]) -> CallItem:
    return CallItem(
        call_id=part["tool_call_id"],
        tool_name=part["tool_name"],
        arguments=part.get("arguments"),
        arguments_text=part.get("arguments_text", ""),
        provider_call_id=part.get("provider_call_id"),
    )
