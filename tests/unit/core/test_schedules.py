"""Schedules: messages that come by themselves, each occurrence once (SCHD-01 to SCHD-07)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.core import limits
from perdure.core.codec import encode
from perdure.core.commands import TimerFired
from perdure.core.control_commands import CloseSession
from perdure.core.expected import expected_timers, sweep_due_at
from perdure.core.schedule_commands import CancelSchedule, SetSchedule
from perdure.core.size import head_bytes
from perdure.core.wait_commands import CancelWait, ChangeWait, SkipWait
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from tests.unit.core.builders import ALICE, NOON, Play

DAILY = {"every": "0 9 * * *", "time_zone": "UTC"}
EVERY_MINUTE = {"every": {"minutes": 1}, "time_zone": "UTC"}
IN_AN_HOUR = {"after": {"hours": 1}}
TIMER = "schedule:report"


def set_to(when: dict[str, Any] = IN_AN_HOUR, play: Play | None = None, **changes: Any) -> Play:
    """Return a session, idle unless told otherwise, with a schedule `report`."""
    play = play or an_idle_session()
    command = SetSchedule(schedule_id="report", text="Write the report", when=when, actor=ALICE)
    play.apply(replace(command, **changes))
    return play


def an_idle_session() -> Play:
    play = Play()
    play.send()
    play.model_answers()
    return play


def details(play: Play, **made: Any) -> dict[str, Any]:
    """Return what the step that fires a timer looks up."""
    (schedule,) = play.head.schedules
    specs = [s for entry in play.log if entry.version == schedule.version for s in entry.schedules]
    return {"version": schedule.version, "spec": encode(specs[-1])} | made


def fire(play: Play, **made: Any) -> bool:
    """Fire the schedule's timer; returns whether anything came of it."""
    (schedule,) = play.head.schedules
    fired = TimerFired(timer_id=TIMER, fence=schedule.fence, details=details(play, **made))
    return play.apply(fired).entry is not None


def go_to_slot(play: Play, late: timedelta = timedelta(0)) -> datetime:
    (schedule,) = play.head.schedules
    play.now = schedule.due_at + late
    return schedule.slot


def event(play: Play, kind: str) -> dict[str, Any]:
    return next(e.payload for e in play.last.events if e.type == kind)


# --- setting -------------------------------------------------------------------------------------------------------


def test_a_schedule_has_a_timer_and_says_when_it_is_due() -> None:
    play = set_to(DAILY)

    (timer,) = expected_timers(play.head)
    assert (timer.timer_id, timer.fence) == (TIMER, 3)
    assert timer.due_at == datetime(2026, 1, 16, 9, tzinfo=NOON.tzinfo)
    assert sweep_due_at(play.head) == timer.due_at + limits.TIMER_GRACE
    assert event(play, "schedule.set")["next_at"] == "2026-01-16T09:00:00.000Z"


def test_a_session_may_begin_with_one() -> None:
    play = set_to(play=Play(), default_agent="support")

    assert play.head.agent == "support"
    assert play.head.owner == ALICE
    go_to_slot(play)
    assert fire(play)
    assert play.turn.message_id == "schedule:report:1"


def test_the_same_again_changes_nothing_and_another_content_is_refused() -> None:
    # WAIT-06
    play = set_to()
    version = play.head.version

    set_to(play=play)
    assert play.head.version == version
    with pytest.raises(RequestConflictError) as caught:
        set_to(play=play, text="Something else")

    assert caught.value.code == "schedule_exists"


def test_one_that_replaces_another_has_a_new_fence() -> None:
    play = set_to()
    (old,) = expected_timers(play.head)

    set_to(DAILY, play, replaces=True)

    (new,) = expected_timers(play.head)
    assert new.fence != old.fence
    assert play.apply(TimerFired(timer_id=TIMER, fence=old.fence, details=details(play))).entry is None


@pytest.mark.parametrize(
    "when",
    [{}, {"at": "2026-01-16T09:00:00Z", "after": {"hours": 1}}, {"every": "0 9 * * *"}, {"after": {"days": 400}}],
    ids=["none", "two", "no-zone", "too-far"],
)
def test_a_time_that_is_none_is_refused(when: dict[str, Any]) -> None:
    # SCHD-01
    with pytest.raises(InvalidRequestError):
        set_to(when)


def test_a_closed_session_takes_none_and_an_unknown_delivery_neither() -> None:
    with pytest.raises(InvalidRequestError, match="delivery 'soon'"):
        set_to(delivery="soon")
    play = an_idle_session()
    play.apply(CloseSession(actor=ALICE))
    with pytest.raises(RequestConflictError) as caught:
        set_to(play=play)

    assert caught.value.code == "session_closed"


