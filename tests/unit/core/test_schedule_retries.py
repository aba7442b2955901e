"""Schedules whose occurrences are put off, left out, retried, moved or had at once (SCHD-03, SCHD-04)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.core import limits
from perdure.core.control_commands import CloseSession
from perdure.core.expected import expected_timers
from perdure.core.size import head_bytes
from perdure.core.wait_commands import CancelWait, ChangeWait, SkipWait
from perdure.errors import RequestConflictError
from tests.unit.core.builders import ALICE, NOON
from tests.unit.core.schedules import (
    DAILY,
    IN_AN_HOUR,
    TIMER,
    an_idle_session,
    details,
    event,
    fire,
    go_to_slot,
    set_to,
)

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


@pytest.mark.parametrize("moved_by", [timedelta(hours=2), timedelta(days=700), timedelta(hours=-3)])
def test_one_that_was_moved_and_is_had_at_once_loses_none_of_those_behind_it(moved_by: timedelta) -> None:
    # Beyond 22
    play = set_to(DAILY)
    slot = play.head.schedules[0].slot
    play.apply(ChangeWait(wait_id=TIMER, until=slot + moved_by, actor=ALICE))

    play.apply(SkipWait(wait_id=TIMER, actor=ALICE, details=details(play)))

    (schedule,) = play.head.schedules
    assert (schedule.slot, schedule.moved_to) == (slot + timedelta(days=1), None)


def test_one_that_was_moved_is_on_time_at_the_time_it_was_moved_to() -> None:
    play = set_to(DAILY)
    later = play.head.schedules[0].slot + timedelta(days=2, hours=1)
    play.apply(ChangeWait(wait_id=TIMER, until=later, actor=ALICE))
    play.now = later

    assert fire(play)

    fired = event(play, "schedule.fired")
    assert fired["scheduled_for"].startswith(later.isoformat()[:16])
    assert "late_seconds" not in fired
    assert play.head.schedules[0].slot > later
