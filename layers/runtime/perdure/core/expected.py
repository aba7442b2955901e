"""What should be in flight is a function of HEAD: the steps to run, the timers to fire, when to look again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perdure.core.head import Call, Cancellation, Head, ModelStep, Titling, Turn
from perdure.core.limits import CREDENTIAL_LOOK, START_LEASE, TIMER_GRACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """A step that somebody should run.

    `kind` is `run_model`, `call_tool`, `call_single_attempt_tool`, `poll_tool_task`, `cancel_tool_task` or
    `write_title`.

    One with `claimed_by` is run by the worker that made it ready: it is never sent, and given up only after
    `claimed_until`.
    """

    kind: str
    step_id: str
    attempt: int
    not_before: datetime | None = None
    claimed_by: str | None = None
    claimed_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Something that should happen at a time. With another `fence` it is another timer."""

    timer_id: str
    fence: int
    due_at: datetime


def expected_dispatches(head: Head) -> tuple[Dispatch, ...]:
    """Return the steps that should be running or on their way.

    A pause closes the gate for all of them but those of a turn that is being stopped, which they end.
    """
    if head.paused_at is not None and (head.turn is None or head.turn.stop is None):
        return _aside(head)
    return awaited_steps(head)


def awaited_steps(head: Head) -> tuple[Dispatch, ...]:
    """Return the steps whose outcome HEAD takes, paused or not: a model step, or the calls that were made ready."""
    global _latest  # noqa: PLW0603 - one turn is asked about again and again, by each of its steps and viewers
    turn = head.turn
    if turn is None:
        return _aside(head)
    known, steps = _latest
    if known is not turn:
        steps = _steps_of(turn)
        _latest = (turn, steps)
    return steps + _aside(head) if head.cancellations or head.titling else steps


def _aside(head: Head) -> tuple[Dispatch, ...]:
    """Return the steps that no turn waits for, and so no pause holds: to have remote work stopped, and a title made."""
    steps = [_dispatch("cancel_tool_task", each.step_id, each) for each in head.cancellations]
    if head.titling is not None:
        steps.append(_dispatch("write_title", head.titling.step_id, head.titling))
    return tuple(steps)


_latest: tuple[Turn | None, tuple[Dispatch, ...]] = (None, ())
"""The turn that was asked about last, and its steps. Values never change, so the same one has the same steps."""


def _steps_of(turn: Turn) -> tuple[Dispatch, ...]:
    if turn.step is not None:
        return (_dispatch("run_model", turn.step.step_id, turn.step),)
    return tuple([_dispatch(_kind(call), call.call_id, call) for call in turn.calls if call.is_ready])


def _kind(call: Call) -> str:
    if call.task is not None:
        return "poll_tool_task"
    return "call_single_attempt_tool" if call.runs_once else "call_tool"


def _dispatch(kind: str, step_id: str, step: ModelStep | Call | Cancellation | Titling) -> Dispatch:
    taken_by = None if isinstance(step, (Cancellation, Titling)) else step.claimed_by
    return Dispatch(
        kind=kind,
        step_id=step_id,
        attempt=step.attempt,
        not_before=step.not_before,
        claimed_by=taken_by,
        claimed_until=None if isinstance(step, (Cancellation, Titling)) or not taken_by else step.claimed_until,
    )


def expected_timers(head: Head) -> tuple[Timer, ...]:
    """Return the timers that should be set: deadlines of pending interrupts, ends of waits, schedules."""
    turn = head.turn
    schedules = [
        Timer(timer_id=f"schedule:{each.schedule_id}", fence=each.fence, due_at=each.due_at) for each in head.schedules
    ]
    schedules += [
        Timer(timer_id=each.interrupt_id, fence=each.fence, due_at=each.deadline)
        for each in head.requests
        if each.deadline is not None
    ]
    if turn is None:
        return tuple(schedules)
    deadlines = [
        Timer(timer_id=i.interrupt_id, fence=i.fence, due_at=i.deadline)
        for i in turn.interrupts
        if i.deadline is not None and i.raised_at is not None
    ]
    waits = [
        Timer(timer_id=call.call_id, fence=call.wait.fence, due_at=call.wait.until)
        for call in turn.calls
        if call.wait is not None and call.wait.until is not None
    ]
    return (*deadlines, *waits, *schedules)


def sweep_due_at(head: Head) -> datetime | None:
    """Return when the sweep should look at this session, or None while only a person is awaited."""
    turn = head.turn
    moments = [timer.due_at + TIMER_GRACE for timer in expected_timers(head)]
    steps: list[ModelStep | Call | Cancellation | Titling] = list(head.cancellations)
    steps += [head.titling] if head.titling is not None else []
    if turn is None:
        if head.hold is not None and head.hold.credential is not None:
            moments.append(head.hold.at + CREDENTIAL_LOOK)
    elif head.paused_at is None or turn.stop is not None:
        steps += [turn.step] if turn.step else [call for call in turn.calls if call.is_ready]
    moments += [moment for step in steps if (moment := _overdue_at(step)) is not None]
    return min(moments, default=None)


def _overdue_at(step: ModelStep | Call | Cancellation | Titling) -> datetime | None:
    """Return when to look whether a step shows a sign of life.

    The same for one that its worker took with the commit: the look finds the claim and moves on to its end. So a turn
    leaves the index of due sessions alone until it ends, unless a step is a long one.
    """
    return step.ready_at + START_LEASE if step.ready_at is not None else None
