"""Events of an application's own, from a tool and from a runner."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from perdure import ToolContext, function_tool
from perdure.agents.runner import AgentTurnContext, ModelOutcome
from perdure.agents.stepwise import StepwiseRunner
from perdure.agents.tools import OutsideToolError
from perdure.errors import InvalidRequestError
from perdure.steps.call_tool import call_tool
from perdure.steps.progress import MAX_BATCH_CHARACTERS
from perdure.testing.fixtures import SESSION, Stage, open_stage
from perdure.testing.tools import StepsInMemory, tool_context
from tests.unit.steps.builders import an_agent, asking_for

Seen = list[tuple[str, bool, Any]]


@dataclass
class Gate:
    """Holds a tool until the test has looked."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        self.reached.set()
        await self.opened.wait()


async def seen_while_running(stage: Stage, gate: Gate) -> tuple[Seen, Seen]:
    """Return type, whether it is durable, and payload of what is shown while a tool runs, and when it is over."""
    await stage.send("hi")
    await stage.run_next()
    running = asyncio.create_task(call_tool(stage.deps, stage.taken()))
    await gate.reached.wait()
    live = await stage.events()
    gate.opened.set()
    await running
    return seen_of(live), seen_of(await stage.events())


def seen_of(events: list[dict[str, Any]]) -> Seen:
    own = [event for event in events if event["type"].startswith("myapp.") or event["type"] == "tool_progress"]
    return [(event["type"], "sequence" in event, event["payload"]) for event in own]


async def test_a_tools_own_events_are_live_or_on_record_and_never_model_input() -> None:
    gate = Gate()

    @function_tool(effect="read")
    async def work(context: ToolContext) -> str:
        await context.event("myapp.stage", {"stage": "loading", "text": 7})
        await context.event("myapp.loaded", {"rows": 3}, durable=True)
        await gate.wait()
        return "done"

    model = asking_for("work")
    async with open_stage(an_agent(work, model=model)) as stage:
        live, later = await seen_while_running(stage, gate)
        await stage.run_next()
        told = next(event for event in await stage.events() if event["type"] == "myapp.loaded")

    stage_told, loaded = ("myapp.stage", False, {"stage": "loading", "text": 7}), ("myapp.loaded", True, {"rows": 3})
    assert sorted(live) == sorted([stage_told, loaded])
    assert later == [loaded]
    assert (told["step_execution_id"], told["attempt"]) == ("call-2-0", 1)
    assert "loading" not in str(model.requests)
    assert "rows" not in str(model.requests)


async def test_a_runner_shows_events_of_its_own() -> None:
    class Searching(StepwiseRunner):
        async def run_model_step(self, agent: Any, context: AgentTurnContext) -> ModelOutcome:
            await context.event("myapp.searched", {"hits": 2})
            with pytest.raises(InvalidRequestError, match="prefix of yours"):
                await context.event("tool.output", {})
            seen.extend(await context_stage.deps.ports.live.progress(SESSION, "model-1-0", 1))
            return await super().run_model_step(agent, context)

    seen: list[Any] = []
    async with open_stage(an_agent(runner=Searching())) as context_stage:
        await context_stage.send("hi")
        await context_stage.run_next()

        assert ("myapp.searched", {"hits": 2}) in [(event.type, event.payload) for event in seen]
        assert "myapp.searched" not in await context_stage.event_types()


async def test_an_event_that_is_refused_is_the_tools_to_deal_with() -> None:
    refused: list[str] = []

    @function_tool(effect="read")
    async def work(context: ToolContext) -> str:
        for event_type, payload in (("stage", {}), ("inbox.stage", {}), ("myapp.stage", {"text": "x" * 17_000})):
            for durable in (False, True):
                try:
                    await context.event(event_type, payload, durable=durable)
                except InvalidRequestError as error:
                    refused.append(error.code)
        return "done"

    async with open_stage(an_agent(work, model=asking_for("work"))) as stage:
        await stage.send("hi")
        await stage.run_all()

        assert refused == ["invalid_request"] * 4 + ["too_large"] * 2
        assert await stage.results() == {"work": ("succeeded", "done")}


async def test_a_long_word_of_progress_is_shown_by_its_head() -> None:
    gate = Gate()

    @function_tool(effect="read")
    async def work(context: ToolContext) -> str:
        assert context.report_progress is not None
        await context.report_progress("x" * MAX_BATCH_CHARACTERS)
        await context.report_progress("y" * (MAX_BATCH_CHARACTERS + 1))
        await context.report_progress("half a \ud83d")
        await gate.wait()
        return "done"

    async with open_stage(an_agent(work, model=asking_for("work"))) as stage:
        live, _ = await seen_while_running(stage, gate)

    assert [payload for _, _, payload in live] == [
        {"tool_call_id": "call-2-0", "text": "x" * MAX_BATCH_CHARACTERS},
        {"tool_call_id": "call-2-0", "text": "y" * MAX_BATCH_CHARACTERS, "truncated": True},
        {"tool_call_id": "call-2-0", "text": "half a \ufffd"},
    ]


async def test_outside_a_session_there_is_nobody_to_show_an_event_to_but_a_test_may_look() -> None:
    steps = StepsInMemory()

    await tool_context(durable=steps).event("myapp.stage", {"stage": ("a", 1)}, durable=True)

    assert steps.events == [("myapp.stage", {"stage": ["a", 1]}, True)]
    with pytest.raises(InvalidRequestError):
        await tool_context(durable=steps).event("tool.output")
    with pytest.raises(OutsideToolError):
        await tool_context(durable=None).event("myapp.stage")
