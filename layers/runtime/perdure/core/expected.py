"""What should be in flight is a function of HEAD: the steps to run, the timers to fire, when to look again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perdure.core.head import Call, Head
from perdure.core.limits import START_LEASE, TIMER_GRACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """A step that somebody should run. `kind` is `run_model`, `call_tool` or `call_single_attempt_tool`."""

    kind: str
    step_id: str
    attempt: int
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Something that should happen at a time. With another `fence` it is another timer."""

    timer_id: str
    fence: int
    due_at: datetime


def expected_dispatches(head: Head) -> tuple[Dispatch, ...]:
    """Return the steps that should be running or on their way: a model step, or the calls that were made ready."""
    turn = head.turn
    if turn is None:
        return ()
    if turn.step is not None:
        step = turn.step
        return (Dispatch(kind="run_model", step_id=step.step_id, attempt=step.attempt, not_before=step.not_before),)
    return tuple(_dispatch(call) for call in turn.calls if call.is_ready)


def _dispatch(call: Call) -> Dispatch:
    kind = "call_single_attempt_tool" if call.runs_once else "call_tool"
    return Dispatch(kind=kind, step_id=call.call_id, attempt=call.attempt, not_before=call.not_before)


def expected_timers(head: Head) -> tuple[Timer, ...]:
    """Return the timers that should be set: the deadlines of pending interrupts."""
    turn = head.turn
    if turn is None:
        return ()
    return tuple(
        Timer(timer_id=i.interrupt_id, fence=i.fence, due_at=i.deadline)
        for i in turn.interrupts
        if i.deadline is not None
    )


def sweep_due_at(head: Head) -> datetime | None:
    """Return when the sweep should look at this session, or None while only a person is awaited."""
    turn = head.turn
    if turn is None:
        return None
    moments = [timer.due_at + TIMER_GRACE for timer in expected_timers(head)]
    if turn.step is not None:
        moments.append(turn.step.ready_at + START_LEASE)
    moments += [call.ready_at + START_LEASE for call in turn.calls if call.is_ready and call.ready_at]
    return min(moments, default=None)
