"""Waits for a time: begun by the model or a tool, ended by their timer, and changed or skipped by people."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from perdure.core.approvals import raise_approvals
from perdure.core.calls import ask_to_cancel, await_again, settle_call, withdraw_interrupt
from perdure.core.codec import format_time
from perdure.core.commands import RequestedCall
from perdure.core.decision import Decision, Draft
from perdure.core.head import Call, Interrupt, Turn, Wait
from perdure.core.inputs import request_of
from perdure.core.limits import MAX_AHEAD, MAX_WAIT
from perdure.core.schedules import cancel_schedule, move, occur, schedule_of
from perdure.core.tasks import look_now
from perdure.core.turns import join_calls
from perdure.core.values import replace
from perdure.core.wait_commands import CancelWait, ChangeWait, SkipWait
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError

JsonObject = dict[str, Any]

SKIPPED = "A person ended the wait before its time."
CANCELLED = "A person cancelled this: it did not come to its end."


def begin_wait(draft: Draft, call: Call, requested: RequestedCall) -> None:
    """Let the model sleep (spec WAIT-01): a timer, and nothing else, until then."""
    arguments = requested.arguments or {}
    duration = timedelta(milliseconds=round(arguments["duration_seconds"] * 1000))
    until = draft.now + duration
    wait = Wait(kind="timer", since=draft.now, until=until, fence=draft.version)
    draft.set_turn(draft.turn.with_call(replace(call, wait=wait)))
    draft.event(
        "timer_started",
        {
            "tool_call_id": call.call_id,
            "duration_seconds": arguments["duration_seconds"],
            "until": format_time(until),
            "reason": arguments.get("reason"),
        },
    )


def waiting_call(turn: Turn | None, wait_id: str) -> Call | None:
    """Return the call with this id if it waits, or None."""
    call = turn.call(wait_id) if turn else None
    return call if call is not None and call.wait is not None else None


def end_wait(draft: Draft, call: Call, details: JsonObject, *, skipped: bool) -> None:
    """Go on with a call whose time has come, or that somebody does not want to wait any longer.

    Args:
        details: `reason`: what the model gave as its reason; it is where the call's arguments are.
    """
    wait = call.wait
    assert wait is not None, "it waits"
    if call.built_in:
        waited = draft.now - wait.since if skipped else (wait.until or draft.now) - wait.since
        told: JsonObject = {"status": "skipped" if skipped else "completed", "waited_seconds": _seconds(waited)}
        told |= {"reason": details["reason"]} if details.get("reason") else {}
        settle_call(draft, call, "succeeded", json.dumps(told, ensure_ascii=False))
    elif wait.kind == "task":
        look_now(draft, call)
    elif wait.kind == "event":
        late = draft.remember(call, "event", {"timed_out": True}, name=wait.name)
        # It is over for good: an event that comes after all would change what the next run of the tool sees.
        draft.set_turn(draft.turn.with_call(await_again(replace(late, arrived=(*late.arrived, wait.name)))))
    else:
        fact = draft.remember(call, "sleep", {"skipped": skipped}, name=wait.name)
        draft.set_turn(draft.turn.with_call(await_again(fact)))
    join_calls(draft)


def on_skip_wait(draft: Draft, command: SkipWait) -> Decision:
    """End a wait now, as if its time had come; of a schedule, send the next occurrence now.

    Raises:
        NotFoundError: `wait_not_found`: nothing of this id waits.
        RequestConflictError: `not_pending`: it waits for something that only arrives, not for a time.
    """
    schedule = schedule_of(draft.head, command.wait_id)
    if schedule is not None:
        if command.details.get("version") != schedule.version:
            raise RequestConflictError(
                f"{command.wait_id!r} was changed meanwhile: read it again", code="stale_revision"
            )
        draft.event("wait.skipped", {"wait_id": command.wait_id, "actor": command.actor.told()})
        occur(draft, schedule, command.details, early=True)
        return draft.decision({"result": "recorded"}, command.receipts)
    call = _waiting(draft, command.wait_id)
    assert call.wait is not None, "it waits"
    if call.wait.until is None:
        raise RequestConflictError(
            f"{command.wait_id!r} waits for no time: bring what it waits for, or cancel it", code="not_pending"
        )
    draft.event("wait.skipped", {"tool_call_id": call.call_id, "actor": command.actor.told()})
    end_wait(draft, call, command.details, skipped=True)
    return draft.decision({"result": "recorded"}, command.receipts)


def on_change_wait(draft: Draft, command: ChangeWait) -> Decision:
    """Move the time of a wait, or the deadline of a question or approval. A time that has passed ends it at once.

    Raises:
        NotFoundError: `wait_not_found`.
        InvalidRequestError: It would be too far away (365 days, a schedule eight years), or have no end.
        RequestConflictError: `deadline_passed`: the deadline is over, and its timer is on its way. `not_pending`: it
            waits for a result, which has no time.
    """
    schedule = schedule_of(draft.head, command.wait_id)
    check_distance(draft.now, command.until, MAX_WAIT if schedule is None else MAX_AHEAD)
    until = max(command.until, draft.now) if command.until is not None else None
    interrupt = _pending(draft, command.wait_id)
    request = request_of(draft.head, command.wait_id)
    if request is not None:
        check_open(request, draft.now)
        moved = replace(request, deadline=until, fence=draft.version, asked_version=request.raised_version)
        requests = tuple(moved if each is request else each for each in draft.head.requests)
        draft.head = replace(draft.head, requests=requests)
    elif schedule is not None:
        if command.until is None:
            raise InvalidRequestError(f"{command.wait_id!r} needs a time: send `until`, or cancel it")
        move(draft, schedule, command.until)
    elif interrupt is not None:
        check_open(interrupt, draft.now)
        moved = replace(interrupt, deadline=until, fence=draft.version, asked_version=interrupt.raised_version)
        _replace_interrupt(draft, interrupt, moved)
    else:
        call = _waiting(draft, command.wait_id)
        assert call.wait is not None, "it waits"
        if call.wait.kind == "result":
            raise RequestConflictError(
                f"{command.wait_id!r} waits for a result, not for a time: bring it, or cancel the wait",
                code="not_pending",
            )
        if until is None and call.wait.kind != "event":
            raise InvalidRequestError(f"{command.wait_id!r} needs a time: send `until`")
        changed = replace(call.wait, until=until, fence=draft.version)
        draft.set_turn(draft.turn.with_call(replace(call, wait=changed)))
    told = {"wait_id": command.wait_id, "until": format_time(until) if until else None, "actor": command.actor.told()}
    draft.event("wait.changed", told)
    return draft.decision({"result": "recorded"}, command.receipts)


def on_cancel_wait(draft: Draft, command: CancelWait) -> Decision:
    """End a wait without what it was for. The model is told; remote work is asked to stop.

    Raises:
        NotFoundError: `wait_not_found`.
    """
    schedule = schedule_of(draft.head, command.wait_id)
    if schedule is not None:
        cancel_schedule(draft, schedule, command.actor)
        return draft.decision({"result": "recorded"}, command.receipts)
    turn = draft.head.turn
    call = turn.call(command.wait_id) if turn else None
    if call is None or (call.wait is None and (call.task is None or call.is_final)):
        raise NotFoundError(f"nothing with the id {command.wait_id!r} waits", code="wait_not_found")
    draft.event("wait.cancelled", {"tool_call_id": call.call_id, "actor": command.actor.told()})
    withdraw_interrupt(draft, call, "cancelled")
    if call.task is not None and call.task.kind == "task":
        ask_to_cancel(draft, call)
    unknown = call.has_begun_and_waits and not call.is_read
    settle_call(draft, call, "outcome_unknown" if unknown else "rejected", CANCELLED, reason="cancelled")
    raise_approvals(draft, one_by_one=True)
    join_calls(draft)
    return draft.decision({"result": "recorded"}, command.receipts)


def check_open(interrupt: Interrupt, now: datetime) -> None:
    """Refuse to move a deadline that is over.

    Raises:
        RequestConflictError: `deadline_passed`.
    """
    if interrupt.deadline is not None and now >= interrupt.deadline:
        raise RequestConflictError(f"the deadline of {interrupt.interrupt_id!r} has passed", code="deadline_passed")


def check_distance(now: datetime, until: datetime | None, most: timedelta = MAX_WAIT) -> None:
    """Refuse a time that is too far away.

    Raises:
        InvalidRequestError: It is.
    """
    if until is not None and until - now > most:
        raise InvalidRequestError(f"{format_time(until)} is more than {most.days} days away: choose an earlier time")


def _waiting(draft: Draft, wait_id: str) -> Call:
    call = waiting_call(draft.head.turn, wait_id)
    if call is None:
        raise NotFoundError(f"nothing with the id {wait_id!r} waits", code="wait_not_found")
    return call


def _pending(draft: Draft, interrupt_id: str) -> Interrupt | None:
    interrupts = draft.head.turn.interrupts if draft.head.turn else ()
    return next((i for i in interrupts if i.interrupt_id == interrupt_id and i.raised_at is not None), None)


def _replace_interrupt(draft: Draft, old: Interrupt, new: Interrupt) -> None:
    draft.set_turn(replace(draft.turn, interrupts=tuple(new if i is old else i for i in draft.turn.interrupts)))


def _seconds(duration: timedelta) -> float:
    seconds = round(duration.total_seconds(), 3)
    return int(seconds) if seconds == int(seconds) else seconds
