"""What the model is shown of the past: a deterministic projection of the log.

Every call has exactly one result directly behind its message, in the model's order (spec MODEL-08, MODEL-09). What
became of a turn is in its facts, and is told in notes that are never stored (spec U-5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from perdure.core import texts
from perdure.core.entries import Entry, FileRef, Input, Message
from perdure.core.ids import version_of

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserItem:
    """A user's text, or a note of ours."""

    text: str
    files: tuple[FileRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallItem:
    """A tool call as the model made it. `arguments` is None when `arguments_text` was no JSON object."""

    call_id: str
    tool_name: str
    arguments: JsonObject | None
    arguments_text: str = ""
    provider_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelItem:
    """One output of a model. `provider` is replayed only to the provider that it names (spec MODEL-11)."""

    text: str
    reasoning: str = ""
    calls: tuple[CallItem, ...] = ()
    provider: JsonObject | None = None
    files: tuple[FileRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultItem:
    """The one result of a call."""

    call_id: str
    tool_name: str
    status: str
    output: str


HistoryItem = UserItem | ModelItem | ToolResultItem


class Transcript:
    """The projection, kept up as the log grows: what closed turns look like never changes again.

    Feed it every entry once, in order. `version` is that of the last one, `run_state` the
    last that a runner kept, `last_prompt_tokens` what the last completed model step read, as its provider reported it.
    """

    def __init__(self) -> None:
        self.version = 0
        self.run_state: JsonObject | None = None
        self.last_prompt_tokens: int | None = None
        self._closed: list[HistoryItem] = []
        self._inputs: dict[str, Input] = {}
        self._open: _OpenTurn | None = None

    def extend(self, entries: Iterable[Entry]) -> None:
        """Take the next entries of the log."""
        for entry in entries:
            if entry.version <= self.version:
                continue
            for accepted in entry.inputs:
                self._inputs[accepted.message_id] = accepted
            self._take(entry)
            self.version = entry.version
            self.run_state = entry.run_state or self.run_state
            if entry.usage and any(e.type == "model_finished" and _is_completed(e.payload) for e in entry.events):
                self.last_prompt_tokens = entry.usage[-1].input_tokens

    def items(self) -> tuple[HistoryItem, ...]:
        """Return the conversation in the order in which the model should see it."""
        return (*self._closed, *(self._open.items() if self._open else ()))

    @property
    def turn_start(self) -> int:
        """Where in `items` the turn begins that has not ended."""
        return len(self._closed)

    def _take(self, entry: Entry) -> None:
        # One entry may close a turn and open the next, so its facts go to the turn that they name.
        for message in entry.messages:
            if self._open is None or message.turn_id != self._open.turn_id:
                self._close(entry)
                self._open = _OpenTurn(message.turn_id)
            if message.role == "user":
                self._open.take_input(self._inputs.pop(message.message_id, None))
            else:
                self._open.messages.append(message)
            for part in message.parts:
                if part["type"] == "tool_result":
                    self._open.results[part["tool_call_id"]] = part
        if self._open is not None:
            self._open.note(entry)

    def _close(self, entry: Entry) -> None:
        if self._open is not None:
            self._open.note(entry)
            self._closed += self._open.items()


def _is_completed(payload: Mapping[str, Any]) -> bool:
    return payload.get("status") == "completed"


class _OpenTurn:
    """The facts of one turn, rendered on demand."""

    def __init__(self, turn_id: str) -> None:
        self.turn_id = turn_id
        self.user = UserItem(text="")
        self.messages: list[Message] = []
        self.results: dict[str, JsonObject] = {}
        self._notes: dict[str, str] = {}
        self._ending: str | None = None

    def take_input(self, accepted: Input | None) -> None:
        """Take what the user's message of this turn points at."""
        if accepted is not None:
            self.user = UserItem(text=accepted.text, files=accepted.files)

    def note(self, entry: Entry) -> None:
        """Keep what an entry's events say about this turn."""
        for event in entry.events:
            if event.turn_id != self.turn_id:
                continue
            if event.type == "interrupt_resolved" and event.payload.get("approved") and event.payload.get("message"):
                self._notes[event.payload["interrupt_id"]] = event.payload["message"]
            elif event.type in ("turn_failed", "turn_cancelled"):
                self._ending = event.type

    def items(self) -> list[HistoryItem]:
        """Return the turn as the model should see it."""
        items: list[HistoryItem] = [self.user]
        for message in self.messages:
            if message.role == "assistant":
                items += _model_output(message, self.results, self._notes)
        if note := self._ending_note():
            items.append(UserItem(text=note))
        return items

    def _ending_note(self) -> str | None:
        """Return the note behind a turn that failed or was stopped; None for one that ended well or still runs."""
        if self._ending is None:
            return None
        stopped = self._ending == "turn_cancelled"
        ran = [f"{r['tool_name']} ({r['status']})" for r in self.results.values() if r["status"] != "rejected"]
        what = "The user stopped this turn." if stopped else "This turn failed before it was answered."
        if not ran:
            return f"{texts.NOTE} {what}" if stopped else None
        return (
            f"{texts.NOTE} {what} These tool calls have a final record: {', '.join(ran)}. "
            "Do not repeat these tool calls unless the user asks again."
        )


def history(entries: Iterable[Entry]) -> tuple[HistoryItem, ...]:
    """Return the conversation in the order in which the model should see it, from a log read from its start."""
    transcript = Transcript()
    transcript.extend(entries)
    return transcript.items()


def _model_output(message: Message, results: Mapping[str, JsonObject], notes: Mapping[str, str]) -> list[HistoryItem]:
    if message.status in ("truncated", "filtered", "refused", "not_accepted"):
        return []  # never shown as an answer; the turn's note says that it failed
    text = "".join(part["text"] for part in message.parts if part["type"] == "text")
    if message.status == "interrupted":
        return [ModelItem(text=f"{text}\n\n{texts.NOTE} The user stopped this answer here.")] if text else []
    calls = tuple(_call(part) for part in message.parts if part["type"] == "tool_call")
    reasoning = "".join(part["text"] for part in message.parts if part["type"] == "reasoning")
    files = tuple(file_of(part) for part in message.parts if part["type"] == "file")
    output = ModelItem(text=text, reasoning=reasoning, calls=calls, provider=message.provider, files=files)
    return [output, *(_result(call, results, notes) for call in calls)]


def file_part(file: FileRef) -> JsonObject:
    """Return a file as a part of a message."""
    part: JsonObject = {"type": "file", "reference": file.reference, "media_type": file.media_type, "name": file.name}
    return {name: value for name, value in part.items() if value is not None}


def file_of(part: Mapping[str, Any]) -> FileRef:
    """Return the file of such a part."""
    return FileRef(reference=part["reference"], media_type=part.get("media_type"), name=part.get("name"))


def _call(part: Mapping[str, Any]) -> CallItem:
    return CallItem(
        call_id=part["tool_call_id"],
        tool_name=part["tool_name"],
        arguments=part.get("arguments"),
        arguments_text=part.get("arguments_text", ""),
        provider_call_id=part.get("provider_call_id"),
    )


def _result(call: CallItem, results: Mapping[str, JsonObject], notes: Mapping[str, str]) -> ToolResultItem:
    result = results.get(call.call_id)
    status, output = (
        ("outcome_unknown", texts.OUTCOME_UNKNOWN) if result is None else (result["status"], result["output"])
    )
    if call.call_id in notes:
        output = f"{output}\n\n{texts.NOTE} The person who approved this call wrote: {notes[call.call_id]}"
    return ToolResultItem(call_id=call.call_id, tool_name=call.tool_name, status=status, output=output)


def wire_ids(items: Iterable[HistoryItem], provider: str) -> dict[str, str]:
    """Return the id that each call has on the wire to a provider, by our own id.

    A provider gets its own ids back (field case F010), unless they are repeated or somebody else's (F008, F014), or
    look like ours: then it gets ours, which are unique and match `[a-zA-Z0-9_-]{1,64}`.
    """
    ids: dict[str, str] = {}
    used: set[str] = set()
    for item in items:
        if not isinstance(item, ModelItem):
            continue
        native = (item.provider or {}).get("provider") == provider
        for call in item.calls:
            theirs = call.provider_call_id
            echoes = native and theirs and theirs not in used and version_of(theirs) is None
            echoed = theirs if echoes and theirs else call.call_id
            used.add(echoed)
            ids[call.call_id] = echoed
    return ids
