"""A person decides on a call, or does not decide in time."""

from __future__ import annotations

from datetime import timedelta

from perdure.core import texts
from perdure.core.calls import settle_call
from perdure.core.codec import format_time
from perdure.core.commands import ResolveInterrupt, TimerFired
from perdure.core.decision import Decision, Draft
from perdure.core.head import Call, Interrupt
from perdure.core.turns import join_calls
from perdure.core.values import replace
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError


def raise_approvals(draft: Draft, *, one_by_one: bool) -> None:
    """Ask for the decisions that were noted: all of them, or the first (spec APPR-07)."""
    for interrupt in draft.turn.interrupts[: 1 if one_by_one else None]:
        if interrupt.raised_at is None:
            _raise(draft, interrupt)


def _raise(draft: Draft, noted: Interrupt) -> None:
    call = draft.turn.call(noted.call_id)
    assert call is not None, "an approval belongs to a call"
    after = noted.decide_in_ms
    deadline = draft.now + timedelta(milliseconds=after) if after is not None else None
    raised = replace(noted, raised_at=draft.now, fence=draft.version, deadline=deadline, decide_in_ms=None)
    interrupts = tuple(raised if other is noted else other for other in draft.turn.interrupts)
    draft.set_turn(replace(draft.turn, interrupts=interrupts))
    draft.event(
        "interrupt_raised",
        {
            "interrupt_id": raised.interrupt_id,
            "kind": raised.kind,
            "tool_call_id": raised.call_id,
            "tool_name": call.tool_name,
            "arguments_hash": raised.arguments_hash,
            "deadline": format_time(deadline) if deadline else None,
        },
    )


def denial_key(tool_name: str, arguments_hash: str) -> str:
    """Return what marks a call that a person declined in this turn: its tool and arguments."""
    return f"{tool_name}:{arguments_hash[:16]}"


def _go_on(draft: Draft) -> None:
    """Ask for the next decision when they are asked one at a time, and let what was decided go on."""
    raise_approvals(draft, one_by_one=True)
    join_calls(draft)


def on_resolve_interrupt(draft: Draft, command: ResolveInterrupt) -> Decision:
    """Record the one decision on an interrupt. The deadline is checked here, not by its timer (field case F061).

    Raises:
        NotFoundError: `interrupt_not_found`: HEAD has no such interrupt; the caller checks whether it ever existed.
        RequestConflictError: `deadline_passed`, or `arguments_changed` when another call was shown.
        InvalidRequestError: An answer to an approval.
    """
    interrupt, call = _pending(draft, command.interrupt_id)
    if command.approved is None:
        raise InvalidRequestError(f"interrupt {command.interrupt_id!r} is an approval: send `approved`, not `answer`")
    if interrupt.deadline is not None and draft.now >= interrupt.deadline:
        raise RequestConflictError(
            f"the deadline of {command.interrupt_id!r} has passed: the call is not run",
            code="deadline_passed",
        )
    if command.arguments_hash is not None and command.arguments_hash != interrupt.arguments_hash:
        raise RequestConflictError(
            f"the arguments of {command.interrupt_id!r} are not those that were shown: read the session again",
            code="arguments_changed",
        )
    actor = {"issuer": command.actor.issuer, "subject": command.actor.subject}
    draft.event(
        "interrupt_resolved",
        {
            "interrupt_id": interrupt.interrupt_id,
            "kind": interrupt.kind,
            "approved": command.approved,
            "message" if command.approved else "rejection_message": command.message,
            "actor": actor,
        },
    )
    if command.approved:
        others = tuple(i for i in draft.turn.interrupts if i is not interrupt)
        approved = replace(call, status="approved")
        draft.set_turn(replace(draft.turn.with_call(approved), interrupts=others))
    else:
        denied = (*draft.turn.denied, denial_key(call.tool_name, interrupt.arguments_hash))
        draft.set_turn(replace(draft.turn, denied=denied))
        settle_call(draft, call, "rejected", texts.denied(command.message), reason="denied")
    _go_on(draft)
    return draft.decision({"result": "resolved"}, command.receipts)


def on_timer_fired(draft: Draft, command: TimerFired) -> Decision:
    """Expire an approval whose deadline came. A stale or early timer does nothing."""
    turn = draft.head.turn
    interrupt = next((i for i in turn.interrupts if i.interrupt_id == command.timer_id), None) if turn else None
    if interrupt is None or interrupt.fence != command.fence:
        return Decision.unchanged(draft.head)
    if interrupt.deadline is None or draft.now < interrupt.deadline:
        return Decision.unchanged(draft.head)
    _, call = _pending(draft, command.timer_id)
    draft.event(
        "interrupt_resolved",
        {
            "interrupt_id": interrupt.interrupt_id,
            "kind": interrupt.kind,
            "approved": False,
            "rejection_message": texts.APPROVAL_DEADLINE_PASSED,
            "actor": {"issuer": "perdure", "subject": "deadline"},
        },
    )
    settle_call(draft, call, "rejected", texts.APPROVAL_DEADLINE_PASSED, reason="deadline_passed")
    _go_on(draft)
    return draft.decision({"accepted": True})


def _pending(draft: Draft, interrupt_id: str) -> tuple[Interrupt, Call]:
    turn = draft.head.turn
    interrupt = next((i for i in turn.interrupts if i.interrupt_id == interrupt_id), None) if turn else None
    call = turn.call(interrupt.call_id) if turn and interrupt else None
    if interrupt is None or interrupt.raised_at is None or call is None:
        raise NotFoundError(f"no interrupt {interrupt_id!r} is pending", code="interrupt_not_found")
    return interrupt, call
