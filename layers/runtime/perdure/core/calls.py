"""The calls of the running turn: how one gets its result, is made ready, taken, started or withdrawn."""

from __future__ import annotations

from perdure.core.decision import Draft
from perdure.core.head import Call
from perdure.core.limits import LEASE_DURATION, MAX_PARALLEL_WRITES
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


def make_ready(draft: Draft) -> None:
    """Begin the first attempt of every approved call that may run now: all reads, and writes while 8 places last.

    A write keeps its place until it is final, so an approval that comes later never pushes out one that runs; and
    its attempts are counted from here, not from when it began to wait for a place. While paused nothing begins.
    """
    if draft.head.paused_at is not None:
        return
    calls = draft.turn.calls
    free = MAX_PARALLEL_WRITES - sum(1 for call in calls if call.is_ready and not call.is_read)
    made_ready = []
    for call in calls:
        if call.status == "approved" and not call.is_ready and (call.is_read or free > 0):
            free -= 0 if call.is_read else 1
            call = replace(call, ready_at=draft.now, first_attempt_at=draft.now)
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


def put_off(draft: Draft, call: Call) -> None:
    """Let the next attempt of a call begin when the gate is open again; this one never ran."""
    again = replace(call, attempt=call.attempt + 1, spared=call.spared + 1, claimed_by=None, claimed_until=None)
    draft.set_turn(draft.turn.with_call(again))


def withdraw_calls(draft: Draft, *, text: str, reason: str, running_reads: bool) -> None:
    """Settle every call that no worker started, because its turn is being ended. Started writes are waited for.

    Args:
        text: What the model is told of each.
        reason: The `cancellation_reason` that everybody is told.
        running_reads: Withdraw also the reads that may be running: they change nothing, so their results are dropped.
    """
    for call in draft.turn.open_calls:
        interrupt = next((i for i in draft.turn.interrupts if i.call_id == call.call_id), None)
        if interrupt is not None and interrupt.raised_at is not None:
            draft.event(
                "interrupt_resolved",
                {"interrupt_id": interrupt.interrupt_id, "kind": interrupt.kind, "cancellation_reason": reason},
            )
        runs = call.started is not None or (call.is_read and call.is_ready and not running_reads)
        if not runs:
            settle_call(draft, call, "rejected", text, reason=reason)
