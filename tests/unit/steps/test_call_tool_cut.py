"""The tool step when something comes between: a stop, a deployment, a lost answer, a dead worker, a second message."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.core import texts
from perdure.core.limits import LEASE_DURATION, LEASE_GRACE
from perdure.steps.call_tool import call_tool
from perdure.steps.recover import sweep_session
from perdure.testing.fixtures import SESSION, Stage, open_stage, redeployed
from tests.unit.steps.bodies import WRITES_ONCE, Body, a_tool, until_the_call, while_running
from tests.unit.steps.builders import an_agent, asking_for, losing_the_first


@pytest.mark.parametrize("effect", ["idempotent_write", *WRITES_ONCE])
async def test_a_write_whose_start_lost_to_a_stop_does_not_run(effect: str) -> None:
    body = Body()
    async with open_stage(an_agent(a_tool(body, effect), model=asking_for("work"))) as stage:
        message = await until_the_call(stage)
        await stage.stop()

        await stage.run(message)

        assert body.runs == 0
        assert await stage.results() == {"work": ("rejected", texts.STOPPED_BEFORE_START)}
        assert (await stage.event_types())[-1] == "turn_cancelled"


@pytest.mark.parametrize("effect", ["idempotent_write", *WRITES_ONCE])
async def test_a_stop_waits_for_a_write_that_has_started_and_keeps_its_result(effect: str) -> None:
    body = Body("paid")
    body.gate = asyncio.Event()
    async with open_stage(an_agent(a_tool(body, effect), model=asking_for("work"))) as stage:
        step = await while_running(stage, await until_the_call(stage))
        await stage.stop()
        await stage.clock.advance(30)
        assert not step.done()
        assert body.contexts[0].abort.is_set()
        assert (await stage.snapshot())["state"]["stopping"]

        body.gate.set()
        await stage.clock.settle()

        assert step.done()
        assert await stage.results() == {"work": ("succeeded", "paid")}
        assert (await stage.event_types())[-1] == "turn_cancelled"


async def test_a_stop_does_not_wait_for_a_read_and_cuts_it_off() -> None:
    body = Body()
    body.gate = asyncio.Event()
    async with open_stage(an_agent(a_tool(body), model=asking_for("work"))) as stage:
        step = await while_running(stage, await until_the_call(stage))
        await stage.stop()
        assert (await stage.event_types())[-1] == "turn_cancelled"
        closed = (await stage.head()).version

        await stage.clock.advance(5.1)

        assert step.done()
        assert body.cancelled
        assert (await stage.head()).version == closed
        assert await stage.results() == {"work": ("rejected", texts.STOPPED_BEFORE_START)}


async def test_f029_a_late_result_never_changes_a_stopped_turn() -> None:
    body = Body("late")
    body.gate = asyncio.Event()
    async with open_stage(an_agent(a_tool(body), model=asking_for("work"))) as stage:
        step = await while_running(stage, await until_the_call(stage))
        await stage.stop()
        body.gate.set()
        await stage.clock.settle()

        assert step.done()
        assert (await stage.event_types())[-1] == "turn_cancelled"
        assert (await stage.results())["work"][0] == "rejected"
        assert await stage.stop(turn_id="turn-1") == {"result": "already_recorded"}


async def test_f026_the_message_after_a_stop_finds_exactly_one_result_for_every_call() -> None:
    body = Body()
    body.gate = asyncio.Event()
    model = asking_for("work")
    async with open_stage(an_agent(a_tool(body), model=model)) as stage:
        step = await while_running(stage, await until_the_call(stage))
        await stage.stop()
        await stage.clock.advance(5.1)
        assert step.done()

        body.gate.set()
        await stage.send("hello")
        await stage.run_all()

        kinds = [type(item).__name__ for item in model.requests[1].messages]
        assert kinds == ["UserItem", "ModelItem", "ToolResultItem", "UserItem", "UserItem"]


async def test_f134_a_tool_that_a_deployment_removed_is_unknown_and_its_orphan_gets_a_result() -> None:
    body = Body()
    model = asking_for("work")
    async with open_stage(an_agent(a_tool(body), model=model)) as stage:
        message = await until_the_call(stage)
        other = redeployed(stage, an_agent(a_tool(body, name="renamed"), model=model))

        await other.run(message)

        assert await stage.results() == {"work": ("failed", "unknown tool work; available tools: renamed")}
        assert body.runs == 0


@pytest.mark.parametrize("gone", ["tool", "agent"])
async def test_f134_what_ran_before_its_tool_was_removed_has_an_unknown_outcome(gone: str) -> None:
    body = Body(ValueError("half way"))
    model = asking_for("work")
    async with open_stage(an_agent(a_tool(body, "idempotent_write"), model=model)) as stage:
        await stage.run(await until_the_call(stage))
        assert body.runs == 1
        other = redeployed(stage, an_agent(model=model, name="support" if gone == "tool" else "another"))

        await stage.clock.advance(10)
        while (message := stage.queue.take()) is not None and message.kind != "run_model":
            await other.run(message)
            await stage.clock.advance(10)

        assert (await stage.results())["work"] == ("outcome_unknown", texts.OUTCOME_UNKNOWN)


async def test_a_tool_of_an_agent_that_is_not_deployed_did_not_run() -> None:
    async with open_stage(an_agent(a_tool(Body()), model=asking_for("work"))) as stage:
        message = await until_the_call(stage)
        other = redeployed(stage, an_agent(name="another"))

        await other.run(message)

        (status, text) = (await stage.results())["work"]
        assert status == "failed"
        assert text == f"{texts.DID_NOT_RUN}: agent 'support' is not part of this deployment"


async def test_x8_a_lost_answer_to_the_start_is_recognised_and_the_body_runs_once() -> None:
    body = Body("paid")
    agent = an_agent(a_tool(body, "non_idempotent_write"), model=asking_for("work"))
    async with open_stage(agent, wrap_store=losing_the_first("tool_started")) as stage:
        await stage.send("go")
        await stage.run_all()

        assert body.runs == 1
        assert await stage.results() == {"work": ("succeeded", "paid")}
        assert (await stage.event_types()).count("tool_call_started") == 1


async def test_a_lost_answer_to_the_outcome_is_recognised_and_the_model_asked_once() -> None:
    model = asking_for("work")
    body = Body("paid")
    agent = an_agent(a_tool(body, "non_idempotent_write"), model=model)
    async with open_stage(agent, wrap_store=losing_the_first("tool_finished")) as stage:
        await stage.send("go")
        await stage.run_all()

        assert body.runs == 1
        assert len(model.requests) == 2
        assert await stage.results() == {"work": ("succeeded", "paid")}


async def dead_in_the_body(stage: Stage, body: Body, message: Any) -> None:
    """A worker dies in the body: its task ends and nobody renews the lease any more."""
    body.gate = asyncio.Event()
    step = await while_running(stage, message)
    step.cancel()
    await asyncio.wait({step})
    body.gate = None
    await stage.clock.advance((LEASE_DURATION + LEASE_GRACE).total_seconds())


@pytest.mark.parametrize(
    ("effect", "runs", "status"),
    [
        ("read", 2, "succeeded"),
        ("idempotent_write", 2, "succeeded"),
        ("non_idempotent_write", 1, "outcome_unknown"),
        ("unclassified", 1, "outcome_unknown"),
    ],
)
async def test_f106_a_worker_that_died_in_the_body_is_replaced_only_where_the_effect_allows(
    effect: str, runs: int, status: str
) -> None:
    body = Body("ok")
    async with open_stage(an_agent(a_tool(body, effect), model=asking_for("work"))) as stage:
        await dead_in_the_body(stage, body, await until_the_call(stage))

        await sweep_session(stage.deps, SESSION)
        await stage.run_all()

        assert body.runs == runs
        assert (await stage.results())["work"][0] == status
        assert len({context.idempotency_key for context in body.contexts}) == 1


async def test_f103_a_tools_message_that_comes_twice_runs_its_body_once() -> None:
    body = Body("ok")
    body.gate = asyncio.Event()
    async with open_stage(an_agent(a_tool(body), model=asking_for("work"))) as stage:
        message = await until_the_call(stage)
        step = await while_running(stage, message)

        await call_tool(stage.deps, message)
        body.gate.set()
        await stage.clock.settle()
        assert step.done()
        await call_tool(stage.deps, message)

        assert body.runs == 1