def test_a_session_has_a_hundred_at_most_and_they_fit_in_its_head() -> None:
    play = an_idle_session()
    for number in range(limits.MAX_SCHEDULES):
        set_to(DAILY, play, schedule_id=f"{number:064}", text="x" * 10_000)

    with pytest.raises(InvalidRequestError, match="100 schedules"):
        set_to(play=play)
    assert head_bytes(play.head) < limits.MAX_HEAD_BYTES / 2


# --- firing --------------------------------------------------------------------------------------------------------


def test_a_single_one_sends_its_message_once_and_is_gone() -> None:
    play = set_to(metadata={"kind": "report"})
    slot = go_to_slot(play)
    told = details(play)
    fence = play.head.schedules[0].fence

    assert fire(play)
    again = play.apply(TimerFired(timer_id=TIMER, fence=fence, details=told))

    assert again.entry is None
    assert play.head.schedules == ()
    assert play.turn.message_id == "schedule:report:3"
    (accepted,) = (i for entry in play.log for i in entry.inputs if i.source == "schedule")
    assert accepted.text == "Write the report"
    assert accepted.metadata is not None
    assert accepted.metadata["kind"] == "report"
    assert accepted.metadata["schedule"]["scheduled_for"].startswith(slot.isoformat()[:16])


def test_one_that_comes_early_or_late_from_another_life_does_nothing() -> None:
    play = set_to()
    assert not fire(play)

    assert play.apply(TimerFired(timer_id="schedule:other", fence=3)).entry is None


def test_a_recurring_one_goes_on_to_its_next_slot_with_another_fence() -> None:
    # SCHD-02
    play = set_to(DAILY)
    first = go_to_slot(play)
    fire(play)
    play.model_answers()

    (schedule,) = play.head.schedules
    assert schedule.slot == first + timedelta(days=1)
    assert (schedule.number, schedule.fence) == (4, 4)
    go_to_slot(play)
    fire(play)
    assert play.turn.message_id == "schedule:report:4"


def test_what_was_missed_is_one_late_occurrence_and_keeps_cadence() -> None:
    # SCHD-04
    play = set_to(DAILY)
    slot = go_to_slot(play, late=timedelta(days=3, hours=2))

    fire(play)

    late = event(play, "schedule.late")
    assert late["missed"] == 3
    assert late["late_seconds"] == int(timedelta(days=3, hours=2).total_seconds())
    assert play.head.schedules[0].slot == slot + timedelta(days=4)


def test_an_occurrence_on_time_is_not_called_late() -> None:
    play = set_to(DAILY)
    go_to_slot(play, late=timedelta(seconds=59))

    fire(play)

    assert "schedule.late" not in {e.type for e in play.last.events}


def test_it_waits_behind_a_turn_that_runs_and_while_it_does_the_next_one_is_left_out() -> None:
    play = set_to(EVERY_MINUTE)
    play.send("work")
    go_to_slot(play)
    fire(play)
    assert [m.message_id for m in play.head.inbox] == ["schedule:report:3"]

    go_to_slot(play)
    fire(play)

    assert event(play, "schedule.skipped")["reason"] == "its last message still waits"
    assert len(play.head.inbox) == 1
    assert play.head.schedules[0].number == 5


def test_in_a_paused_session_its_message_waits() -> None:
    from perdure.core.control_commands import PauseSession, ResumeSession

    play = set_to()
    play.apply(PauseSession(actor=ALICE))
    go_to_slot(play)

    assert fire(play)

    assert play.head.turn is None
    play.apply(ResumeSession(actor=ALICE))
    assert play.turn.message_id == "schedule:report:3"


def test_its_failure_does_not_hold_the_inbox() -> None:
    play = set_to(DAILY)
    go_to_slot(play)
    fire(play)

    play.model_ends("failed", error_code="provider", error_message="down")

    assert play.head.hold is None


def test_cancelled_before_its_timer_came_it_stays_cancelled() -> None:
    # SCHD-04
    play = set_to()
    go_to_slot(play)
    told, fence = details(play), play.head.schedules[0].fence
    play.apply(CancelSchedule(schedule_id="report", actor=ALICE))

    assert play.apply(TimerFired(timer_id=TIMER, fence=fence, details=told)).entry is None

    assert expected_timers(play.head) == ()
    with pytest.raises(NotFoundError) as caught:
        play.apply(CancelSchedule(schedule_id="report", actor=ALICE))
    assert caught.value.code == "schedule_not_found"


def test_set_anew_under_an_old_id_it_repeats_no_message_id() -> None:
    play = set_to()
    go_to_slot(play)
    fire(play)
    play.model_answers()
    set_to(play=play)
    go_to_slot(play)
    fire(play)

    ids = [i.message_id for entry in play.log for i in entry.inputs if i.source == "schedule"]
    assert len(set(ids)) == 2


# --- what the agent says, and retries ------------------------------------------------------------------------------


