"""The public form of messages, events, calls and the snapshot (surface §4.2). Internal fields never leave here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perdure.core.codec import format_time
from perdure.core.cursor import Cursor, StepProgress
from perdure.core.entries import Entry, Event, Input, Message
from perdure.core.fates import TURN_ENDS, TurnFate, fates_of
from perdure.core.head import Call, ClosedTurn, Grant, Head, Interrupt, ModelStep, QueuedMessage
from perdure.core.history import file_part
from perdure.core.ids import content_hash
from perdure.core.inbox import inbox_state
from perdure.core.usage import call_figures, total_figures

JsonObject = dict[str, Any]

_INTERNAL_PART_FIELDS = ("provider_call_id", "sha256")


def public_messages(entries: Sequence[Entry]) -> list[JsonObject]:
    """Return the messages of a log that was read from its start, oldest first."""
    fates, inputs = fates_of(entries), inputs_of(entries)
    return [public_message(message, entry, inputs, fates) for entry in entries for message in entry.messages]


def inputs_of(entries: Iterable[Entry]) -> dict[tuple[int | None, str], Input]:
    """Return what some entries accepted. By version and message id, because a message that waits may be edited."""
    return {(entry.version, accepted.message_id): accepted for entry in entries for accepted in entry.inputs}


def public_message(
    message: Message,
    entry: Entry,
    inputs: Mapping[tuple[int | None, str], Input],
    fates: Mapping[str, TurnFate] | None = None,
) -> JsonObject:
    """Return one message; a user's text comes from the input that it points at.

    Args:
        inputs: As `inputs_of` returns them.
        fates: What became of its turn, by turn id; a turn that is not there still runs.
    """
    shown: JsonObject = {
        "message_id": message.message_id,
        "sequence": message.sequence,
        "turn_id": message.turn_id,
        "role": message.role,
        "parts": [_public_part(part) for part in message.parts],
        "created_at": format_time(entry.at),
    }
    if message.role == "user":
        accepted = inputs.get((message.input_version, message.message_id))
        files = [file_part(file) for file in accepted.files] if accepted else []
        shown["parts"] = [{"type": "text", "text": accepted.text if accepted else ""}, *files]
        if accepted and accepted.metadata is not None:
            shown["metadata"] = accepted.metadata
        shown |= written_by(accepted) if accepted else {}
    if message.status is not None:
        shown["status"] = message.status
    fate = (fates or {}).get(message.turn_id)
    if fate is not None and message.message_id in fate.rehomed:
        shown["status"] = "rehomed"
    elif fate is not None and message.role == "assistant":
        shown["parts"] = fate.cut(message.message_id, tuple(shown["parts"]))
        if fate.discarded:
            shown["status"] = "superseded"
    return shown


def written_by(accepted: Input) -> JsonObject:
    """Return `{actor?, source}`: who wrote a message, and on whose behalf (spec INBOX-18)."""
    by: JsonObject = {"source": accepted.source}
    if accepted.actor is not None:
        by["actor"] = accepted.actor.told()
    return by


def public_waiting(queued: QueuedMessage, accepted: Input, entry: Entry) -> JsonObject:
    """Return a message that waits, as the entry that accepted or last edited it has it."""
    shown: JsonObject = {
        "message_id": queued.message_id,
        "delivery": queued.delivery,
        "state": inbox_state(queued),
        "text": accepted.text,
        "created_at": format_time(entry.at),
        **written_by(accepted),
    }
    if queued.urgent:
        shown["urgent"] = True
    if accepted.files:
        shown["files"] = [file_part(file) for file in accepted.files]
    return shown


def _public_part(part: JsonObject) -> JsonObject:
    return {name: value for name, value in part.items() if name not in _INTERNAL_PART_FIELDS}


def public_event(
    event: Event, entry: Entry, index: int, session_id: str, progress: tuple[StepProgress, ...] = ()
) -> JsonObject:
    """Return one durable event.

    Args:
        index: Its place in its entry.
        progress: What its reader has seen of the steps that run.
    """
    shown: JsonObject = {"type": event.type, "sequence": event.sequence, "version": entry.version}
    shown["cursor"] = Cursor(version=entry.version, index=index + 1, progress=progress).encode(session_id)
    for name in ("turn_id", "step_execution_id", "attempt"):
        if (value := getattr(event, name)) is not None:
            shown[name] = value
    shown["at"] = format_time(event.at or entry.at)
    shown["payload"] = _payload(event, entry, index)
    return shown


def _payload(event: Event, entry: Entry, index: int) -> JsonObject:
    """Return what an event tells. Figures are the entry's own (docs/decisions/0004)."""
    if event.type == "usage_recorded":
        return _usage_payload(entry, index)
    if event.type in TURN_ENDS:
        return event.payload | {"usage": total_figures(entry.turn_usage)}
    return event.payload


