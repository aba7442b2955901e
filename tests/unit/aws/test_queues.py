"""Messages and schedules: sizes, names, delays and what goes wrong on the way out."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from perdure.aws.limits import MAX_GROUP_ID, MAX_MESSAGE_BYTES, MAX_SCHEDULE_NAME
from perdure.aws.messages import StepQueueMessage, TimerMessage
from perdure.aws.queues import SqsStepQueue, delay_seconds, group_id
from perdure.aws.timers import SchedulerTimers, schedule_name
from perdure.core.expected import Dispatch, Timer
from perdure.errors import ConfigurationError, StoreUnavailableError
from perdure.ports import SessionKey
from perdure.testing.moto import AwsInProcess
from tests.unit.aws.builders import KEY, NOON, LostAnswers, SteppingClock, calls_of

STEP = Dispatch(kind="run_model", step_id="model-1-0", attempt=1)
LONGEST_KEY = SessionKey(tenant="🌍" * 150, session_id="s" * 128)


@pytest.fixture
def queue(aws: AwsInProcess, clock: SteppingClock) -> SqsStepQueue:
    return SqsStepQueue(aws.clients.sqs, {"run_model": aws.queue_urls["run-model"]}, clock)


def timers_of(aws: AwsInProcess, clock: SteppingClock, **settings: Any) -> SchedulerTimers:
    return SchedulerTimers(
        lambda: aws.clients.scheduler,
        aws.clients.sqs,
        clock,
        queue_url=aws.queue_urls["timers"],
        queue_arn=aws.queue_arns["timers"],
        group=aws.schedule_group,
        role_arn=aws.schedule_role_arn,
        **settings,
    )


@pytest.fixture
def timers(aws: AwsInProcess, clock: SteppingClock) -> SchedulerTimers:
    return timers_of(aws, clock)


def schedules(aws: AwsInProcess) -> list[dict[str, Any]]:
    rows = aws.clients.scheduler.list_schedules()["Schedules"]
    return [aws.clients.scheduler.get_schedule(Name=row["Name"], GroupName=row["GroupName"]) for row in rows]


@pytest.mark.parametrize(
    ("milliseconds", "seconds"),
    [(-5_000, 0), (0, 0), (1, 1), (1_000, 1), (1_001, 2), (899_999, 900), (900_000, 900), (900_001, 900)],
)
def test_a_delay_is_rounded_up_and_never_over_the_limit(milliseconds: int, seconds: int) -> None:
    assert delay_seconds(NOON + timedelta(milliseconds=milliseconds), NOON) == seconds


def test_a_message_without_a_time_is_not_delayed() -> None:
    assert delay_seconds(None, NOON) == 0


async def test_a_message_carries_ids_only_and_stays_small(aws: AwsInProcess, queue: SqsStepQueue) -> None:
    sent: list[dict[str, Any]] = []
    calls_of(aws.clients.sqs, "SendMessage", sent.append)
    longest = Dispatch(kind="run_model", step_id=f"model-{10**12 - 1}-{10**6 - 1}", attempt=3, not_before=NOON)

    await queue.send(LONGEST_KEY, longest)

    body = sent[0]["MessageBody"]
    assert set(json.loads(body)) == {
        *("schema_version", "tenant", "session_id", "kind", "step_id", "attempt", "not_before_ms"),
    }
    assert len(body.encode()) < 4_096 < MAX_MESSAGE_BYTES
    assert StepQueueMessage.read(body).key == LONGEST_KEY


@pytest.mark.parametrize("tenant", ["", "acme/eu", "🌍" * 500, "a" * 128, "a" * 129])
def test_a_group_is_named_legally_and_differs_between_tenants(tenant: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", group_id(tenant))
    assert len(group_id(tenant)) <= MAX_GROUP_ID
    assert group_id(tenant) != group_id(tenant + "x")


async def test_a_step_without_a_queue_is_a_configuration_error(queue: SqsStepQueue) -> None:
    with pytest.raises(ConfigurationError, match="compact_context"):
        await queue.send(KEY, Dispatch(kind="compact_context", step_id="s", attempt=1))


async def test_a_send_without_an_answer_says_so(aws: AwsInProcess, queue: SqsStepQueue) -> None:
    LostAnswers(aws.clients.sqs, "SendMessage", silently=False)

    with pytest.raises(StoreUnavailableError):
        await queue.send(KEY, STEP)


async def test_a_queue_that_does_not_exist_is_a_configuration_error(aws: AwsInProcess, clock: SteppingClock) -> None:
    queue = SqsStepQueue(aws.clients.sqs, {"run_model": aws.queue_urls["run-model"] + "-gone"}, clock)

    with pytest.raises(ConfigurationError, match="check the name"):
        await queue.send(KEY, STEP)


@pytest.mark.parametrize(
    ("key", "timer_id"),
    [
        (SessionKey(tenant="acme/eu", session_id="s" * 80), "call:2:🌍"),
        (LONGEST_KEY, "t" * 200),
        (SessionKey(tenant="", session_id="."), ""),
    ],
)
def test_a_schedule_has_one_legal_name(key: SessionKey, timer_id: str) -> None:
    timer = Timer(timer_id=timer_id, fence=1, due_at=NOON)

    name = schedule_name(key, timer)

    assert re.fullmatch(r"[0-9a-zA-Z\-_.]{1,64}", name)
    assert len(name) <= MAX_SCHEDULE_NAME
    assert name == schedule_name(key, Timer(timer_id=timer_id, fence=1, due_at=NOON + timedelta(hours=1)))


def test_schedules_of_different_timers_have_different_names() -> None:
    sixty = "s" * 60
    names = {
        schedule_name(SessionKey(tenant=tenant, session_id=session), Timer(timer_id=timer, fence=fence, due_at=NOON))
        for tenant in ("acme", "acme/eu")
        for session in (sixty + "a", sixty + "b")
        for timer in ("call-1-0", "call-1-01")
        for fence in (1, 11)
    }

    assert len(names) == 16


@pytest.mark.parametrize(("seconds", "scheduled"), [(900, 0), (1_019, 0), (1_020, 1), (86_400, 1)])
async def test_a_schedule_is_made_only_for_what_a_delay_does_not_reach(
    aws: AwsInProcess, timers: SchedulerTimers, seconds: int, scheduled: int
) -> None:
    sent: list[dict[str, Any]] = []
    calls_of(aws.clients.sqs, "SendMessage", sent.append)

    await timers.set(KEY, Timer(timer_id="call-2-0", fence=2, due_at=NOON + timedelta(seconds=seconds)))

    assert len(schedules(aws)) == scheduled
    assert len(sent) == 1 - scheduled
    assert all(message["DelaySeconds"] == 900 for message in sent)


async def test_a_schedule_fires_fifteen_minutes_early_once_and_deletes_itself(
    aws: AwsInProcess, timers: SchedulerTimers
) -> None:
    timer = Timer(timer_id="call-2-0", fence=2, due_at=NOON + timedelta(hours=1, milliseconds=1))

    await timers.set(KEY, timer)
    await timers.set(KEY, timer)

    (schedule,) = schedules(aws)
    assert schedule["ScheduleExpression"] == "at(2026-11-30T12:45:01)"
    assert schedule["ActionAfterCompletion"] == "DELETE"
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
    message = TimerMessage.read(schedule["Target"]["Input"])
    assert (message.key, message.timer) == (KEY, timer)


async def test_a_timer_is_cancelled_under_the_name_it_was_set_with(aws: AwsInProcess, timers: SchedulerTimers) -> None:
    timer = Timer(timer_id="call:🌍", fence=2, due_at=NOON + timedelta(hours=1))
    await timers.set(LONGEST_KEY, timer)

    await timers.cancel(LONGEST_KEY, timer)
    await timers.cancel(LONGEST_KEY, timer)

    assert schedules(aws) == []


@pytest.mark.parametrize(("seconds", "scheduled"), [(129, 0), (130, 1)])
async def test_a_shorter_lead_makes_a_schedule_sooner_and_its_cancel_finds_it(
    aws: AwsInProcess, clock: SteppingClock, seconds: int, scheduled: int
) -> None:
    timers = timers_of(aws, clock, lead=timedelta(seconds=10))
    timer = Timer(timer_id="call-2-0", fence=2, due_at=NOON + timedelta(seconds=seconds))

    await timers.set(KEY, timer)
    fire_at = [schedule["ScheduleExpression"] for schedule in schedules(aws)]
    await timers.cancel(KEY, timer)

    assert fire_at == ["at(2026-11-30T12:02:00)"] * scheduled
    assert schedules(aws) == []