def test_the_agent_may_write_its_own_text_or_leave_an_occurrence_out() -> None:
    play = set_to(DAILY)
    go_to_slot(play)
    fire(play, outcome="skip", reason="a holiday")
    assert event(play, "schedule.skipped")["reason"] == "a holiday"
    assert play.head.turn is None

    go_to_slot(play)
    fire(play, text="Write it in French")

    assert [i.text for entry in play.log for i in entry.inputs][-1] == "Write it in French"


def test_an_occurrence_is_tried_again_after_1_2_4_up_to_60_seconds() -> None:
    # SCHD-03
    play = set_to()
    waits = []
    for _ in range(9):
        go_to_slot(play)
        fire(play, outcome="retry", reason="not now")
        waits.append((play.head.schedules[0].due_at - play.now).total_seconds())

    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    go_to_slot(play)
    fire(play)
    assert play.turn.message_id == "schedule:report:3"


@pytest.mark.parametrize("when", [IN_AN_HOUR, DAILY], ids=["single", "recurring"])
def test_when_its_tries_are_spent_a_single_one_fails_and_a_recurring_one_goes_on(when: dict[str, Any]) -> None:
    # SCHD-03
    play = set_to(when, max_attempts=2)
    slot = go_to_slot(play)
    fire(play, outcome="retry", reason="not now")
    go_to_slot(play)

    fire(play, outcome="retry", reason="not now")

    assert event(play, "schedule.failed") == {
        "schedule_id": "report",
        "number": 3,
        "attempts": 2,
        "reason": "not now",
    }
    left = [(each.slot, each.attempt) for each in play.head.schedules]
    assert left == ([] if when is IN_AN_HOUR else [(slot + timedelta(days=1), 1)])


@pytest.mark.parametrize("by", ["agent", "closed"])
def test_what_can_not_get_better_ends_it(by: str) -> None:
    # SCHD-03
    play = set_to(DAILY)
    if by == "closed":
        play.apply(CloseSession(actor=ALICE))
    go_to_slot(play)

    fire(play, **({"outcome": "ended", "reason": "the case is closed"} if by == "agent" else {}))

    assert event(play, "schedule.failed")["reason"]
    assert play.head.schedules == ()


def test_in_a_session_that_is_full_it_is_tried_again() -> None:
    play = set_to()
    play.send("work")
    while head_bytes(play.head) < limits.MAX_HEAD_BYTES - 1000:
        play.send("x", message_id=f"m-{len(play.head.inbox):0120}")
    go_to_slot(play)

    fire(play)

    assert play.head.schedules[0].attempt == 2


# --- changing it ---------------------------------------------------------------------------------------------------


def test_its_next_time_can_be_moved_once_and_the_cadence_stays() -> None:
    # Beyond 22
    play = set_to(DAILY)
    later = datetime(2026, 1, 16, 11, tzinfo=NOON.tzinfo)

    play.apply(ChangeWait(wait_id=TIMER, until=later, actor=ALICE))

    assert [t.due_at for t in expected_timers(play.head)] == [later]
    go_to_slot(play)
    fire(play)
    assert play.head.schedules[0].slot == datetime(2026, 1, 17, 9, tzinfo=NOON.tzinfo)


def test_it_can_be_had_now_and_cancelled_as_a_wait() -> None:
    play = set_to(DAILY)
    slot = play.head.schedules[0].slot
    play.apply(SkipWait(wait_id=TIMER, actor=ALICE, details=details(play)))
    assert play.turn.message_id == "schedule:report:3"
    assert play.head.schedules[0].slot == slot + timedelta(days=1)

    with pytest.raises(RequestConflictError) as caught:
        play.apply(SkipWait(wait_id=TIMER, actor=ALICE, details={}))
    assert caught.value.code == "stale_revision"
    play.apply(CancelWait(wait_id=TIMER, actor=ALICE))
    assert play.head.schedules == ()


@pytest.mark.parametrize(
    ("zone", "before", "fired"),
    [
        (
            "America/New_York",
            datetime(2026, 3, 7, 3, tzinfo=UTC),
            ["03-07T07:30", "03-08T07:00 shifted", "03-09T06:30", "03-10T06:30"],
        ),
        (
            "Europe/Berlin",
            datetime(2026, 3, 27, 12, tzinfo=UTC),
            ["03-28T01:30", "03-29T01:00 shifted", "03-30T00:30", "03-31T00:30"],
        ),
    ],
)
def test_f140_a_daily_schedule_fires_on_the_day_without_its_hour_and_says_so(
    zone: str, before: datetime, fired: list[str]
) -> None:
    play = an_idle_session()
    play.now = before
    set_to({"every": "30 2 * * *", "time_zone": zone}, play)

    told = []
    for _ in fired:
        go_to_slot(play)
        fire(play)
        payload = event(play, "schedule.fired")
        told.append(payload["scheduled_for"][5:16] + (" shifted" if payload.get("shifted") else ""))
        play.model_answers()

    assert told == fired
