"""The calls of the running turn: how one gets its result, is made ready, taken, started or withdrawn."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from perdure.core import texts
from perdure.core.decision import Draft
from perdure.core.head import Call, Cancellation
from perdure.core.limits import LEASE_DURATION, MAX_PARALLEL_WRITES
from perdure.core.outputs import seal
from perdure.core.values import replace


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
                **seal(output),
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
    settled = replace(
        call,
        status=status,
        not_before=None,
        ready_at=None,
        claimed_by=None,
        claimed_until=None,
        wait=None,
        task=None,
        records=(),
        arrived=(),
    )
    turn = draft.turn.with_call(settled)
    waiting = tuple(i for i in turn.interrupts if i.call_id != call.call_id)
    draft.set_turn(replace(turn, interrupts=waiting))


def make_ready(draft: Draft) -> None:
    """Begin the next attempt of every approved call that may run now: reads, writes while 8 places last, one of a lane.

    A write keeps its place until it is final or waits, so an approval that comes later never pushes out one that runs;
    and its attempts are counted from here, not from when it began to wait for a place. While paused nothing begins.
    """
    if draft.head.paused_at is not None:
        return
    calls = draft.turn.calls
    free = MAX_PARALLEL_WRITES - sum(1 for call in calls if call.holds_a_place)
    holders = {call.lane: call.call_id for call in calls if call.holds_lane}
    made_ready = []
    for call in calls:
        waits = call.status == "approved" and call.ready_at is None
        in_line = holders.get(call.lane, call.call_id) != call.call_id
        if waits and (call.is_read or free > 0) and not in_line:
            free -= 0 if call.is_read else 1
            call = replace(call, ready_at=draft.now, first_attempt_at=draft.now)
            if call.lane is not None:
                holders[call.lane] = call.call_id
        made_ready.append(call)
    draft.set_turn(replace(draft.turn, calls=tuple(made_ready)))


def take_call(draft: Draft, inline: frozenset[str]) -> None:
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


def told_of_start(draft: Draft, call: Call, at: datetime) -> None:
    """Tell of a read's start, which nobody has committed, together with how its attempt ended."""
    if call.is_read:
        draft.event(
            "tool_call_started",
            {"tool_call_id": call.call_id, "tool_name": call.tool_name},
            at=at,
            step=call.call_id,
            attempt=call.attempt,
        )


def put_off(draft: Draft, call: Call) -> None:
    """Let the next attempt of a call begin when the gate is open again; this one never ran."""
    again = replace(call, attempt=call.attempt + 1, spared=call.spared + 1, claimed_by=None, claimed_until=None)
    draft.set_turn(draft.turn.with_call(again))


def await_again(call: Call, **changes: Any) -> Call:
    """Return a call whose attempt is over and whose next one waits to be made ready, with a budget of its own."""
    return replace(
        call,
        status="approved",
        attempt=call.attempt + 1,
        spared=call.attempt,
        ready_at=None,
        not_before=None,
        claimed_by=None,
        claimed_until=None,
        wait=None,
        **changes,
    )


def withdraw_calls(draft: Draft, *, reason: str) -> None:
    """Settle every call that nobody works on, because its turn is being ended.

    Of a turn that is stopped (`turn_cancelled`) all but writes that run: what a read would bring is dropped, and of
    what has begun and only waits the outcome is unknown. One that gives way to a message (`steered`) lets finish
    whatever has begun, its questions included (spec TASK-07, U-2).

    Args:
        reason: The `cancellation_reason` that everybody is told.
    """
    stopped = reason == "turn_cancelled"
    for call in draft.turn.open_calls:
        if call.has_begun_and_waits:
            runs = call.status == "approved" and call.ready_at is not None and not call.is_read
            if stopped and not runs:
                _abandon(draft, call, reason)
            continue
        runs = call.started is not None or (call.is_read and call.ready_at is not None and not stopped)
        if not runs:
            withdraw_interrupt(draft, call, reason)
            settle_call(draft, call, "rejected", texts.withdrawn(call.status, reason), reason=reason)


def withdraw_interrupt(draft: Draft, call: Call, reason: str) -> None:
    """Tell that what a person was asked for a call needs no decision any more."""
    interrupt = next((i for i in draft.turn.interrupts if i.call_id == call.call_id), None)
    if interrupt is not None and interrupt.raised_at is not None:
        draft.event(
            "interrupt_resolved",
            {"interrupt_id": interrupt.interrupt_id, "kind": interrupt.kind, "cancellation_reason": reason},
        )


def _abandon(draft: Draft, call: Call, reason: str) -> None:
    """End a call that has begun and waits: it may have taken effect, and its task is asked to stop (spec TASK-08)."""
    withdraw_interrupt(draft, call, reason)
    if call.task is not None and call.task.kind == "task":
        ask_to_cancel(draft, call)
        settle_call(draft, call, "outcome_unknown", texts.TASK_ABANDONED, reason=reason)
    elif call.is_read:
        settle_call(draft, call, "rejected", texts.withdrawn(call.status, reason), reason=reason)
    else:
        settle_call(draft, call, "outcome_unknown", texts.OUTCOME_UNKNOWN, reason=reason)


def end_of_stopped(draft: Draft, call: Call) -> None:
    """End a call of a stopped turn that would go on later: of a write nobody knows what it has done."""
    if call.is_read:
        settle_call(draft, call, "rejected", texts.STOPPED_BEFORE_START, reason="turn_cancelled")
    else:
        settle_call(draft, call, "outcome_unknown", texts.OUTCOME_UNKNOWN, reason="turn_cancelled")


def ask_to_cancel(draft: Draft, call: Call) -> None:
    """Have a call's remote work asked to stop; nobody waits for it."""
    assert call.task is not None, "it has remote work"
    cancellation = Cancellation(
        step_id=draft.new_id("cancel"),
        call_id=call.call_id,
        turn_id=draft.turn.turn_id,
        tool_name=call.tool_name,
        task_version=call.task.started_version or call.task.version,
        attempt=1,
        ready_at=draft.now,
        first_attempt_at=draft.now,
    )
    draft.head = replace(draft.head, cancellations=(*draft.head.cancellations, cancellation))
