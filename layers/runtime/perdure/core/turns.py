"""How a turn opens, joins its calls and closes. Every decision module ends here."""

from __future__ import annotations

from perdure.core import texts
from perdure.core.decision import Draft
from perdure.core.head import Call, ClosedTurn, ModelStep, Turn, TurnError
from perdure.core.limits import LEASE_DURATION, MAX_ERROR_CHARACTERS, MAX_PARALLEL_WRITES, PREVIEW_CHARACTERS
from perdure.core.usage import CallUsage
from perdure.core.values import replace


def open_turn(draft: Draft, message_id: str, input_version: int) -> None:
    """Start the next turn with an accepted message: number it, append the message, ask the model."""
    number = draft.head.turn_count + 1
    draft.turn_id = f"turn-{number}"
    message = draft.message("user", message_id=message_id, input_version=input_version)
    draft.event("turn_started", {"sequence": message.sequence, "message_id": message_id})
    draft.head = replace(draft.head, turn_count=number, last_turn_error=None)
    draft.set_turn(
        Turn(
            turn_id=draft.turn_id,
            opened_version=draft.version,
            first_sequence=message.sequence,
            message_id=message_id,
            started_at=draft.now,
        )
    )
    ask_model(draft)


def ask_model(draft: Draft) -> None:
    """Make a model step ready. It is the only way to start a model call."""
    step = ModelStep(step_id=draft.new_id("model"), attempt=1, ready_at=draft.now, first_attempt_at=draft.now)
    if draft.taker is not None:
        step = replace(step, claimed_by=draft.taker.owner, claimed_until=draft.now + LEASE_DURATION)
    draft.set_turn(replace(draft.turn, step=step))


def settle_call(draft: Draft, call: Call, status: str, output: str, *, reason: str | None = None) -> None:
    """Give a call its one and only result, in the transcript and as an event."""
    draft.message(
        "tool",
        (
            {
                "type": "tool_result",
                "tool_call_id": call.call_id,
                "tool_name": call.tool_name,
                "status": status,
                "output": output,
            },
        ),
    )
    draft.event(
        "tool_call_finished",
        {
            "tool_call_id": call.call_id,
            "tool_name": call.tool_name,
            "status": status,
            "cancellation_reason": reason,
        },
        step=call.call_id,
        attempt=call.attempt,
    )
    settled = replace(call, status=status, not_before=None, ready_at=None, claimed_by=None, claimed_until=None)
    turn = draft.turn.with_call(settled)
    waiting = tuple(i for i in turn.interrupts if i.call_id != call.call_id)
    draft.set_turn(replace(turn, interrupts=waiting))


def join_calls(draft: Draft, inline: frozenset[str] = frozenset()) -> None:
    """When every call has its result: ask the model again, or end a turn that is being stopped.

    Args:
        inline: Calls that the worker of the model step may run itself.
    """
    if draft.turn.open_calls:
        _make_ready(draft)
        _take(draft, inline)
    elif draft.turn.stop is not None:
        cancel_turn(draft)
    else:
        ask_model(draft)


def _make_ready(draft: Draft) -> None:
    """Begin the first attempt of every approved call that may run now: all reads, and writes while 8 places last.

    A write keeps its place until it is final, so an approval that comes later never pushes out one that runs; and
    its attempts are counted from here, not from when it began to wait for a place.
    """
    calls = draft.turn.calls
    free = MAX_PARALLEL_WRITES - sum(1 for call in calls if call.is_ready and not call.is_read)
    made_ready = []
    for call in calls:
        if call.status == "approved" and not call.is_ready and (call.is_read or free > 0):
            free -= 0 if call.is_read else 1
            call = replace(call, ready_at=draft.now, first_attempt_at=draft.now)
        made_ready.append(call)
    draft.set_turn(replace(draft.turn, calls=tuple(made_ready)))


