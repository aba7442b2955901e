"""What a step waits for on AWS, on the latency model's clock, where computing takes no time and moments are exact."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.agents.tools import function_tool
from perdure.models import ModelRequest, Reply, ScriptedModel, call, tool_results, user_texts
from perdure.testing.latency import LatencyModel, TimedCall
from perdure.testing.moto import aws_in_process
from perdure.testing.overlapping import OverlappingHarness, TimedInvocation
from tests.build.cloudformation import ROOT

TOOL_SECONDS = 1.0
LONG = "x" * 3_000

Deploy = Callable[..., OverlappingHarness]


@pytest.fixture
def deploy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deploy]:
    """Return a deployment whose agent looks something up when it is asked to."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with aws_in_process() as aws:
        model = LatencyModel(seed=1)
        clients = aws.clients
        for client in (clients.dynamodb, clients.sqs, clients.connections):
            model.attach(client)
        made: list[OverlappingHarness] = []

        def deployed(*, seconds: float = 0.0, inline: bool = False) -> OverlappingHarness:
            harness = OverlappingHarness(aws, an_agent(seconds, inline=inline), ROOT / "functions", latency=model)
            made.append(harness)
            return harness

        yield deployed
        for harness in made:
            harness.close()


def an_agent(seconds: float, *, inline: bool) -> AgentRegistry:
    @function_tool(effect="read", inline=inline)
    async def look_up() -> str:
        """Look something up."""
        if seconds:
            await asyncio.sleep(seconds)
        return "found"

    def script(request: ModelRequest) -> Reply:
        text = user_texts(request)[-1]
        if tool_results(request) or not text.startswith("look it up"):
            return Reply(text="done")
        return Reply(text=LONG if "slowly" in text else "", calls=(call("look_up"),))

    return AgentRegistry([AgentDefinition(name="test", model=ScriptedModel(script), tools=[look_up])])


def a_turn(harness: OverlappingHarness, text: str, number: int) -> list[TimedCall]:
    """Run one turn. Returns the calls that it made."""
    before = len(harness.latency.calls)
    harness.send("one", text, key=f"m-{number}")
    return harness.latency.calls[before:]


def invocations(harness: OverlappingHarness, function: str, calls: list[TimedCall]) -> list[TimedInvocation]:
    """Return a function's invocations since the first of these calls."""
    return [done for done in harness.timed if done.function == function and done.began >= calls[0].began]


def at(moment: float) -> object:
    return pytest.approx(moment, abs=1e-7)


def commits(calls: list[TimedCall]) -> list[TimedCall]:
    return [made for made in calls if (made.operation, made.kind) == ("dynamodb.UpdateItem", "HEAD")]


@pytest.mark.parametrize("containers", [2, 8])
def test_the_claim_head_and_the_log_are_asked_for_at_once_and_nothing_is_read_after_them(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch, containers: int
) -> None:
    """Of 8 containers most know nothing of the session yet; of 2 both know all but the latest turns."""
    monkeypatch.setattr("perdure.testing.overlapping.CONTAINERS", containers)
    harness = deploy()
    for number in range(1, 9):
        a_turn(harness, "hello", number)

    read_beside = []
    calls = [made for number in range(9, 12) for made in a_turn(harness, "look it up", number)]
    for step in invocations(harness, "run_model", calls):
        before_its_commit = [c for c in calls if step.began - 1e-7 <= c.began < commit_of(step, calls).began]
        reads = [c for c in before_its_commit if c.operation in ("dynamodb.GetItem", "dynamodb.Query")]
        assert all(read.began == at(step.began) for read in reads)
        assert [c.began for c in before_its_commit if c.kind == "LEASE"] == [at(step.began)]
        read_beside += [read for read in reads if read.operation == "dynamodb.Query"]
    assert read_beside


def commit_of(step: TimedInvocation, calls: list[TimedCall]) -> TimedCall:
    return next(commit for commit in commits(calls) if commit.began > step.began)


def test_a_short_tail_is_left_alone(deploy: Deploy) -> None:
    calls = a_turn(deploy(), "look it up", 1)

    assert len(commits(calls)) == 4
    assert [made.kind for made in calls if made.kind in ("LOG", "KEY")] == []


def test_a_long_tail_is_settled_while_the_tool_works_and_the_commit_waits_for_nothing(deploy: Deploy) -> None:
    harness = deploy(seconds=TOOL_SECONDS)
    a_turn(harness, "hello", 1)

    calls = a_turn(harness, "look it up slowly", 2)

    (tool,) = invocations(harness, "call_tool", calls)
    begins = max(c.ended for c in calls if c.began == at(tool.began) and c.operation.startswith("dynamodb."))
    puts = [c for c in calls if c.kind == "LOG" and tool.began < c.began < tool.ended]
    assert puts
    assert all(put.began == at(begins) and put.ended < begins + TOOL_SECONDS for put in puts)
    assert commit_of(tool, calls).began == at(begins + TOOL_SECONDS)


def test_the_commit_of_a_step_that_takes_no_time_waits_for_what_is_being_settled(deploy: Deploy) -> None:
    """Otherwise the next container, which can't know what is done, would pay for the same puts again."""
    harness = deploy()
    a_turn(harness, "hello", 1)

    calls = a_turn(harness, "look it up slowly", 2)

    puts = [c for c in calls if c.kind == "LOG"]
    (tool,) = invocations(harness, "call_tool", calls)
    assert puts
    assert commit_of(tool, calls).began == at(max(put.ended for put in puts))
    assert not any(put.failed for put in puts)


def test_in_a_hot_turn_no_commit_waits_for_what_is_being_settled(deploy: Deploy) -> None:
    harness = deploy(inline=True)
    a_turn(harness, f"hello {LONG}", 1)

    calls = a_turn(harness, "look it up", 2)

    (step,) = invocations(harness, "run_model", calls)
    in_time = [c for c in calls if c.began == at(step.began) and c.operation.startswith("dynamodb.")]
    puts = [c for c in calls if c.kind == "LOG" and c.began > step.began]
    assert puts
    assert commit_of(step, calls).began == at(max(c.ended for c in in_time))
    assert not any(put.failed for put in puts)  # nothing is put twice, although later steps see the same entries
    assert max(put.ended for put in puts) <= step.ended + 1e-7  # a container may be frozen after its invocation
