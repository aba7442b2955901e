"""Calls that a provider runs itself: with their result, or with one that trusted code brings (TOOL-17, TOOL-19)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure.agents.tools import function_tool
from perdure.core import texts
from perdure.errors import NotFoundError, RequestConflictError
from perdure.models.base import ModelToolCall
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.steps.builders import an_agent

SEARCH = ModelToolCall(
    tool_name="web_search",
    arguments_text='{"q": "weather"}',
    provider_call_id="p-1",
    provider_executed=True,
    dynamic=True,
    metadata={"region": "eu"},
)


def searching(*calls: ModelToolCall, text: str = "") -> ScriptedModel:
    def reply(request: Any) -> str | Reply:
        results = tool_results(request)
        return f"It said: {results[-1].output}" if results else Reply(text, calls=calls)

    return ScriptedModel(reply)


async def run(stage: Stage) -> None:
    await stage.send("what is the weather?")
    await stage.run_all()


def with_result(output: str = "sunny") -> ModelToolCall:
    return replace(SEARCH, output=output)


async def test_one_that_has_its_result_belongs_to_the_answer() -> None:
    async with open_stage(an_agent(model=searching(with_result(), text="It is sunny."))) as stage:
        await run(stage)

        assert await stage.transcript() == [
            ("user", "what is the weather?"),
            ("assistant", "It is sunny. web_search(…)"),
            ("tool", "succeeded: sunny"),
        ]
        assert (await stage.event_types())[-1] == "turn_completed"
        (part,) = [p for m in (await stage.snapshot())["messages"] for p in m["parts"] if p["type"] == "tool_call"]
        assert (part["provider_executed"], part["dynamic"], part["provider_metadata"]) == (True, True, {"region": "eu"})


@pytest.mark.parametrize(
    ("metadata", "shown"), [({"a\ud800": "\ud800"}, {"a\ufffd": "\ufffd"}), ({"a": object()}, None)]
)
async def test_metadata_that_no_store_takes_costs_no_turn(metadata: dict[str, Any], shown: Any) -> None:
    odd = replace(with_result(), metadata=metadata)
    async with open_stage(an_agent(model=searching(odd, text="It is sunny."))) as stage:
        await run(stage)

        assert (await stage.event_types())[-1] == "turn_completed"
        (part,) = [p for m in (await stage.snapshot())["messages"] for p in m["parts"] if p["type"] == "tool_call"]
        assert part.get("provider_metadata") == shown


async def test_the_next_turn_shows_it_with_its_result() -> None:
    async with open_stage(an_agent(model=searching(with_result(), text="It is sunny."))) as stage:
        await run(stage)
        await run(stage)

        assert (await stage.event_types()).count("turn_completed") == 2


async def test_beside_a_tool_of_ours_the_model_is_asked_again() -> None:
    @function_tool(effect="read")
    def look() -> str:
        return "outside"

    async with open_stage(an_agent(look, model=searching(with_result(), call("look")))) as stage:
        await run(stage)

        assert await stage.results() == {"web_search": ("succeeded", "sunny"), "look": ("succeeded", "outside")}
        assert (await stage.transcript())[-1] == ("assistant", "It said: outside")


async def test_a_result_that_comes_later_is_checked_against_the_call() -> None:
    async with open_stage(an_agent(model=searching(SEARCH))) as stage:
        await run(stage)
        session = stage.session()
        assert (await stage.snapshot())["state"]["waiting_for"][0]["kind"] == "event"

        with pytest.raises(RequestConflictError):
            await session.bring_result("call-2-0", "another_tool", "rain")
        with pytest.raises(NotFoundError):
            await session.bring_result("call-9-0", "web_search", "rain")
        await session.bring_result("call-2-0", "web_search", "rain")
        await stage.run_all()

        assert (await stage.transcript())[-1] == ("assistant", "It said: rain")
        with pytest.raises((RequestConflictError, NotFoundError)):
            await session.bring_result("call-2-0", "web_search", "snow")


async def test_a_stop_does_not_wait_for_it() -> None:
    async with open_stage(an_agent(model=searching(SEARCH))) as stage:
        await run(stage)

        await stage.stop()

        assert await stage.results() == {"web_search": ("rejected", texts.NOT_AWAITED["turn_cancelled"])}
        assert (await stage.event_types())[-1] == "turn_cancelled"


async def test_what_a_tool_says_of_itself_is_shown_beside_its_calls() -> None:
    @function_tool(effect="read", metadata={"icon": "eye"})
    def look() -> str:
        return "outside"

    async with open_stage(an_agent(look, model=searching(call("look")))) as stage:
        await run(stage)

        (shown,) = (await stage.snapshot())["tool_calls"]
        assert shown["tool_metadata"] == {"icon": "eye"}
