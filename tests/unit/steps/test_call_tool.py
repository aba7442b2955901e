"""The tool step: starts, outcomes, retries, timeouts, and what may be kept of an output."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from perdure import ToolContext, ToolExecutionError, function_tool
from perdure.core import texts
from perdure.core.limits import MAX_TOOL_OUTPUT_BYTES
from perdure.models.scripted import Reply, ScriptedModel, call
from perdure.testing.clock import VirtualClock
from perdure.testing.fixtures import open_stage, redeployed
from tests.unit.steps.bodies import WRITES_ONCE, Body, a_tool, until_the_call, while_running
from tests.unit.steps.builders import an_agent, asking_for


@pytest.mark.parametrize("effect", ["read", "idempotent_write", *WRITES_ONCE])
async def test_a_tool_runs_with_the_stored_arguments_and_a_key_of_its_own(effect: str) -> None:
    body = Body("42")
    async with open_stage(an_agent(a_tool(body, effect), model=asking_for("work"))) as stage:
        await stage.send("go")
        await stage.run_all()

        assert await stage.results() == {"work": ("succeeded", "42")}
        (context,) = body.contexts
        assert context.idempotency_key == f"local/s-1/turn-1/{context.tool_call_id}"
        assert (context.attempt, context.tool_name, context.turn_id) == (1, "work", "turn-1")
        assert context.message_id == (await stage.snapshot())["messages"][0]["message_id"]
        assert (await stage.transcript())[-1] == ("assistant", "done")


async def test_a_tool_knows_the_event_that_triggered_its_turn_also_when_the_turn_is_retried() -> None:
    body = Body()
    asks = Reply(calls=(call("work"),))
    answers = iter([asks, Reply("half an ans", finish="length"), asks, Reply("done")])
    async with open_stage(an_agent(a_tool(body), model=ScriptedModel(lambda _: next(answers)))) as stage:
        await stage.session().append("it was paid", event_id="evt-7", source="webhook")
        await stage.run_all()
        await stage.session().retry()
        await stage.run_all()

        assert [(context.turn_id, context.message_id) for context in body.contexts] == [
            ("turn-1", "webhook:evt-7"),
            ("turn-2", "webhook:evt-7"),
        ]


async def test_the_start_of_a_write_is_committed_before_its_body_runs_and_that_of_a_read_is_not() -> None:
    seen: list[str | None] = []
    async with open_stage(an_agent(model=asking_for("read", "write"))) as stage:

        async def note(context: ToolContext) -> str:
            head = await stage.head()
            assert head.turn is not None
            call = head.turn.call(context.tool_call_id)
            assert call is not None
            seen.append(call.started)
            return "ok"

        tools = [function_tool(effect=e, name=n)(note) for e, n in (("read", "read"), ("idempotent_write", "write"))]  # type: ignore[call-overload]
        stage = redeployed(stage, an_agent(*tools, model=asking_for("read", "write")))
        await stage.send("go")
        await stage.run_all()

        assert seen[0] is None
        assert seen[1] is not None


@pytest.mark.parametrize(("effect", "status"), [("read", "failed"), ("idempotent_write", "outcome_unknown")])
async def test_an_unexpected_exception_is_tried_again_after_one_and_two_seconds_with_the_same_key(
    effect: str, status: str
) -> None:
    clock = VirtualClock()
    body = Body(ValueError("secret"))
    async with open_stage(an_agent(a_tool(body, effect), model=asking_for("work")), clock=clock) as stage:
        times = []
        run = body.run

        async def timed(context: ToolContext) -> Any:
            times.append(clock.now())
            return await run(context)

        body.run = timed  # type: ignore[method-assign]
        await stage.send("go")
        await stage.run_all()

        waits = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
        assert waits == [1, 2]
        assert len({context.idempotency_key for context in body.contexts}) == 1
        assert [context.attempt for context in body.contexts] == [1, 2, 3]
        (result,) = (await stage.results()).values()
        assert result[0] == status
        assert "secret" not in str(await stage.entries())
        assert (await stage.transcript())[-1] == ("assistant", "done")


@pytest.mark.parametrize("effect", WRITES_ONCE)
async def test_a_write_that_runs_once_is_not_tried_again_and_its_outcome_is_said_to_be_unknown(effect: str) -> None:
    body = Body(ValueError("half way"))
    async with open_stage(an_agent(a_tool(body, effect), model=asking_for("work"))) as stage:
        await stage.send("go")
        await stage.run_all()

        assert body.runs == 1
        assert await stage.results() == {"work": ("outcome_unknown", texts.OUTCOME_UNKNOWN)}


@pytest.mark.parametrize("effect", ["read", "idempotent_write", *WRITES_ONCE])
async def test_a_failure_that_the_tool_tells_of_is_shown_to_the_model_and_not_tried_again(effect: str) -> None:
    body = Body(ToolExecutionError("order 7 was shipped"))
    async with open_stage(an_agent(a_tool(body, effect), model=asking_for("work"))) as stage:
        await stage.send("go")
        await stage.run_all()

        assert body.runs == 1
        assert await stage.results() == {"work": ("failed", "order 7 was shipped")}


async def test_f131_one_tools_failure_leaves_its_siblings_alone() -> None:
    ok, boom, slow = Body("one"), Body(ValueError("no")), Body("three")
    tools = [a_tool(ok, name="ok1"), a_tool(boom, name="boom"), a_tool(slow, name="slow_ok")]
    model = asking_for("ok1", "boom", "slow_ok")
    async with open_stage(an_agent(*tools, model=model)) as stage:
        await stage.send("go")
        for message in await stage.run_all():  # all of it is delivered once more
            await stage.run(message)

        assert (ok.runs, boom.runs, slow.runs) == (1, 3, 1)
        assert [name for name, _ in (await stage.results()).items()] == ["ok1", "boom", "slow_ok"]
        assert len(model.requests) == 2
        results = model.requests[1].messages[-3:]
        assert [getattr(r, "status", "") for r in results] == ["succeeded", "failed", "succeeded"]


@pytest.mark.parametrize(
    ("effect", "status", "runs"),
    [("read", "failed", 3), ("idempotent_write", "outcome_unknown", 3), ("non_idempotent_write", "outcome_unknown", 1)],
)
async def test_a_tool_that_does_not_end_in_its_time_is_cut_off_right_then(effect: str, status: str, runs: int) -> None:
    body = Body()
    body.gate = asyncio.Event()
    agent = an_agent(a_tool(body, effect), model=asking_for("work"), tool_timeout=timedelta(seconds=2))
    async with open_stage(agent) as stage:
        message = await until_the_call(stage)
        began = stage.clock.now()

        await stage.run(message)

        assert stage.clock.now() - began == timedelta(seconds=2)
        assert body.cancelled
        await stage.run_all()
        assert body.runs == runs
        assert (await stage.results())["work"][0] == status


async def test_a_tool_of_a_host_with_less_time_is_cut_off_at_the_hosts_deadline() -> None:
    body = Body()
    body.gate = asyncio.Event()
    async with open_stage(an_agent(a_tool(body), model=asking_for("work"))) as stage:
        message = await until_the_call(stage)
        deadline = stage.clock.now() + timedelta(seconds=7)

        await stage.run(message, deadline=deadline)

        assert body.contexts[0].deadline == deadline
        assert stage.clock.now() == deadline
        reset = (await stage.events())[-1]
        assert reset["payload"]["reason"] == "work did not end before its deadline"


@pytest.mark.parametrize(
    ("effect", "status", "text"),
    [
        ("read", "failed", "the output of work has"),
        ("non_idempotent_write", "succeeded", "[Perdure] The tool succeeded, but the output of work has"),
    ],
)
async def test_an_output_that_is_too_large_is_not_kept_and_a_write_still_succeeded(
    effect: str, status: str, text: str
) -> None:
    for size, kept in ((MAX_TOOL_OUTPUT_BYTES, True), (MAX_TOOL_OUTPUT_BYTES + 1, False)):
        body = Body("x" * size)
        async with open_stage(an_agent(a_tool(body, effect), model=asking_for("work"))) as stage:
            await stage.send("go")
            await stage.run_all()

            got_status, output = (await stage.results())["work"]
            assert body.runs == 1
            assert got_status == ("succeeded" if kept else status)
            assert output == "x" * size if kept else output.startswith(text)


async def test_a_lone_surrogate_of_a_runner_becomes_a_replacement_character_and_a_pair_one_character() -> None:
    class Runner:
        async def run_model_step(self, agent: Any, context: Any) -> Any:
            from perdure.agents.stepwise import StepwiseRunner

            return await StepwiseRunner().run_model_step(agent, context)

        async def execute_tool(self, agent: Any, context: Any, arguments: Any) -> str:
            return "a\ud800b\ud83d\ude00\x00c"

    agent = an_agent(a_tool(Body()), model=asking_for("work"), runner=Runner())
    async with open_stage(agent) as stage:
        await stage.send("go")
        await stage.run_all()

        assert await stage.results() == {"work": ("succeeded", "a\ufffdb\U0001f600\x00c")}


@pytest.mark.parametrize("effect", ["read", "idempotent_write"])
async def test_progress_of_a_tool_goes_to_the_viewers_and_is_no_model_input(effect: Any) -> None:
    model = asking_for("work")
    seen: list[list[str]] = []

    @function_tool(effect=effect, name="work")
    async def work(context: ToolContext) -> str:
        assert context.report_progress is not None
        await context.report_progress("half way")
        live = [event for event in await stage.events() if "sequence" not in event]
        seen.append([event["payload"]["text"] for event in live if event["type"] == "tool_progress"])
        return "ok"

    async with open_stage(an_agent(work, model=model)) as stage:
        for _ in range(2):  # the prompt of the second turn has the first one, too
            await stage.send("go")
            await stage.run_all()

        assert seen == [["half way"], ["half way"]]
        assert len(model.requests) == 4
        assert "half way" not in str(model.requests)
        assert "half way" not in str(await stage.entries())
        assert "tool_progress" not in await stage.event_types()


async def test_calls_run_side_by_side_and_their_results_stand_in_the_models_order() -> None:
    first, second = Body("1"), Body("2")
    first.gate = asyncio.Event()
    model = asking_for("first", "second")
    agent = an_agent(a_tool(first, name="first"), a_tool(second, name="second"), model=model)
    async with open_stage(agent) as stage:
        await stage.send("go")
        await stage.run_next()
        step = await while_running(stage, stage.taken())
        await stage.run_next()
        assert not model.requests[1:]

        first.gate.set()
        await stage.clock.settle()
        assert step.done()
        await stage.run_all()

        results = model.requests[1].messages[-2:]
        assert [(getattr(r, "tool_name", ""), getattr(r, "output", "")) for r in results] == [
            ("first", "1"),
            ("second", "2"),
        ]


@pytest.mark.parametrize(
    ("effect", "wanted", "status"),
    [("read", True, "failed"), ("read", False, "succeeded"), ("idempotent_write", True, "succeeded")],
)
async def test_a_read_that_carries_an_error_has_failed_if_its_agent_wants_so(
    effect: str, wanted: bool, status: str
) -> None:
    body = Body({"error": "no such order"})
    agent = an_agent(a_tool(body, effect), model=asking_for("work"), errors_inside_outputs=wanted)
    async with open_stage(agent) as stage:
        await stage.send("go")
        await stage.run_all()

        assert await stage.results() == {"work": (status, '{"error": "no such order"}')}
        assert body.runs == 1


async def test_a_read_without_an_error_inside_succeeds_whatever_its_agent_wants() -> None:
    agent = an_agent(a_tool(Body({"order": 7})), model=asking_for("work"), errors_inside_outputs=True)
    async with open_stage(agent) as stage:
        await stage.send("go")
        await stage.run_all()

        assert await stage.results() == {"work": ("succeeded", '{"order": 7}')}
