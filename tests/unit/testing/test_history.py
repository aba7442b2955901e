"""The steps of a session as its events tell them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from perdure import ToolContext, function_tool
from perdure.core.limits import LEASE_DURATION, LEASE_GRACE
from perdure.models.scripted import ScriptedModel
from perdure.steps.recover import sweep_session
from perdure.testing.clock import VirtualClock
from perdure.testing.fixtures import SESSION, open_stage
from perdure.testing.history import shape, step_history
from tests.unit.steps.builders import Provider, an_agent, asking_for, failing


async def test_every_attempt_is_told_with_its_ending() -> None:
    @function_tool(effect="read")
    async def shaky(context: ToolContext) -> str:
        if context.attempt == 1:
            raise ValueError("not yet")
        return "ok"

    async with open_stage(an_agent(shaky, model=asking_for("shaky", "nothing"))) as stage:
        await stage.send("go")
        await stage.run_all()

        assert shape(await stage.events()) == [
            "model: completed",
            "nothing: failed",
            "shaky: lost",
            "shaky #2: succeeded",
            "model: completed",
        ]


async def test_a_lost_model_attempt_is_told_and_a_reconnect_within_one_is_none() -> None:
    clock = VirtualClock()
    provider: Any = Provider(clock, failing(partial_text="half"), "whole")
    async with open_stage(an_agent(model=provider), clock=clock) as stage:
        await stage.send("go")
        message = stage.taken()
        await stage.leases.claim(SESSION, message.step_id, 1, "dead", clock.now() + LEASE_DURATION)
        await clock.advance((LEASE_DURATION + LEASE_GRACE).total_seconds())
        await sweep_session(stage.deps, SESSION)
        await stage.run_all()

        assert shape(await stage.events()) == ["model: lost", "model #2: completed"]
        assert {step.turn_id for step in step_history(await stage.events())} == {"turn-1"}


async def test_progress_of_what_runs_is_left_out() -> None:
    clock = VirtualClock()
    model = ScriptedModel(lambda _: "hello", delay=timedelta(seconds=1), clock=clock)
    async with open_stage(an_agent(model=model), clock=clock) as stage:
        await stage.send("go")

        assert step_history(await stage.events()) == []
