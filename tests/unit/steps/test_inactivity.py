"""A model that says nothing for too long, on a virtual clock (spec MODEL-17)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from perdure import AgentDefinition, ToolContext
from perdure.agents.runner import AgentTurnContext, ModelOutcome
from perdure.errors import ModelCallError
from perdure.models.base import ModelRequest, ModelResponse, StreamActivity, TextDelta
from perdure.steps.inactivity import Activity, unless_silent
from perdure.steps.run_model import run_model
from perdure.testing.clock import VirtualClock
from perdure.testing.fixtures import open_stage
from tests.unit.steps.builders import HangingModel, an_agent

MINUTE = timedelta(minutes=1)


class Stream:
    """A model that waits this long before each item; after the last one it is silent."""

    provider = model = "stream"

    def __init__(self, clock: VirtualClock, *items: Any, every: float) -> None:
        self._clock = clock
        self._items = items
        self._every = every

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        for item in self._items:
            await self._clock.sleep(self._every)
            yield item
        await asyncio.Event().wait()


@pytest.mark.parametrize("item", [TextDelta("a"), StreamActivity()], ids=["text", "what-shows-nothing"])
async def test_whatever_comes_begins_the_silence_anew(item: Any) -> None:
    clock = VirtualClock()
    model = Stream(clock, item, item, item, ModelResponse(text="done"), every=50)
    async with open_stage(an_agent(model=model, inactivity_timeout=MINUTE), clock=clock) as stage:
        await stage.send("hi")
        await stage.run_all()

        assert (await stage.transcript())[-1] == ("assistant", "done")
        assert "model_retry_scheduled" not in await stage.event_types()


async def test_a_stall_is_a_timeout_that_is_tried_again_and_in_the_end_the_reason_of_the_failed_turn() -> None:
    model = HangingModel(TextDelta("Once"))
    async with open_stage(an_agent(model=model, inactivity_timeout=MINUTE)) as stage:
        await stage.send("hi")
        await stage.run_all()

        assert model.closed
        assert model.calls == 6
        events = await stage.events()
        assert {e["payload"]["reason"] for e in events if e["type"] == "model_retry_scheduled"} == {"timeout"}
        assert events[-1]["type"] == "turn_failed"
        assert events[-1]["payload"]["error"] == {
            "code": "timeout",
            "message": "the model sent nothing for 60 seconds: the same request may succeed later",
        }
        assert [m["role"] for m in (await stage.snapshot())["messages"]] == ["user"]


class Deaf:
    """A runner that says a word, is silent after it, and does not listen to its abort signal."""

    ended = False

    async def run_model_step(self, agent: AgentDefinition, context: AgentTurnContext) -> ModelOutcome:
        await context.emit(TextDelta("Once"))
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True
        raise AssertionError

    async def execute_tool(self, agent: AgentDefinition, context: ToolContext, arguments: dict[str, Any]) -> str:
        raise AssertionError


@pytest.mark.parametrize("runner", [None, Deaf()], ids=["that-listens", "deaf"])
async def test_a_stop_while_the_model_is_silent_is_a_stop_and_no_timeout(runner: Deaf | None) -> None:
    model = HangingModel(TextDelta("Once"))
    async with open_stage(an_agent(model=model, runner=runner, inactivity_timeout=MINUTE)) as stage:
        await stage.send("hi")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await stage.clock.advance(30)

        await stage.stop()
        await stage.clock.advance(1.1)

        assert step.done()
        assert runner.ended if runner else model.closed
        events = await stage.events()
        assert [e["payload"]["status"] for e in events if e["type"] == "model_finished"] == ["aborted"]
        assert events[-1]["type"] == "turn_cancelled"
        assert (await stage.snapshot())["messages"][-1]["status"] == "interrupted"


async def test_a_worker_that_is_shut_down_while_the_model_is_silent_is_cancelled_and_commits_nothing() -> None:
    model = HangingModel(TextDelta("Once"))
    async with open_stage(an_agent(model=model, inactivity_timeout=MINUTE)) as stage:
        await stage.send("hi")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await stage.clock.advance(30)

        step.cancel()
        await stage.clock.settle()

        assert step.cancelled()
        assert model.closed
        assert (await stage.head()).turn is not None


async def test_what_a_stalled_call_raises_while_it_is_cleaned_up_does_not_replace_the_timeout() -> None:
    clock = VirtualClock()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("the cleanup failed")

    with pytest.raises(ModelCallError) as raised:
        await clock.run(unless_silent(work(), Activity(clock), MINUTE))

    assert (raised.value.kind, raised.value.retryable) == ("timeout", True)


async def test_the_silence_begins_with_the_call_whatever_came_long_before_it() -> None:
    clock = VirtualClock()
    activity = Activity(clock)
    await clock.advance(59)  # such as the wait before a call that is sent again

    async def work() -> str:
        await clock.sleep(59)
        return "done"

    assert await clock.run(unless_silent(work(), activity, MINUTE)) == "done"


async def test_an_error_of_the_call_comes_out_as_it_is() -> None:
    clock = VirtualClock()

    async def work() -> None:
        await clock.sleep(59)
        raise KeyError("bug")

    with pytest.raises(KeyError, match="bug"):
        await clock.run(unless_silent(work(), Activity(clock), MINUTE))
