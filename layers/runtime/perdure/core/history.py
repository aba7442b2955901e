"""What the model is shown of the past: a deterministic projection of the log.

Every call has exactly one result directly behind its message, in the model's order (spec MODEL-08, MODEL-09). What
became of a turn is in its facts, and is told in notes that are never stored (spec U-5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from perdure.core import texts
from perdure.core.entries import Entry, Message

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserItem:
    """A user's text, or a note of ours."""

    text: str


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultItem:
    """The one result of a call."""

    call_id: str
    tool_name: str
    status: str
    output: str


HistoryItem = UserItem | ModelItem | ToolResultItem


@dataclass(slots=True)
class _Facts:
    """What the entries say about messages and turns, gathered before anything is rendered."""

    inputs: dict[str, str] = field(default_factory=dict)
    results: dict[str, JsonObject] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    endings: dict[str, str] = field(default_factory=dict)


def history(entries: Iterable[Entry]) -> tuple[HistoryItem, ...]:
    """Return the conversation in the order in which the model should see it.

    Args:
        entries: The log from its oldest entry on, including the entries that accepted the messages' inputs.
    """
    log = tuple(entries)
    facts = _gather(log)
    items: list[HistoryItem] = []
    messages = [message for entry in log for message in entry.messages]
    for position, message in enumerate(messages):
        if message.role == "user":
            items.append(UserItem(text=facts.inputs.get(message.message_id, "")))
        elif message.role == "assistant":
            items += _model_output(message, facts)
        ends_turn = position + 1 == len(messages) or messages[position + 1].turn_id != message.turn_id
        if ends_turn and (note := _ending_note(message.turn_id, messages, facts)):
            items.append(UserItem(text=note))
    return tuple(items)


def _gather(entries: Iterable[Entry]) -> _Facts:
    facts = _Facts()
    for entry in entries:
        for accepted in entry.inputs:
            facts.inputs[accepted.message_id] = accepted.text
        for message in entry.messages:
            for part in message.parts:
                if part["type"] == "tool_result":
                    facts.results[part["tool_call_id"]] = part
        for event in entry.events:
            if event.type == "interrupt_resolved" and event.payload.get("approved") and event.payload.get("message"):
                facts.notes[event.payload["interrupt_id"]] = event.payload["message"]
            elif event.type in ("turn_failed", "turn_cancelled") and event.turn_id:
                facts.endings[event.turn_id] = event.type
    return facts


def _model_output(message: Message, facts: _Facts) -> list[HistoryItem]:
    if message.status in ("truncated", "filtered", "refused"):
        return []  # never shown as an answer; the turn's note says that it failed
    text = "".join(part["text"] for part in message.parts if part["type"] == "text")
    if message.status == "interrupted":
        return [ModelItem(text=f"{text}\n\n{texts.NOTE} The user stopped this answer here.")] if text else []
    calls = tuple(_call(part) for part in message.parts if part["type"] == "tool_call")
    reasoning = "".join(part["text"] for part in message.parts if part["type"] == "reasoning")
    output = ModelItem(text=text, reasoning=reasoning, calls=calls, provider=message.provider)
    return [output, *(_result(call, facts.results, facts.notes) for call in calls)]


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


def _ending_note(turn_id: str, messages: list[Message], facts: _Facts) -> str | None:
    """Return the note behind a turn that failed or was stopped; None for one that ended well or still runs."""
    ending = facts.endings.get(turn_id)
    if ending is None:
        return None
    ran = [
        f"{part['tool_name']} ({part['status']})"
        for message in messages
        if message.turn_id == turn_id
        for part in message.parts
        if part["type"] == "tool_result" and part["status"] != "rejected"
    ]
    what = "The user stopped this turn." if ending == "turn_cancelled" else "This turn failed before it was answered."
    if not ran:
        return f"{texts.NOTE} {what}" if ending == "turn_cancelled" else None
    return (
        f"{texts.NOTE} {what} These tool calls have a final record: {', '.join(ran)}. "
        "Do not repeat these tool calls unless the user asks again."
    )


def wire_ids(items: Iterable[HistoryItem], provider: str) -> dict[str, str]:
    """Return the id that each call has on the wire to a provider, by our own id.

    A provider gets its own ids back (field case F010), unless they are repeated or somebody else's (F008, F014):
    then it gets ours, which are unique and match `[a-zA-Z0-9_-]{1,64}`.
    """
    ids: dict[str, str] = {}
    used: set[str] = set()
    for item in items:
        if not isinstance(item, ModelItem):
            continue
        native = (item.provider or {}).get("provider") == provider
        for call in item.calls:
            theirs = call.provider_call_id
            echoed = theirs if native and theirs and theirs not in used else call.call_id
            used.add(echoed)
            ids[call.call_id] = echoed
    return ids
