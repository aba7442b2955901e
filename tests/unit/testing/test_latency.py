"""What AWS calls take on the virtual clock."""

import asyncio
import random
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure import AgentDefinition, function_tool
from perdure.agents.definition import AgentRegistry
from perdure.aws.bootstrap import Runtime
from perdure.aws.clients import in_thread
from perdure.models import ModelRequest, Reply, ScriptedModel, call, tool_results
from perdure.testing.latency import (
    READ,
    TRANSACTION,
    WRITE,
    Figure,
    LatencyLoop,
    LatencyModel,
    TimedCall,
    critical_path,
)
from perdure.testing.moto import AwsInProcess, aws_in_process
from perdure.testing.overlapping import CONTAINERS, OverlappingHarness
from perdure.testing.virtual_time import LoopClock

FUNCTIONS = Path(__file__).parents[3] / "functions"
KEY = {"pk": {"S": "acme#one"}, "sk": {"S": "HEAD"}}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsInProcess]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with aws_in_process() as account:
        yield account


@pytest.fixture
def a_loop() -> Iterator[Callable[[LatencyModel], LatencyLoop]]:
    made: list[LatencyLoop] = []

    def make(model: LatencyModel) -> LatencyLoop:
        made.append(LatencyLoop(LoopClock(), model))
        return made[-1]

    yield make
    for loop in made:
        loop.close()


def a_model(aws: AwsInProcess, *, seed: int = 0, commits: Figure | None = None) -> LatencyModel:
    model = LatencyModel(seed=seed, commits=commits)
    for client in (aws.clients.dynamodb, aws.clients.sqs, aws.clients.connections):
        model.attach(client)
    return model


def seconds_of(aws: AwsInProcess, model: LatencyModel, *together: int) -> float:
    """Read that many items side by side, one group after the other. Returns the virtual seconds."""
    loop = LatencyLoop(LoopClock(), model)

    async def work() -> None:
        for number in together:
            await asyncio.gather(*(get_item(aws) for _ in range(number)))

    try:
        loop.run_until_complete(work())
        return loop.time()
    finally:
        loop.close()


async def get_item(aws: AwsInProcess) -> object:
    return await in_thread(aws.clients.dynamodb.get_item, TableName=aws.table, Key=KEY)


@pytest.mark.parametrize("figure", [READ, WRITE, TRANSACTION])
def test_draws_have_the_median_and_the_99th_percentile_that_were_measured(figure) -> None:
    draws = random.Random(1)

    times = sorted(figure.sample(draws) * 1000 for _ in range(20_000))

    assert statistics.median(times) == pytest.approx(figure.p50, rel=0.03)
    assert times[int(len(times) * 0.99)] == pytest.approx(figure.p99, rel=0.1)
    assert max(times) <= figure.longest


def test_calls_made_one_after_the_other_take_the_sum_and_calls_made_together_the_longest(aws: AwsInProcess) -> None:
    model = a_model(aws)

    one_by_one = seconds_of(aws, model, 1, 1, 1)
    took = [made.ended - made.began for made in model.calls]
    model.reseed(0)
    together = seconds_of(aws, model, 3)

    assert one_by_one == pytest.approx(sum(took))
    assert together == pytest.approx(max(took))


def test_the_same_seed_draws_the_same_times_and_another_one_others(aws: AwsInProcess) -> None:
    model = a_model(aws, seed=7)

    first = seconds_of(aws, model, 2, 1)
    model.reseed(7)
    again = seconds_of(aws, model, 2, 1)
    model.reseed(8)
    other = seconds_of(aws, model, 2, 1)

    assert first == again
    assert first != other


def test_a_call_that_fails_takes_its_time_and_its_error_comes_then(aws: AwsInProcess, a_loop) -> None:
    model = a_model(aws)
    loop = a_loop(model)

    async def work() -> None:
        with pytest.raises(aws.clients.dynamodb.exceptions.ConditionalCheckFailedException):
            await in_thread(
                aws.clients.dynamodb.put_item,
                TableName=aws.table,
                Item=KEY,
                ConditionExpression="attribute_exists(sk)",
            )

    loop.run_until_complete(work())

    assert loop.time() > 0.001
    assert [(made.operation, made.kind, made.failed) for made in model.calls] == [("dynamodb.PutItem", "HEAD", True)]


