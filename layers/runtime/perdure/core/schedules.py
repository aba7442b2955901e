"""Schedules of a session: messages that come at a time, or every so often (spec SCHD-01 to SCHD-07).

HEAD knows when the next occurrence is due, and the entry that set a schedule knows everything else. One commit sends an
occurrence's message and moves on to the next slot, so an occurrence is sent once, whoever fires it how often.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from perdure.core.admission import admit, begin_session
from perdure.core.codec import decode, encode, format_time
from perdure.core.commands import SendInput, TimerFired
from perdure.core.decision import Decision, Draft
from perdure.core.entries import Actor, ScheduleSpec
from perdure.core.head import Head, Schedule
from perdure.core.ids import content_hash
from perdure.core.inbox import DELIVERIES
from perdure.core.limits import LATE_AFTER, MAX_HEAD_BYTES, MAX_SCHEDULES, SCHEDULE_RETRY_LIMIT
from perdure.core.schedule_commands import CancelSchedule, SetSchedule
from perdure.core.size import head_bytes
from perdure.core.values import replace
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError, RequestError

JsonObject = dict[str, Any]

TIMER_PREFIX = "schedule:"
"""A schedule's timer is `schedule:<schedule_id>`."""

ROOM_FOR_A_MESSAGE = 1024
"""Bytes of HEAD that a message may take at most."""

ENDED_CODES = ("session_closed",)
"""Refusals of a message that no later try would change."""


def find_schedule(head: Head, schedule_id: str) -> Schedule | None:
    """Return the schedule with this id, or None."""
    return next((each for each in head.schedules if each.schedule_id == schedule_id), None)


def schedule_of(head: Head, timer_id: str) -> Schedule | None:
    """Return the schedule that a timer, or a wait, is that of; None for any other."""
    if not timer_id.startswith(TIMER_PREFIX):
        return None
    return find_schedule(head, timer_id.removeprefix(TIMER_PREFIX))


def on_set_schedule(draft: Draft, command: SetSchedule) -> Decision:
    """Set a schedule, once: the same content under the same id again changes nothing (spec WAIT-06).

    Raises:
        RequestConflictError: `schedule_exists`: the id has another content; `session_closed`; `stale_revision`: the one
            that it changes was changed.
        NotFoundError: `schedule_not_found`: the one that it changes is over.
        InvalidRequestError: Its time, its delivery, or one schedule too many.
    """
    from perdure.core.calendar import Recurrence, first_slot, parse_when

    begin_session(draft, command.actor, command.agent, command.default_agent)
    head = draft.head
    if head.closed_at is not None:
        raise RequestConflictError("this session is closed: start another one", code="session_closed")
    if command.delivery is not None and command.delivery not in DELIVERIES:
        raise InvalidRequestError(f"delivery {command.delivery!r} is unknown: use one of {', '.join(DELIVERIES)}")
    content = _content_of(command)
    known = find_schedule(head, command.schedule_id)
    if command.changes is not None:
        _check_as_read(known, command)
    says_when_anew = command.changes is not None and not command.keeps_time
    if known is not None and known.content == content and not says_when_anew:
        return Decision.unchanged(head, _reply(known))
    if known is not None and not command.replaces and command.changes is None:
        raise RequestConflictError(
            f"schedule {command.schedule_id!r} exists with another content: change it, or use another id",
            code="schedule_exists",
        )
    if known is None and len(head.schedules) >= MAX_SCHEDULES:
        raise InvalidRequestError(
            f"this session has {MAX_SCHEDULES} schedules, the most there may be: cancel one first"
        )
    set_at = known.set_at if known is not None and command.keeps_time else draft.now
    when = parse_when(command.when, now=set_at)
    at = first_slot(when, draft.now) if isinstance(when, Recurrence) else when
    if known is not None and command.keeps_time:
        at = known.slot
    assert at is not None, "a recurrence without a slot is refused"
    draft.schedule(
        ScheduleSpec(
            schedule_id=command.schedule_id,
            text=command.text,
            when=command.when,
            at=None if isinstance(when, Recurrence) else when,
            every=encode(when) if isinstance(when, Recurrence) else None,
            actor=command.actor,
            metadata=command.metadata,
            delivery=command.delivery,
            max_attempts=command.max_attempts,
        )
    )
    schedule = Schedule(
        schedule_id=command.schedule_id,
        version=draft.version,
        fence=draft.version,
        slot=at,
        moved_to=known.moved_to if known is not None and command.keeps_time else None,
        # Not from 1: a schedule that is set anew under an old id repeats no message id. It grows slower than versions.
        number=known.number if known is not None else draft.version,
        content=content,
        set_at=set_at,
    )
    _put(draft, schedule)
    draft.event(
        "schedule.set",
        {
            "schedule_id": command.schedule_id,
            "next_at": format_time(at),
            "when": command.when,
            "actor": command.actor.told(),
        },
    )
    return draft.decision(_reply(schedule), command.receipts)


