"""Questions to the user, and what else waits, as it went wrong elsewhere."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolContext, function_tool
from perdure.agents.waiting import TaskPending, ToolInputRequested, ToolTask
from perdure.core import texts
from perdure.core.history import ToolResultItem
from perdure.models import ModelRequest, Reply, ScriptedModel, call
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.steps.builders import an_agent

KINDS = ("ask_user", "durable_wait", "asks", "sleeps", "awaits", "works")


@function_tool(effect="idempotent_write", requires_approval=False)
async def asks(context: ToolContext) -> str:
    raise ToolInputRequested("Which?")


@function_tool(effect="non_idempotent_write", requires_approval=False)
async def sleeps(context: ToolContext) -> str:
    await context.sleep("nap", timedelta(days=1))
    return "rested"


@function_tool(effect="read")
async def awaits(context: ToolContext) -> Any:
    return await context.wait_for_event("word")


class Farm:
    """Remote work that is done when somebody says so."""

    def __init__(self) -> None:
        self.done: str | None = None

        async def poll(task_id: str, context: ToolContext) -> Any:
            return self.done or TaskPending()

        @function_tool(effect="non_idempotent_write", requires_approval=False, poll=poll)
        async def works() -> ToolTask:
            return ToolTask("job-1", timedelta(minutes=1))

        self.tool = works


def asking(*calls: Any) -> ScriptedModel:
    """A model that makes these calls once in the whole session."""
    return ScriptedModel(lambda request: "done" if results_of(request) else Reply(calls=calls))


def results_of(request: ModelRequest) -> list[ToolResultItem]:
    return [item for item in request.messages if isinstance(item, ToolResultItem)]


async def sent(stage: Stage) -> None:
    """Send a message and run until the model's calls have begun."""
    await stage.send("go")
    await stage.run_next()
    while (message := stage.queue.take()) is not None:
        await stage.run(message)


@pytest.mark.parametrize("free", [True, False], ids=["free-text", "choices-only"])
async def test_f064_a_typed_message_answers_the_question_or_replaces_it_and_never_waits_behind_it(free: bool) -> None:
    ask = call("ask_user", question="Which?", choices=["red", "blue"], allows_free_text=free)
    model = asking(ask)
    async with open_stage(an_agent(model=model, built_in_tools=["ask_user"])) as stage:
        await sent(stage)

        receipt = await stage.send("the second one, but cheaper")
        snapshot = await stage.snapshot()
        assert snapshot["inbox"] == []
        assert "question" not in [wait["kind"] for wait in snapshot["state"].get("waiting_for", [])]
        await stage.run_all()

        (result,) = results_of(model.requests[1])
        if free:
            assert receipt["delivered_as"] == "answer"
            assert (result.status, "but cheaper" in result.output) == ("succeeded", True)
        else:
            assert receipt["delivered_as"] == "steer"
            assert (result.status, result.output) == ("rejected", texts.UNANSWERED["steered"])
            assert texts.DECLINED not in str(model.requests[1].messages)
        assert len(model.requests) == 2


async def test_f133_the_result_of_a_task_and_a_message_of_the_same_moment_reach_the_model_in_one_call() -> None:
    farm = Farm()
    model = asking(call("works"))
    async with open_stage(an_agent(farm.tool, model=model)) as stage:
        await sent(stage)
        farm.done = "rendered"
        await stage.clock.advance(60)

        await stage.send("make it brighter next time", delivery="inject")
        await stage.run_next()  # the look, in the very same moment
        await stage.run_all()

        assert len(model.requests) == 2
        told = str(model.requests[1].messages)
        assert "rendered" in told
        assert "brighter" in told
        sequences = [event["sequence"] for event in await stage.events()]
        assert sequences == list(range(1, len(sequences) + 1))


async def test_f026_every_call_that_waits_has_exactly_one_result_behind_a_stop() -> None:
    farm = Farm()
    calls = (call("ask_user", question="Which?"), call("durable_wait", duration_seconds=60), *map(call, KINDS[2:]))
    model = asking(*calls)
    agent = an_agent(asks, sleeps, awaits, farm.tool, model=model, built_in_tools=["ask_user", "durable_wait"])
    async with open_stage(agent) as stage:
        await sent(stage)
        head = await stage.head()
        assert head.turn is not None
        assert {c.status for c in head.turn.calls} == {
            *("awaiting_answer", "waiting_for_timer", "waiting_for_event", "waiting_for_task")
        }
        timers = list(stage.timers.pending)

        await stage.stop()
        assert stage.timers.pending == []
        await stage.clock.advance(timedelta(days=2).total_seconds())
        stage.timers.pending.extend(timers)  # they fire all the same
        await stage.fire_timers()
        await stage.send("and now?")
        await stage.run_all()

        results = results_of(model.requests[-1])
        assert len(results) == len(KINDS)
        assert {result.tool_name: result.status for result in results} == {
            "ask_user": "rejected",
            "durable_wait": "rejected",
            "asks": "rejected",
            "sleeps": "outcome_unknown",
            "awaits": "rejected",
            "works": "outcome_unknown",
        }


@pytest.mark.parametrize("early", [True, False])
async def test_f063_an_event_between_a_tools_check_and_its_wait_is_not_lost(early: bool) -> None:
    @function_tool(effect="read")
    async def looks(context: ToolContext) -> Any:
        if early and context.attempt == 1:  # behind the tool's own check, before it waits
            await stage.session().send_event(context.tool_call_id, "word", "now")
        return await context.wait_for_event("word")

    async with open_stage(an_agent(looks, model=asking(call("looks")))) as stage:
        await sent(stage)
        if not early:
            head = await stage.head()
            assert head.turn is not None
            await stage.session().send_event(head.turn.calls[0].call_id, "word", "now")
        await stage.run_all()

        assert await stage.results() == {"looks": ("succeeded", "now")}