def test_a_call_of_which_nobody_said_how_long_it_takes_is_an_error(aws: AwsInProcess, a_loop) -> None:
    loop = a_loop(a_model(aws))

    async def work() -> None:
        await in_thread(aws.clients.dynamodb.list_tables)

    with pytest.raises(LookupError, match=r"dynamodb\.ListTables"):
        loop.run_until_complete(work())


def test_the_critical_path_goes_back_through_what_was_waited_for_and_leaves_out_the_rest() -> None:
    read = a_call("read", 0.0, 0.005)
    aside = a_call("aside", 0.005, 0.006)
    write = a_call("write", 0.005, 0.012)
    after_a_tool = a_call("commit", 0.062, 0.070)

    path = critical_path([read, aside, write, after_a_tool], after_a_tool, waits=(0.05,))

    assert path == [read, write, after_a_tool]


def a_call(operation: str, began: float, ended: float) -> TimedCall:
    return TimedCall(operation, "", began, ended, failed=False)


@function_tool(effect="read")
async def wait_a_second(number: int) -> str:
    """Wait."""
    await asyncio.sleep(1)
    return f"waited {number}"


def ask_for_four(request: ModelRequest) -> Reply:
    if results := tool_results(request):
        return Reply(text=f"{len(results)} tools waited")
    return Reply(calls=tuple(call("wait_a_second", number=number) for number in range(4)))


def test_handlers_overlap_and_a_turn_ends_as_it_does_one_by_one(aws: AwsInProcess) -> None:
    agent = AgentDefinition(name="waiter", model=ScriptedModel(ask_for_four), tools=[wait_a_second])
    model = a_model(aws)
    harness = OverlappingHarness(aws, AgentRegistry([agent]), FUNCTIONS, latency=model)
    viewer = harness.watch("one")

    harness.send("one", "go", key="m-1")

    functions = sorted(done.function for done in harness.timed)
    assert functions == ["api", *["call_tool"] * 4, *["run_model"] * 2]
    assert 1.0 < harness.loop.time() < 2.0  # four tools of a second each ran side by side
    commits = [made for made in model.calls if (made.operation, made.kind) == ("dynamodb.UpdateItem", "HEAD")]
    assert sum(not made.failed for made in commits) == 7  # admit, model, four tools, model
    assert [event["type"] for event in viewer.events if "sequence" in event][-1] == "turn_completed"
    assert viewer.sequences == list(range(1, len(viewer.sequences) + 1))
    assert harness.queues.messages == []
    harness.close()


def test_a_commit_can_be_given_the_price_of_a_transaction(aws: AwsInProcess) -> None:
    times = []

    for commits in (None, TRANSACTION):
        agent = AgentDefinition(name="greeter", model=ScriptedModel(lambda _request: "hello"), tools=[])
        model = a_model(aws, commits=commits)
        harness = OverlappingHarness(aws, AgentRegistry([agent]), FUNCTIONS, latency=model)
        harness.send(f"s-{commits is None}", "hi", key="m-1")
        times.append(
            statistics.mean(made.ended - made.began for made in model.calls if made.operation == "dynamodb.UpdateItem")
        )
        harness.close()

    assert times[1] > 2 * times[0]


def test_every_container_of_a_deployment_is_prepared_before_it_runs(aws: AwsInProcess) -> None:
    agent = AgentDefinition(name="greeter", model=ScriptedModel(lambda _request: "hello"), tools=[])
    harness = OverlappingHarness(aws, AgentRegistry([agent]), FUNCTIONS, latency=a_model(aws))
    prepared: list[Runtime] = []
    harness.prepare = prepared.append

    harness.send("one", "hi", key="m-1")

    assert len(prepared) == 2 * CONTAINERS  # those of `api` and of `run_model`
    assert len(set(map(id, prepared))) == len(prepared)
    harness.close()