def _check_as_read(known: Schedule | None, command: SetSchedule) -> None:
    if known is None:
        raise NotFoundError(f"this session has no schedule {command.schedule_id!r}", code="schedule_not_found")
    if known.version != command.changes:
        raise RequestConflictError(
            f"schedule {command.schedule_id!r} was changed meanwhile: read it again", code="stale_revision"
        )


def on_cancel_schedule(draft: Draft, command: CancelSchedule) -> Decision:
    """Forget a schedule. One whose timer is on its way stays cancelled.

    Raises:
        NotFoundError: `schedule_not_found`.
    """
    schedule = find_schedule(draft.head, command.schedule_id)
    if schedule is None:
        raise NotFoundError(f"this session has no schedule {command.schedule_id!r}", code="schedule_not_found")
    cancel_schedule(draft, schedule, command.actor)
    return draft.decision({"result": "recorded"}, command.receipts)


def cancel_schedule(draft: Draft, schedule: Schedule, actor: Actor) -> None:
    """Forget a schedule, and tell so."""
    remove(draft, schedule)
    draft.event("schedule.cancelled", {"schedule_id": schedule.schedule_id, "actor": actor.told()})


def on_schedule_due(draft: Draft, command: TimerFired) -> Decision:
    """Send an occurrence whose time has come. A stale or early timer does nothing."""
    schedule = schedule_of(draft.head, command.timer_id)
    if schedule is None or schedule.fence != command.fence or draft.now < schedule.due_at:
        return Decision.unchanged(draft.head)
    occur(draft, schedule, command.details)
    return draft.decision({"accepted": True})


def occur(draft: Draft, schedule: Schedule, details: JsonObject, *, early: bool = False) -> None:
    """Decide on one occurrence: it is sent, or tried again, or left out.

    Args:
        details: `spec`, and what the agent's `on_schedule` made of it: `text`, or `outcome` (`retry`, `skip`,
            `ended`) with a `reason`.
        early: Somebody did not want to wait for its time.
    """
    spec = decode(ScheduleSpec, dict(details["spec"]))
    outcome, reason = details.get("outcome"), str(details.get("reason") or "")
    if outcome is None and _still_waits(draft.head, schedule):
        outcome, reason = "skip", "its last message still waits"
    if outcome is None:
        outcome, reason = _sent(draft, schedule, spec, details.get("text") or spec.text, early=early)
    if outcome == "ended":
        _fail(draft, schedule, reason)
        remove(draft, schedule)
    elif outcome == "retry" and schedule.attempt < spec.max_attempts:
        delay = min(timedelta(seconds=2 ** min(schedule.attempt - 1, 10)), SCHEDULE_RETRY_LIMIT)
        again = replace(schedule, attempt=schedule.attempt + 1, fence=draft.version, retry_at=draft.now + delay)
        _put(draft, again)
    else:
        if outcome == "retry":
            _fail(draft, schedule, reason)
        elif outcome == "skip":
            draft.event(
                "schedule.skipped", {"schedule_id": schedule.schedule_id, "number": schedule.number, "reason": reason}
            )
        _move_on(draft, schedule, spec)