def _usage_payload(entry: Entry, index: int) -> JsonObject:
    """Return the figures of the usage row that belongs to an event, and what the session had used by then."""
    row = sum(1 for event in entry.events[:index] if event.type == "usage_recorded")
    used = entry.usage_before.plus(entry.usage[: row + 1])
    return {"recorded": call_figures(entry.usage[row]), "session": total_figures(used)}


def public_calls(entries: Sequence[Entry], turn_id: str, head: Head) -> list[JsonObject]:
    """Return the calls of one turn in the model's order.

    What is final is told by the log, what is not by HEAD.
    """
    calls: dict[str, JsonObject] = {}
    for entry in entries:
        for message in entry.messages:
            if message.turn_id == turn_id:
                _take_parts(calls, message)
        for event in entry.events:
            if event.turn_id == turn_id:
                _take_event(calls, event)
    for call in head.turn.calls if head.turn and head.turn.turn_id == turn_id else ():
        if call.call_id in calls and not call.is_final:
            calls[call.call_id] |= {"status": call.status, "attempt": call.attempt}
            if call.wait is not None and call.wait.until is not None:
                calls[call.call_id]["wait_until"] = format_time(call.wait.until)
    return list(calls.values())


def _take_parts(calls: dict[str, JsonObject], message: Message) -> None:
    for part in message.parts:
        if part["type"] == "tool_call":
            shown = _public_part(part)
            shown.pop("type")
            shown["arguments_hash"] = content_hash(part.get("arguments", part.get("arguments_text", "")))
            calls[part["tool_call_id"]] = shown
        elif part["type"] == "tool_result" and part["tool_call_id"] in calls:
            field = "output" if part["status"] == "succeeded" else "error"
            calls[part["tool_call_id"]] |= {"status": part["status"], field: part["output"]}


def _take_event(calls: dict[str, JsonObject], event: Event) -> None:
    if event.type == "interrupt_resolved" and "arguments" in event.payload:
        changed = calls.get(event.payload["interrupt_id"])
        if changed is not None:
            asked_for = changed.get("arguments")
            changed |= {"arguments": event.payload["arguments"], "requested_arguments": asked_for}
    call = calls.get(event.payload.get("tool_call_id", ""))
    if call is None:
        return
    if event.type == "tool_call_deferred":
        call["effect"] = event.payload["effect"]
        call["requires_approval"] = event.payload["requires_approval"]
    elif event.type == "tool_call_finished":
        call["attempt"] = event.attempt or 1
        if "cancellation_reason" in event.payload:
            call["cancellation_reason"] = event.payload["cancellation_reason"]


def public_interrupts(head: Head, calls: Iterable[JsonObject], entries: Sequence[Entry] = ()) -> list[JsonObject]:
    """Return what waits for a person, with the arguments or the question that the decision is about.

    Args:
        entries: Those of the running turn.
    """
    by_id = {call["tool_call_id"]: call for call in calls}
    asked = questions_of(entries)
    return [
        _interrupt(interrupt, by_id.get(interrupt.call_id, {}), asked.get(interrupt.interrupt_id, {}))
        for interrupt in _pending(head)
    ]


def questions_of(entries: Iterable[Entry]) -> dict[str, JsonObject]:
    """Return the questions that some entries raised, by interrupt id: `{question, choices?, allows_free_text}`."""
    fields = ("question", "choices", "allows_free_text", "schema")
    raised = (e.payload for entry in entries for e in entry.events if e.type == "interrupt_raised")
    return {p["interrupt_id"]: {f: p[f] for f in fields if f in p} for p in raised if p["kind"] != "approval"}


def _pending(head: Head) -> tuple[Interrupt, ...]:
    asked = tuple(i for i in head.turn.interrupts if i.raised_at is not None) if head.turn else ()
    return asked + head.requests


def _interrupt(interrupt: Interrupt, call: Mapping[str, Any], question: JsonObject) -> JsonObject:
    shown: JsonObject = {"interrupt_id": interrupt.interrupt_id, "kind": interrupt.kind}
    if interrupt.call_id:
        shown["tool_call_id"] = interrupt.call_id
    if interrupt.kind == "approval":
        shown["arguments_hash"] = interrupt.arguments_hash
    for name in ("tool_name", "arguments", "arguments_text"):
        if name in call and (interrupt.kind == "approval" or name == "tool_name"):
            shown[name] = call[name]
    shown |= question
    if interrupt.deadline is not None:
        shown["deadline"] = format_time(interrupt.deadline)
    return shown


