"""What a person is asked, and how it ends: by their decision, or by its deadline."""

from __future__ import annotations

from perdure.core.approvals import decide_approval, expire_approval, raise_approvals
from perdure.core.commands import ResolveInterrupt, TimerFired
from perdure.core.decision import Decision, Draft
from perdure.core.head import Call, Head, Interrupt
from perdure.core.inputs import expire_request, request_of, resolve_request
from perdure.core.questions import decide_question, expire_question
from perdure.core.schedules import TIMER_PREFIX, on_schedule_due
from perdure.core.turns import join_calls
from perdure.core.waits import end_wait, waiting_call
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError


def on_resolve_interrupt(draft: Draft, command: ResolveInterrupt) -> Decision:
    """Record the one decision on an interrupt. The deadline is checked here, not by its timer (field case F061).

    Raises:
        NotFoundError: `interrupt_not_found`: HEAD has no such interrupt; the caller checks whether it ever existed.
        RequestConflictError: `deadline_passed`, or `arguments_changed` when another call was shown.
        InvalidRequestError: The wrong kind of answer.
    """
    if (request := request_of(draft.head, command.interrupt_id)) is not None:
        return resolve_request(draft, request, command)
    interrupt, call = _pending(draft, command.interrupt_id)
    if interrupt.deadline is not None and draft.now >= interrupt.deadline:
        raise RequestConflictError(
            f"the deadline of {command.interrupt_id!r} has passed: it is answered no more", code="deadline_passed"
        )
    if command.value is not None:
        raise InvalidRequestError(f"interrupt {command.interrupt_id!r} takes no value: send `approved` or `answer`")
    if interrupt.kind == "approval":
        decide_approval(draft, interrupt, call, command)
    else:
        decide_question(draft, interrupt, call, command)
    _go_on(draft)
    return draft.decision({"result": "resolved"}, command.receipts)


def on_timer_fired(draft: Draft, command: TimerFired) -> Decision:
    """Let a deadline pass, a wait end, or a schedule occur. A stale or early timer does nothing (spec WAIT-08)."""
    if command.timer_id.startswith(TIMER_PREFIX):
        return on_schedule_due(draft, command)
    request = request_of(draft.head, command.timer_id)
    if request is not None:
        due = request.fence == command.fence and request.deadline is not None and draft.now >= request.deadline
        return expire_request(draft, request) if due else Decision.unchanged(draft.head)
    turn = draft.head.turn
    interrupt = next((i for i in turn.interrupts if i.interrupt_id == command.timer_id), None) if turn else None
    if interrupt is not None and interrupt.fence == command.fence:
        if interrupt.deadline is None or draft.now < interrupt.deadline:
            return Decision.unchanged(draft.head)
        _, call = _pending(draft, command.timer_id)
        expire = expire_approval if interrupt.kind == "approval" else expire_question
        expire(draft, interrupt, call)
        _go_on(draft)
        return draft.decision({"accepted": True})
    waiting = waiting_call(turn, command.timer_id)
    if waiting is None or waiting.wait is None or waiting.wait.fence != command.fence:
        return Decision.unchanged(draft.head)
    if waiting.wait.until is None or draft.now < waiting.wait.until:
        return Decision.unchanged(draft.head)
    end_wait(draft, waiting, command.details, skipped=False)
    return draft.decision({"accepted": True})


def pending_interrupt(head: Head, interrupt_id: str) -> Interrupt | None:
    """Return the interrupt with this id if somebody has been asked, and nothing was decided yet."""
    interrupts = (*(head.turn.interrupts if head.turn else ()), *head.requests)
    return next((i for i in interrupts if i.interrupt_id == interrupt_id and i.raised_at is not None), None)


def _go_on(draft: Draft) -> None:
    """Ask for the next decision when they are asked one at a time, and let what was decided go on."""
    raise_approvals(draft, one_by_one=True)
    join_calls(draft)


def _pending(draft: Draft, interrupt_id: str) -> tuple[Interrupt, Call]:
    turn = draft.head.turn
    interrupt = next((i for i in turn.interrupts if i.interrupt_id == interrupt_id), None) if turn else None
    call = turn.call(interrupt.call_id) if turn and interrupt else None
    if interrupt is None or interrupt.raised_at is None or call is None:
        raise NotFoundError(f"no interrupt {interrupt_id!r} is pending", code="interrupt_not_found")
    return interrupt, call
