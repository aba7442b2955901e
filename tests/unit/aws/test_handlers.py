"""Handlers: what a batch answers, how long a step may run, and messages that come early or are none of ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.aws.bootstrap import Runtime
from perdure.aws.handlers import (
    DEAD_LETTER_REASON,
    dead_letter_handler,
    step_handler,
    sweep_handler,
    timer_handler,
)
from perdure.aws.messages import StepQueueMessage, TimerMessage
from perdure.aws.settings import Settings
from perdure.core.expected import Dispatch, Timer
from perdure.errors import StoreUnavailableError
from perdure.models.scripted import ScriptedModel
from perdure.ports import SessionKey
from perdure.steps.base import StepDeps, StepMessage
from perdure.testing.moto import AwsInProcess
from tests.unit.aws.builders import KEY, NOON, SteppingClock, calls_of

STEP = Dispatch(kind="run_model", step_id="model-1-0", attempt=2)


class Context:
    """What Lambda passes beside the event."""

    def __init__(self, remaining: timedelta = timedelta(seconds=900)) -> None:
        self._remaining = remaining

    def get_remaining_time_in_millis(self) -> int:
        return int(self._remaining.total_seconds() * 1000)


class Steps:
    """Notes what a handler asked for; fails for the steps that are named."""

    def __init__(self, *failing: str) -> None:
        self.asked: list[tuple[StepMessage, datetime | None]] = []
        self.loops: set[int] = set()
        self._failing = failing

    async def __call__(self, deps: StepDeps, message: StepMessage, *, deadline: datetime | None) -> None:
        self.loops.add(id(asyncio.get_running_loop()))
        if message.step_id in self._failing:
            raise StoreUnavailableError("no answer")
        self.asked.append((message, deadline))


@pytest.fixture
def container(aws: AwsInProcess, clock: SteppingClock) -> Runtime:
    agents = AgentRegistry([AgentDefinition(name="support", model=ScriptedModel(lambda request: "hello"))])
    settings = Settings.from_environment(aws.environment())
    return Runtime(settings, clients=aws.clients, clock=clock, agents=agents)


@pytest.fixture
def runtime(container: Runtime) -> Callable[[], Runtime]:
    return lambda: container


def an_event(*bodies: str) -> dict[str, Any]:
    return {"Records": [{"messageId": f"m-{n}", "body": body} for n, body in enumerate(bodies)]}


def a_body(dispatch: Dispatch = STEP) -> str:
    return StepQueueMessage.of(KEY, dispatch).body()


def test_a_step_runs_with_its_ids_and_ends_thirty_seconds_before_its_function(runtime: Callable[[], Runtime]) -> None:
    steps = Steps()

    answer = step_handler(steps, runtime)(an_event(a_body()), Context(timedelta(seconds=900)))

    message = StepMessage(key=KEY, kind="run_model", step_id="model-1-0", attempt=2)
    assert steps.asked == [(message, NOON + timedelta(seconds=870))]
    assert answer == {"batchItemFailures": []}


def test_of_a_batch_only_what_failed_comes_again(runtime: Callable[[], Runtime]) -> None:
    steps = Steps("model-2-0", "model-4-0")
    bodies = [a_body(Dispatch(kind="run_model", step_id=f"model-{n}-0", attempt=1)) for n in range(1, 6)]

    answer = step_handler(steps, runtime)(an_event(*bodies), Context())

    assert sorted(message.step_id for message, _ in steps.asked) == ["model-1-0", "model-3-0", "model-5-0"]
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m-1"}, {"itemIdentifier": "m-3"}]}


def test_a_batch_that_fails_as_a_whole_is_an_answer_and_no_error(runtime: Callable[[], Runtime]) -> None:
    answer = step_handler(Steps("model-1-0"), runtime)(an_event(a_body()), Context())

    assert answer == {"batchItemFailures": [{"itemIdentifier": "m-0"}]}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        "[]",
        a_body().replace("run_model", "format_disk"),
        a_body().replace('"attempt":2', '"attempt":0'),
        a_body().replace('"attempt":2', '"attempt":"2"'),
        a_body().replace('"schema_version":1', '"schema_version":2'),
    ],
)
def test_a_message_that_is_none_of_ours_ends_as_a_dead_letter_and_runs_nothing(
    runtime: Callable[[], Runtime], body: str
) -> None:
    steps = Steps()

    answer = step_handler(steps, runtime)(an_event(body, a_body()), Context())

    assert len(steps.asked) == 1
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m-0"}]}


def test_a_step_that_comes_before_its_time_is_sent_again_and_does_not_run(
    aws: AwsInProcess, runtime: Callable[[], Runtime]
) -> None:
    steps, sent = Steps(), list[dict[str, Any]]()
    calls_of(aws.clients.sqs, "SendMessage", sent.append)
    early = Dispatch(kind="call_tool", step_id="call-2-0", attempt=1, not_before=NOON + timedelta(seconds=1000))

    answer = step_handler(steps, runtime)(an_event(a_body(early)), Context())

    assert steps.asked == []
    assert [(message["DelaySeconds"], json.loads(message["MessageBody"])) for message in sent] == [
        (900, json.loads(a_body(early)))
    ]
    assert answer == {"batchItemFailures": []}


def test_one_event_loop_serves_all_invocations_of_a_container(runtime: Callable[[], Runtime]) -> None:
    steps = Steps()
    handler = step_handler(steps, runtime)

    for _ in range(3):
        handler(an_event(a_body()), Context())

    assert len(steps.asked) == 3
    assert len(steps.loops) == 1


@pytest.mark.parametrize(("early", "fires"), [(timedelta(milliseconds=1), 0), (timedelta(0), 1)])
def test_a_timer_fires_at_its_time_and_waits_again_before(
    aws: AwsInProcess, runtime: Callable[[], Runtime], early: timedelta, fires: int
) -> None:
    fired: list[tuple[SessionKey, str, int]] = []
    sent: list[dict[str, Any]] = []
    calls_of(aws.clients.sqs, "SendMessage", sent.append)

    async def fire(deps: StepDeps, key: SessionKey, timer_id: str, fence: int) -> None:
        fired.append((key, timer_id, fence))

    message = TimerMessage.of(KEY, Timer(timer_id="call-2-0", fence=3, due_at=NOON + early))
    timer_handler(fire, runtime)(an_event(message.body()), Context())

    assert fired == [(KEY, "call-2-0", 3)] * fires
    assert [sending["DelaySeconds"] for sending in sent] == [1] * (1 - fires)


def test_a_dead_letter_is_recorded_with_its_ids(runtime: Callable[[], Runtime]) -> None:
    recorded: list[tuple[StepMessage, str]] = []

    async def record(deps: StepDeps, message: StepMessage, reason: str) -> None:
        recorded.append((message, reason))

    dead_letter_handler(record, runtime)(an_event(a_body()), Context())

    assert recorded == [(StepMessage.of(KEY, STEP), DEAD_LETTER_REASON)]


def test_the_sweep_says_how_many_sessions_it_looked_after(container: Runtime) -> None:
    async def sweep(deps: StepDeps) -> int:
        assert deps is container.deps
        return 7

    assert sweep_handler(sweep, lambda: container)({"source": "aws.scheduler"}, Context()) == {"sessions": 7}
