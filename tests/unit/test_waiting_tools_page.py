"""`docs/concepts/waiting.md` is right about tools that wait: its examples do what it says."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from perdure.models import ModelRequest, Reply, ScriptedModel, call, tool_results
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.pages import examples_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "concepts" / "waiting.md").read_text(encoding="utf-8")


def painting(tool: str, **arguments: Any) -> tuple[Any, dict[str, Any]]:
    """Return the page's agent with a model that calls this tool, and what else the page defines."""

    def script(request: ModelRequest) -> str | Reply:
        return "done" if tool_results(request) else Reply(calls=(call(tool, **arguments),))

    defined = examples_of(PAGE)
    return dataclasses.replace(defined["painter"], model=ScriptedModel(script)), defined


async def fire_next(stage: Stage) -> None:
    assert len(stage.timers.pending) == 1
    await stage.skip_timers()
    await stage.run_all()


async def answered(stage: Stage, text: str) -> None:
    head = await stage.head()
    assert head.turn is not None
    await stage.session().answer(head.turn.interrupts[0].interrupt_id, text)
    await stage.run_all()


async def test_the_tool_that_asks_orders_what_was_answered_once() -> None:
    agent, defined = painting("order_paint", litres=5)
    async with open_stage(agent) as stage:
        await stage.send("paint it")
        await stage.run_all()
        await answered(stage, "blue")

        assert await stage.results() == {"order_paint": ("succeeded", "ordered 5 l of blue")}
        assert defined["orders"] == ["blue"]


@pytest.mark.parametrize("read", [True, False])
async def test_the_tool_of_steps_rests_and_waits_for_its_reader(read: bool) -> None:
    agent, _ = painting("publish", page="home")
    async with open_stage(agent) as stage:
        await stage.send("publish it")
        await stage.run_all()
        await fire_next(stage)  # the hour is over
        if read:
            head = await stage.head()
            assert head.turn is not None
            await stage.session().send_event(head.turn.calls[0].call_id, "read", "Ada")
            await stage.run_all()
        else:
            await fire_next(stage)

        expected = ("succeeded", "home is out, read by Ada") if read else ("failed", "nobody read it in two days")
        assert await stage.results() == {"publish": expected}


async def test_the_work_of_the_page_is_looked_at_until_it_is_done() -> None:
    agent, _ = painting("render", scene="dawn")
    async with open_stage(agent) as stage:
        await stage.send("render it")
        await stage.run_all()
        await answered(stage, "yes")

        assert await stage.results() == {"render": ("succeeded", "farm/dawn: done after 3 looks")}
