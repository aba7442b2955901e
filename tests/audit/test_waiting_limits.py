"""Limits of what waits, one under and one over, where no other test has both sides (`tested_limits.py`)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.agents.waiting import check_interval
from perdure.core.commands import GrantScope
from perdure.core.limits import (
    CANCEL_RETRY_DELAYS,
    CANCEL_WINDOW,
    LATE_AFTER,
    LONGEST_QUEUE_DELAY,
    MAX_GRANT,
    MAX_POLL_INTERVAL,
    MIN_POLL_INTERVAL,
)
from perdure.core.wait_commands import TaskCancelled
from perdure.errors import ConfigurationError, InvalidRequestError
from tests.unit.core.builders import asked_for
from tests.unit.core.schedules import DAILY, fire, go_to_slot, set_to
from tests.unit.core.test_grants import CALL, a_payment
from tests.unit.core.test_tasks import with_task

SECOND, MILLISECOND = timedelta(seconds=1), timedelta(milliseconds=1)


@pytest.mark.parametrize(("more", "timers"), [(timedelta(0), 0), (SECOND, 1)])
def test_a_look_at_remote_work_waits_in_the_queue_for_a_quarter_of_an_hour_at_most(
    more: timedelta, timers: int
) -> None:
    play = with_task(interval=LONGEST_QUEUE_DELAY + more)

    assert (len(play.timers), len(play.dispatches)) == (timers, 1 - timers)


def test_two_looks_are_a_second_to_a_day_apart() -> None:
    for interval in (MIN_POLL_INTERVAL, MAX_POLL_INTERVAL):
        check_interval(interval)
    for interval in (timedelta(0), MAX_POLL_INTERVAL + MILLISECOND):
        with pytest.raises(ConfigurationError):
            check_interval(interval)


@pytest.mark.parametrize(("more", "is_late"), [(-SECOND, False), (SECOND, True)])
def test_an_occurrence_is_late_after_a_minute(more: timedelta, is_late: bool) -> None:
    play = set_to(DAILY)
    go_to_slot(play, late=LATE_AFTER + more)

    fire(play)

    events = {event.type: event.payload for event in play.last.events}
    assert ("schedule.late" in events) is is_late
    assert ("late_seconds" in events["schedule.fired"]) is is_late


def test_an_approval_ahead_holds_for_thirty_days_at_most() -> None:
    play, _ = asked_for(a_payment("7"))

    with pytest.raises(InvalidRequestError):
        play.approve(CALL, grant=GrantScope(match="m", lasts=MAX_GRANT + MILLISECOND))
    play.approve(CALL, grant=GrantScope(match="m", lasts=MAX_GRANT))

    assert [grant.expires_at - play.now for grant in play.head.grants] == [MAX_GRANT]


def test_remote_work_is_asked_to_stop_after_these_waits_and_not_a_fourth_time() -> None:
    play = with_task()
    play.stop()
    waits = []
    for attempt in range(1, 2 + len(CANCEL_RETRY_DELAYS)):
        (cancel,) = play.dispatches
        waits.append(cancel.not_before - play.now if cancel.not_before else timedelta(0))
        play.apply(TaskCancelled(step_id=cancel.step_id, attempt=attempt, done=False))

    assert waits == [timedelta(0), *CANCEL_RETRY_DELAYS]
    assert play.head.cancellations == ()


@pytest.mark.parametrize(("waited", "tries"), [(CANCEL_WINDOW - timedelta(seconds=10), 1), (CANCEL_WINDOW, 0)])
def test_remote_work_is_asked_to_stop_again_within_two_minutes_only(waited: timedelta, tries: int) -> None:
    play = with_task()
    play.stop()
    (cancel,) = play.dispatches
    play.wait(waited)

    play.apply(TaskCancelled(step_id=cancel.step_id, attempt=1, done=False))

    assert len(play.head.cancellations) == tries
