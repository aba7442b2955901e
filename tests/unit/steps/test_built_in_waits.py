"""The model's own waits, from its call to its result."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from perdure.models.scripted import call
from perdure.testing.fixtures import open_stage
from tests.unit.steps.builders import an_agent
from tests.unit.waiting import a_sleeper, calling

YEAR = 365 * 24 * 3600


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"duration_seconds": YEAR + 1}, f"duration_seconds: must be from 1 to {YEAR}"),
        ({"duration_seconds": 0.5}, f"duration_seconds: must be from 1 to {YEAR}"),
        ({"duration_seconds": 1.0005}, "duration_seconds: must be whole milliseconds"),
        ({"duration_seconds": "soon"}, "duration_seconds: must be a number"),
        ({}, "duration_seconds"),
    ],
)
async def test_a_wait_that_can_not_be_fails_at_once_without_a_step_or_a_timer(arguments: Any, why: str) -> None:
    # WAIT-02
    agent = an_agent(model=calling(call("durable_wait", **arguments)), built_in_tools=["durable_wait"])
    async with open_stage(agent) as stage:
        await stage.send("wait")
        ran = await stage.run_all()

        assert {message.kind for message in ran} == {"run_model"}
        assert stage.timers.pending == []
        status, text = (await stage.results())["durable_wait"]
        assert (status, text.startswith(f"invalid durable_wait arguments: {why}")) == ("failed", True)


@pytest.mark.parametrize("reason", [{}, {"reason": None}], ids=["absent", "null"])
async def test_a_reason_that_is_null_is_none_and_the_longest_wait_ends_on_the_second(reason: Any) -> None:
    # WAIT-01, WAIT-02
    async with open_stage(a_sleeper(YEAR, **reason)) as stage:
        await stage.send("wait")
        await stage.run_all()
        began = stage.clock.now()
        assert (len(stage.timers.pending), stage.queue.sent) == (1, [])

        await stage.skip_timers()
        await stage.run_all()

        assert stage.clock.now() - began == timedelta(days=365)
        status, text = (await stage.results())["durable_wait"]
        assert (status, json.loads(text)) == ("succeeded", {"status": "completed", "waited_seconds": YEAR})


async def test_the_timer_of_a_wait_tells_the_reason_that_the_model_gave() -> None:
    # WAIT-01
    async with open_stage(a_sleeper(60, reason="the build")) as stage:
        await stage.send("wait")
        await stage.run_all()
        await stage.skip_timers()
        await stage.run_all()

        assert json.loads((await stage.results())["durable_wait"][1])["reason"] == "the build"
