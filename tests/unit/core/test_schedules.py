"""Schedules: messages that come by themselves, each occurrence once (SCHD-01 to SCHD-07)."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from perdure.core import limits
from perdure.core.commands import TimerFired
from perdure.core.control_commands import CloseSession
from perdure.core.expected import expected_timers, sweep_due_at
from perdure.core.schedule_commands import CancelSchedule
from perdure.core.size import head_bytes
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from tests.unit.core.builders import ALICE, NOON, Play
from tests.unit.core.schedules import (
    DAILY,
    EVERY_MINUTE,
    TIMER,
    an_idle_session,
    details,
    event,
    fire,
    go_to_slot,
    set_to,
)

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