def _sent(draft: Draft, schedule: Schedule, spec: ScheduleSpec, text: str, *, early: bool) -> tuple[str | None, str]:
    """Send an occurrence's message; returns what came of it if that is not that it was sent."""
    message_id = f"{TIMER_PREFIX}{schedule.schedule_id}:{schedule.number}"
    late = draft.now - schedule.planned_at
    missed = 0 if early else _missed(spec, schedule.planned_at, draft.now)
    told: JsonObject = {"schedule_id": schedule.schedule_id, "number": schedule.number}
    told["scheduled_for"] = format_time(schedule.planned_at)
    if _is_shifted(spec, schedule.slot):
        told["shifted"] = True
    if late > LATE_AFTER:
        told |= {"late_seconds": int(late.total_seconds())} | ({"missed": missed} if missed else {})
    command = SendInput(
        text=text,
        actor=spec.actor,
        default_agent=draft.head.agent or "",
        message_id=message_id,
        delivery=spec.delivery or "queue",
        metadata=(spec.metadata or {}) | {"schedule": told},
        source="schedule",
    )
    if head_bytes(draft.head) > MAX_HEAD_BYTES - ROOM_FOR_A_MESSAGE:
        return "retry", "the session is full"
    try:
        admit(draft, command)
    except RequestError as error:
        return ("ended" if error.code in ENDED_CODES else "retry"), error.message
    if late > LATE_AFTER:
        draft.event("schedule.late", told)
    draft.event("schedule.fired", told | {"message_id": message_id})
    return None, ""


def _move_on(draft: Draft, schedule: Schedule, spec: ScheduleSpec) -> None:
    """Go on to the next slot after now: those that were missed are one (spec SCHD-04). One that has none is over."""
    from perdure.core.calendar import Recurrence, first_slot

    at = None
    if spec.every is not None:
        at = first_slot(decode(Recurrence, dict(spec.every)), max(draft.now, schedule.slot))
    if at is None:
        remove(draft, schedule)
        return
    _put(
        draft,
        replace(
            schedule,
            slot=at,
            number=schedule.number + 1,
            attempt=1,
            fence=draft.version,
            retry_at=None,
            moved_to=None,
        ),
    )


def _missed(spec: ScheduleSpec, slot: datetime, now: datetime) -> int:
    """Return how many slots behind this one have passed, too."""
    from perdure.core.calendar import Recurrence, slots_between

    return slots_between(decode(Recurrence, dict(spec.every)), slot, now) if spec.every is not None else 0


def _is_shifted(spec: ScheduleSpec, slot: datetime) -> bool:
    """Whether the time that was asked for is missing on this day, because clocks were put forward (field case F140)."""
    from perdure.core.calendar import Recurrence, is_shifted

    return spec.every is not None and is_shifted(decode(Recurrence, dict(spec.every)), slot)


def _still_waits(head: Head, schedule: Schedule) -> bool:
    prefix = f"{TIMER_PREFIX}{schedule.schedule_id}:"
    return any(message.message_id.startswith(prefix) for message in head.inbox)


def _fail(draft: Draft, schedule: Schedule, reason: str) -> None:
    payload = {"schedule_id": schedule.schedule_id, "number": schedule.number, "attempts": schedule.attempt}
    draft.event("schedule.failed", payload | {"reason": reason})


def _put(draft: Draft, schedule: Schedule) -> None:
    others = tuple(each for each in draft.head.schedules if each.schedule_id != schedule.schedule_id)
    draft.head = replace(draft.head, schedules=(*others, schedule))


def move(draft: Draft, schedule: Schedule, at: datetime) -> None:
    """Put the next occurrence at another time; the ones behind it keep theirs."""
    _put(draft, replace(schedule, moved_to=at, fence=draft.version, attempt=1, retry_at=None))


def remove(draft: Draft, schedule: Schedule) -> None:
    """Forget a schedule."""
    others = tuple(each for each in draft.head.schedules if each.schedule_id != schedule.schedule_id)
    draft.head = replace(draft.head, schedules=others)


def _content_of(command: SetSchedule) -> str:
    content = {"text": command.text, "when": command.when, "metadata": command.metadata, "delivery": command.delivery}
    return content_hash(content | {"max_attempts": command.max_attempts})[:16]


def _reply(schedule: Schedule) -> JsonObject:
    return {"schedule_id": schedule.schedule_id, "next_at": format_time(schedule.planned_at)}
