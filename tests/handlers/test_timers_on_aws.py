"""Timers on the deployment when clocks differ and SQS and Scheduler are early, late or doubled.

The one timer here is an approval's deadline: whatever happens, the call is rejected once, and on time where it can be.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.testing.lambda_harness import LambdaHarness
from tests.handlers.agents import SESSION, results, snapshot
from tests.handlers.timers import HOURS, SECOND, decided, waiting_for, was_rejected_once

# --- clocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deadline", [timedelta(minutes=10), HOURS], ids=["by-delay", "by-schedule"])
@pytest.mark.parametrize("skew", [-30, -2, 2, 30])
def test_clocks_that_differ_move_a_deadline_by_that_much_and_it_passes_once(
    harness: LambdaHarness, skew: int, deadline: timedelta
) -> None:
    harness.skews = {"fire_timer": timedelta(seconds=skew)}
    due_at = waiting_for(harness, deadline)
    ended = decided(harness)

    harness.settle(deadline + timedelta(minutes=5))

    was_rejected_once(harness)
    assert abs(ended[0] - due_at) <= abs(skew) * SECOND + SECOND


@pytest.mark.parametrize("skew", [-30, 30])
def test_the_sweep_of_a_host_whose_clock_is_wrong_does_not_end_a_wait_before_its_time(
    harness: LambdaHarness, skew: int
) -> None:
    harness.skews = {"sweep": timedelta(seconds=skew)}
    due_at = waiting_for(harness, HOURS)
    (_, name), *_ = harness.schedules.pending()
    harness.aws.clients.scheduler.delete_schedule(GroupName=harness.aws.schedule_group, Name=name)
    ended = decided(harness)

    harness.settle(HOURS + timedelta(minutes=10))

    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= timedelta(minutes=3)


# --- SQS and Scheduler ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [-119, -60, -1, 0, 59, 600, 899])
def test_a_schedule_that_fires_early_or_late_within_its_lead_ends_the_wait_on_the_second(
    harness: LambdaHarness, late: int
) -> None:
    harness.schedules.lateness = timedelta(seconds=late)
    due_at = waiting_for(harness, HOURS)
    ended = decided(harness)

    harness.settle(HOURS + timedelta(minutes=5))

    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND


def test_a_schedule_that_fires_much_too_late_finds_that_the_sweep_was_there(harness: LambdaHarness) -> None:
    harness.schedules.lateness = timedelta(minutes=40)
    due_at = waiting_for(harness, HOURS)
    ended = decided(harness)

    harness.settle(HOURS + timedelta(hours=1))

    was_rejected_once(harness)
    assert timedelta(minutes=1) <= ended[0] - due_at <= timedelta(minutes=3)


@pytest.mark.parametrize("deadline", [timedelta(minutes=10), HOURS], ids=["by-delay", "by-schedule"])
def test_a_timer_whose_every_message_comes_twice_ends_its_wait_once(
    harness: LambdaHarness, deadline: timedelta
) -> None:
    harness.deliveries = 2
    due_at = waiting_for(harness, deadline)
    ended = decided(harness)

    harness.settle(deadline + timedelta(minutes=5))

    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND


def test_a_schedule_that_fires_twice_ends_its_wait_once(harness: LambdaHarness) -> None:
    due_at = waiting_for(harness, HOURS)
    ended = decided(harness)
    (fires_at, name), *_ = harness.schedules.pending()
    where = {"GroupName": harness.aws.schedule_group, "Name": name}
    body = harness.aws.clients.scheduler.get_schedule(**where)["Target"]["Input"]
    harness.advance(fires_at - harness.clock.now() + SECOND)

    harness.aws.clients.sqs.send_message(QueueUrl=harness.aws.queue_urls["timers"], MessageBody=body)
    harness.queues.collect()
    assert len(harness.queues.messages) == 2
    harness.settle(HOURS)

    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND


def test_a_decision_while_the_schedules_message_is_on_its_way_stands(harness: LambdaHarness) -> None:
    waiting_for(harness, HOURS)
    (fires_at, _), *_ = harness.schedules.pending()
    harness.advance(fires_at - harness.clock.now() + timedelta(minutes=5))
    assert [message.queue for message in harness.queues.messages] == ["timers"]

    (interrupt,) = snapshot(harness)["pending_interrupts"]
    harness.gateway.http("POST", f"{SESSION}/interrupts/{interrupt['interrupt_id']}", {"approved": True})
    harness.settle(HOURS)

    assert results(harness) == [("pay", "succeeded")]
    assert harness.queues.messages == []
    assert harness.schedules.pending() == []


@pytest.mark.parametrize("on_the_way", [timedelta(0), timedelta(hours=1, minutes=50)], ids=["schedule", "message"])
@pytest.mark.parametrize("by", [timedelta(minutes=-5), timedelta(minutes=5), timedelta(days=3)], ids=str)
def test_x12_a_deadline_that_was_moved_passes_at_its_new_time_wherever_its_old_timer_was(
    harness: LambdaHarness, on_the_way: timedelta, by: timedelta
) -> None:
    due_at = waiting_for(harness, HOURS)
    (interrupt,) = snapshot(harness)["pending_interrupts"]
    harness.advance(on_the_way)
    moved = due_at + by

    reply = harness.gateway.http(
        "PATCH", f"{SESSION}/waits/{interrupt['interrupt_id']}", {"until": moved.isoformat().replace("+00:00", "Z")}
    )
    ended = decided(harness)
    harness.settle(HOURS + timedelta(days=4))

    assert reply.status == 200, reply.body
    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - moved <= SECOND


def test_the_longest_wait_ends_on_the_second_a_year_later(harness: LambdaHarness) -> None:
    due_at = waiting_for(harness, timedelta(days=365))
    ended = decided(harness)
    scheduled = harness.schedules.pending()

    harness.settle(timedelta(days=366))

    assert [at for at, _ in scheduled] == [due_at - timedelta(minutes=15) + harness.schedules.lateness]
    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND


@pytest.mark.parametrize("ahead", [1, 900, 1019, 1020, 1021, 1800])
def test_a_wait_of_any_length_around_the_longest_delay_ends_on_the_second(harness: LambdaHarness, ahead: int) -> None:
    due_at = waiting_for(harness, timedelta(seconds=ahead))
    ended = decided(harness)

    harness.settle(timedelta(hours=1))

    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND


def test_a_timer_that_takes_too_long_is_cut_off_and_its_message_comes_again(
    harness: LambdaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_at = waiting_for(harness, timedelta(minutes=10))
    monkeypatch.setattr("perdure.aws.handlers.FIRING_BUDGET", timedelta(0))
    done = harness.deliver_one()
    monkeypatch.undo()

    assert done is not None
    assert done.answer is not None
    assert len(done.answer["batchItemFailures"]) == 1
    ended = decided(harness)
    harness.settle(timedelta(minutes=10))

    was_rejected_once(harness)
    assert ended[0] - due_at <= timedelta(minutes=3)