def public_state(head: Head, *, taken: bool = False) -> JsonObject | None:
    """Return the state of a session, or None for one that was never written.

    Args:
        taken: A worker has claimed the attempt of the model step that is expected.
    """
    if not head.exists:
        return None
    state: JsonObject = {
        "status": head.status,
        "turn_count": head.turn_count,
        "interaction_mode": head.interaction_mode,
        "version": head.version,
    }
    if head.turn is not None:
        state["turn_id"] = head.turn.turn_id
        if head.turn.stop is not None:
            state["stopping"] = True
        if head.turn.steer:
            state["steering"] = True
        if head.turn.step is not None:
            state["operation"] = _operation(head.turn.step, taken=taken)
    state |= _gates(head)
    if head.last_turn is not None:
        state["last_turn"] = _last_turn(head.last_turn)
    if head.last_turn_error is not None:
        state["last_turn_error"] = {"code": head.last_turn_error.code, "message": head.last_turn_error.message}
    if waiting := public_waiting_for(head):
        state["waiting_for"] = waiting
    if head.grants:
        state["grants"] = [_grant(each) for each in head.grants]
    return state


def _last_turn(closed: ClosedTurn) -> JsonObject:
    """Return how the latest turn that is over ended (spec SESS-10)."""
    outcome, reason = closed.outcome, closed.reason
    if reason in ("interrupted", "superseded", "abandoned"):
        outcome, reason = reason, None
    shown: JsonObject = {"turn_id": closed.turn_id, "outcome": outcome}
    return shown if reason is None else shown | {"reason": reason}


def _gates(head: Head) -> JsonObject:
    """Return what keeps a session from going on by itself."""
    shut = {"paused": head.paused_at is not None, "held": head.hold is not None, "closed": head.closed_at is not None}
    gates: JsonObject = {name: True for name, is_shut in shut.items() if is_shut}
    if head.hold is not None and head.hold.reason is not None:
        gates["blocked_reason"] = head.hold.reason
    return gates


def _grant(grant: Grant) -> JsonObject:
    shown: JsonObject = {"grant_id": grant.grant_id, "tool_name": grant.tool_name, "fields": list(grant.fields)}
    shown["expires_at"] = format_time(grant.expires_at)
    return shown if grant.uses_left is None else shown | {"uses_left": grant.uses_left}


def _operation(step: ModelStep, *, taken: bool) -> JsonObject:
    """Return the model step that runs or is about to: it is on record before its provider is called (spec SESS-16)."""
    waits = "queued" if step.waiting_since is None else "waiting"
    return {
        "kind": "model",
        "phase": "running" if taken or step.claimed_by is not None else waits,
        "step_execution_id": step.step_id,
        "attempt": step.attempt,
        "since": format_time(step.ready_at),
        "first_since": format_time(step.first_attempt_at),
    }


def public_waiting_for(head: Head) -> list[JsonObject]:
    """Return what a session waits for, besides a worker (surface §4.2)."""
    waiting: list[JsonObject] = []
    for interrupt in _pending(head):
        assert interrupt.raised_at is not None, "a pending one was raised"
        item = {"kind": interrupt.kind, "id": interrupt.interrupt_id, "since": format_time(interrupt.raised_at)}
        if interrupt.deadline is not None:
            item["until"] = format_time(interrupt.deadline)
        waiting.append(item)
    waits = [_wait_of(call) for call in head.turn.open_calls] if head.turn else []
    waiting += [wait for wait in waits if wait is not None]
    step = head.turn.step if head.turn else None
    if step is not None and step.waiting_since is not None and step.not_before is not None:
        since, until = format_time(step.waiting_since), format_time(step.not_before)
        waiting.append({"kind": "retry", "id": step.step_id, "since": since, "until": until})
    return waiting


def _wait_of(call: Call) -> JsonObject | None:
    """Return what an open call waits for, if that is neither a worker nor a person."""
    if call.task is not None and call.status == "waiting_for_task":
        return {"kind": "task", "id": call.call_id, "since": format_time(call.task.since)}
    if call.wait is None:
        return None
    kind = "timer" if call.wait.kind == "timer" else "event"
    shown = {"kind": kind, "id": call.call_id, "since": format_time(call.wait.since)}
    if call.wait.until is not None:
        shown["until"] = format_time(call.wait.until)
    return shown


def public_usage(head: Head) -> JsonObject:
    """Return the session's usage so far."""
    return total_figures(head.usage)


def public_summary(session_id: str, head: Head) -> JsonObject:
    """Return one row of the session list."""
    row: JsonObject = {
        "session_id": session_id,
        "agent": head.agent,
        "status": head.status,
        "version": head.version,
        "turn_count": head.turn_count,
        "preview": head.preview,
    }
    if head.created_at is not None:
        row["created_at"] = format_time(head.created_at)
    if head.last_activity_at is not None:
        row["last_activity_at"] = format_time(head.last_activity_at)
    if head.title is not None:
        row["title"] = head.title
    row |= _gates(head)
    if waiting := public_waiting_for(head):
        row["waiting_for"] = waiting
    return row
