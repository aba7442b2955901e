"""Remote work of tools: started, looked at from time to time, and asked to stop when nobody wants it any more."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from perdure.core import texts
from perdure.core.asking import ask_for_tool
from perdure.core.calls import ask_to_cancel, settle_call, told_of_start
from perdure.core.codec import format_time
from perdure.core.commands import ToolFinished
from perdure.core.decision import Decision, Draft
from perdure.core.head import Call, Task, Wait
from perdure.core.limits import (
    CANCEL_RETRY_DELAYS,
    CANCEL_WINDOW,
    LONGEST_QUEUE_DELAY,
    MAX_ATTEMPTS,
    RECONCILE_DELAYS,
)
from perdure.core.turns import join_calls
from perdure.core.values import replace

if TYPE_CHECKING:
    from perdure.core.wait_commands import TaskCancelled, TaskLooked, TaskStarted

JsonObject = dict[str, Any]


def on_task_started(draft: Draft, command: TaskStarted) -> Decision:
    """Let a call wait for the work that it has started (spec TASK-01).

    A turn that is being stopped does not wait for it, and has it asked to stop.
    """
    call = draft.head.turn.call(command.call_id) if draft.head.turn else None
    if call is None or not call.is_ready or call.attempt != command.attempt or call.task is not None:
        return Decision.unchanged(draft.head)
    told_of_start(draft, call, command.started_at)
    draft.event(
        "tool_task_started",
        {
            "tool_call_id": call.call_id,
            "tool_name": call.tool_name,
            "task_id": command.task_id,
            "poll_interval_seconds": command.interval.total_seconds(),
        },
        step=call.call_id,
        attempt=call.attempt,
    )
    seconds = command.interval.total_seconds()
    handle = {"task_id": command.task_id, "interval_seconds": seconds, "continuation": command.continuation}
    draft.fact(call.call_id, "task", handle)
    task = Task(kind="task", version=draft.version, started_version=draft.version, since=draft.now)
    started = replace(call, task=task)
    if not command.polls:
        status, text = ("failed", texts.NO_POLLER) if call.is_read else ("outcome_unknown", texts.NO_POLLER)
        settle_call(draft, call, status, text)
    elif draft.turn.stop is not None:
        draft.set_turn(draft.turn.with_call(started))
        ask_to_cancel(draft, started)
        settle_call(draft, started, "outcome_unknown", texts.TASK_ABANDONED, reason="turn_cancelled")
    else:
        look_later(draft, started, command.interval)
    join_calls(draft)
    return draft.decision({"accepted": True})


def on_task_looked(draft: Draft, command: TaskLooked) -> Decision:
    """Go on waiting after a look that found the work pending, or ask for it (spec TASK-03, TASK-04)."""
    call = draft.head.turn.call(command.call_id) if draft.head.turn else None
    if call is None or call.task is None or not call.is_ready or call.attempt != command.attempt:
        return Decision.unchanged(draft.head)
    task = call.task
    _looked(draft, call, command.started_at, "pending" if command.question is None else "asks")
    if task.kind == "reconcile":
        delay = RECONCILE_DELAYS[task.looks] if task.looks < len(RECONCILE_DELAYS) else None
        if delay is None:
            settle_call(draft, call, "outcome_unknown", texts.OUTCOME_UNKNOWN)
        else:
            look_later(draft, replace(call, task=replace(task, looks=task.looks + 1)), delay)
        join_calls(draft)
        return draft.decision({"accepted": True})
    seconds = command.interval.total_seconds()
    draft.fact(call.call_id, "task", {"interval_seconds": seconds, "continuation": command.continuation})
    task = replace(task, version=draft.version, looks=task.looks + 1, resolution=None)
    if command.question is not None:
        # The next look carries this answer alone, so that an old one never reaches a new question (TASK-05).
        ask_for_tool(draft, replace(call, task=task, records=()), command.question, command.continuation)
    else:
        look_later(draft, replace(call, task=task), command.interval)
    join_calls(draft)
    return draft.decision({"accepted": True})


def told_of_look(draft: Draft, call: Call, outcome: ToolFinished) -> None:
    """Tell of a look that ended the call, or failed. Each look is in the history (spec TASK-02)."""
    _looked(draft, call, outcome.started_at, outcome.outcome)


def _looked(draft: Draft, call: Call, at: datetime, status: str) -> None:
    payload = {"tool_call_id": call.call_id, "status": status}
    draft.event("task.looked", payload, step=call.call_id, attempt=call.attempt, at=at)


def look_later(draft: Draft, call: Call, interval: timedelta) -> None:
    """Make the next look at remote work ready: by a delayed message, or by a timer where that would be too long."""
    at = draft.now + interval
    if interval > LONGEST_QUEUE_DELAY:
        wait = Wait(kind="task", since=draft.now, until=at, fence=draft.version)
        ended = replace(_next_look(call, None), attempt=call.attempt, spared=call.spared)  # the next one begins then
        waiting = replace(ended, ready_at=None, first_attempt_at=None, wait=wait)
        draft.set_turn(draft.turn.with_call(waiting))
    else:
        later = replace(_next_look(call, at), ready_at=at, first_attempt_at=at)
        draft.set_turn(draft.turn.with_call(later))


def look_now(draft: Draft, call: Call) -> None:
    """Make the next look at remote work ready at once."""
    now = replace(_next_look(call, None), ready_at=draft.now, first_attempt_at=draft.now)
    draft.set_turn(draft.turn.with_call(now))


def look_for_outcome(draft: Draft, call: Call) -> None:
    """Have looked up what became of an attempt whose outcome is not known, before the model is told so."""
    draft.event("task.reconciling", {"tool_call_id": call.call_id}, step=call.call_id, attempt=call.attempt)
    task = Task(kind="reconcile", version=draft.version, since=draft.now)
    look_later(draft, replace(call, task=task, parked=False), timedelta(0))


def _next_look(call: Call, at: Any) -> Call:
    """Return the call with its next attempt, which has a budget of its own."""
    return replace(
        call,
        status="waiting_for_task",
        attempt=call.attempt + 1,
        spared=call.attempt,
        not_before=at,
        claimed_by=None,
        claimed_until=None,
        wait=None,
    )


def on_task_cancelled(draft: Draft, command: TaskCancelled) -> Decision:
    """Forget work that was asked to stop, or ask again: 3 attempts within 2 minutes, then it is let be (TASK-08)."""
    waiting = next((c for c in draft.head.cancellations if c.step_id == command.step_id), None)
    if waiting is None or waiting.attempt != command.attempt:
        return Decision.unchanged(draft.head)
    others = tuple(c for c in draft.head.cancellations if c is not waiting)
    delay = CANCEL_RETRY_DELAYS[min(waiting.attempt, len(CANCEL_RETRY_DELAYS)) - 1]
    in_time = draft.now + delay - waiting.first_attempt_at < CANCEL_WINDOW
    if not command.done and not command.final and waiting.attempt < MAX_ATTEMPTS and in_time:
        at = draft.now + delay
        again = replace(waiting, attempt=waiting.attempt + 1, ready_at=at, not_before=at)
        draft.head = replace(draft.head, cancellations=(*others, again))
        return draft.decision({"accepted": True})
    draft.head = replace(draft.head, cancellations=others)
    payload = {"tool_call_id": waiting.call_id, "tool_name": waiting.tool_name, "cancelled": command.done}
    draft.event("task.cancelled", payload, step=waiting.step_id, attempt=waiting.attempt, turn_id=waiting.turn_id)
    return draft.decision({"accepted": True})


def task_shown(call: Call) -> JsonObject:
    """Return what everybody may see of a call's remote work."""
    assert call.task is not None, "it has some"
    return {"since": format_time(call.task.since), "looks": call.task.looks}