def _take(draft: Draft, inline: frozenset[str]) -> None:
    """Let the committing worker go on with a call that is alone ready; a write counts as started from here."""
    taker = draft.taker
    ready = [call for call in draft.turn.calls if call.is_ready]
    if taker is None or len(ready) != 1:
        return
    (call,) = ready
    if call.ready_at != draft.now or call.attempt > 1 or not (taker.any_tool or call.call_id in inline):
        return
    call = replace(call, claimed_by=taker.owner, claimed_until=draft.now + LEASE_DURATION)
    if not call.is_read:
        call = started_by(draft, call, taker.owner)
    draft.set_turn(draft.turn.with_call(call))


def started_by(draft: Draft, call: Call, owner: str) -> Call:
    """Record that the body of a write is about to run, and who runs it."""
    draft.event(
        "tool_call_started",
        {"tool_call_id": call.call_id, "tool_name": call.tool_name},
        step=call.call_id,
        attempt=call.attempt,
    )
    return replace(call, started=owner, started_attempt=call.attempt)


def complete_turn(draft: Draft, *, answer: str, reason: str | None = None, policy_name: str | None = None) -> None:
    """End the turn with the model's answer, or because a named policy had seen enough."""
    payload = {"message_count": _message_count(draft), "reason": reason, "policy_name": policy_name}
    draft.event("turn_completed", payload)
    _close(draft, "completed", preview=answer)


def fail_turn(draft: Draft, code: str, message: str) -> None:
    """End the turn without an answer; the reason stays visible until the next turn starts."""
    if len(message) > MAX_ERROR_CHARACTERS:
        message = message[: MAX_ERROR_CHARACTERS - 1] + "…"
    draft.event("turn_failed", {"error": {"code": code, "message": message}, "message_count": _message_count(draft)})
    draft.head = replace(draft.head, last_turn_error=TurnError(code=code, message=message))
    _close(draft, "failed")


def cancel_turn(draft: Draft) -> None:
    """End a turn that was stopped and has nothing left to wait for."""
    draft.event("turn_cancelled", {"message_count": _message_count(draft)})
    _close(draft, "cancelled")


def reject_open_calls(draft: Draft) -> None:
    """Settle every call of a stopped turn that nobody started; started writes are waited for.

    A running read counts as not started: it changes nothing, so its result is dropped.
    """
    for call in draft.turn.open_calls:
        interrupt = next((i for i in draft.turn.interrupts if i.call_id == call.call_id), None)
        if interrupt is not None:
            draft.event(
                "interrupt_resolved",
                {
                    "interrupt_id": interrupt.interrupt_id,
                    "kind": interrupt.kind,
                    "cancellation_reason": "turn_cancelled",
                },
            )
        if call.started is None:
            settle_call(draft, call, "rejected", texts.STOPPED_BEFORE_START, reason="turn_cancelled")


def record_usage(draft: Draft, rows: tuple[CallUsage, ...], *, step: str, attempt: int, turn_id: str | None) -> None:
    """Count the provider calls of a model step's attempt, also of one that nobody expects any more."""
    if rows:
        draft.usage(rows, turn_id)
    for _ in rows:  # the figures are the entry's: see `public_event`
        draft.event("usage_recorded", step=step, attempt=attempt, turn_id=turn_id)


def _message_count(draft: Draft) -> int:
    return draft.message_sequence - draft.turn.first_sequence


def _close(draft: Draft, outcome: str, preview: str | None = None) -> None:
    turn = draft.turn
    closed = ClosedTurn(
        turn_id=turn.turn_id,
        opened_version=turn.opened_version,
        closed_version=draft.version,
        outcome=outcome,
    )
    draft.turn_usage(turn.usage)
    draft.head = replace(
        draft.head,
        turn=None,
        last_turn=closed,
        last_activity_at=draft.now,
        preview=draft.head.preview if not preview else preview_of(preview),
    )
    draft.turn_id = None
    if draft.head.inbox:
        first, *rest = draft.head.inbox
        draft.head = replace(draft.head, inbox=tuple(rest))
        open_turn(draft, first.message_id, first.input_version)


def preview_of(text: str) -> str:
    """Return the start of a text on one line, for lists."""
    line = " ".join(text[: PREVIEW_CHARACTERS * 4].split())
    return line if len(line) <= PREVIEW_CHARACTERS else line[: PREVIEW_CHARACTERS - 1] + "…"
