"""Checkpoints of tools: what one attempt saves, the next one finds (spec TOOL-11)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from perdure import ToolContext, function_tool
from perdure.core.limits import LEASE_DURATION, LEASE_GRACE, MAX_CHECKPOINT_BYTES
from perdure.errors import InvalidRequestError, StoreUnavailableError
from perdure.steps.base import HotTurn
from perdure.steps.recover import sweep_session
from perdure.testing.fixtures import SESSION, Stage, open_stage
from tests.unit.steps.bodies import until_the_call, while_running
from tests.unit.steps.builders import an_agent, asking_for

TO_DEATH = (LEASE_DURATION + LEASE_GRACE).total_seconds()


class Import:
    """A tool that copies rows and says how far it is. Its first attempt stops at a gate after `stops_after` of them."""

    def __init__(self, *, rows: int = 6, stops_after: int = 4) -> None:
        self.rows = rows
        self.stops_after = stops_after
        self.found: list[str | None] = []
        self.copied: list[int] = []
        self.kept: list[bool] = []
        self.gate = asyncio.Event()

    async def run(self, context: ToolContext) -> str:
        self.found.append(context.checkpoint)
        for row in range(int(context.checkpoint or "0"), self.rows):
            self.copied.append(row)
            self.kept.append(await context.save_checkpoint(str(row + 1)))
            if context.attempt == 1 and row + 1 == self.stops_after:
                await self.gate.wait()
        return f"{self.rows} rows"

    def tool(self, effect: Any = "idempotent_write", *, inline: bool = False) -> Any:
        @function_tool(effect=effect, name="work", inline=inline)
        async def tool(context: ToolContext) -> str:
            return await self.run(context)

        return tool


def a_stage(work: Import, **more: Any) -> Any:
    return open_stage(an_agent(work.tool(**more), model=asking_for("work")))


async def is_given_up(stage: Stage) -> None:
    """The worker is taken for dead; here it lives, but its renewals reach nobody."""
    stage.leases.renew = _refused  # type: ignore[method-assign, assignment]
    await stage.clock.advance(TO_DEATH)
    del stage.leases.renew
    await sweep_session(stage.deps, SESSION)


async def _refused(*_: Any) -> Any:
    raise StoreUnavailableError("no answer")


@pytest.mark.parametrize("effect", ["read", "idempotent_write"])
async def test_the_second_attempt_goes_on_where_the_first_one_was(effect: str) -> None:
    # TOOL-11
    work = Import()
    async with a_stage(work, effect=effect) as stage:
        step = await while_running(stage, await until_the_call(stage))
        step.cancel()
        await asyncio.wait({step})
        await stage.clock.advance(TO_DEATH)

        await sweep_session(stage.deps, SESSION)
        await stage.run_all()

        assert work.found == [None, "4"]
        assert work.copied == [0, 1, 2, 3, 4, 5]
        assert await stage.results() == {"work": ("succeeded", "6 rows")}


async def test_an_attempt_that_was_given_up_can_not_overwrite_the_checkpoint_of_the_next_and_is_cut_off() -> None:
    work = Import(rows=9)
    async with a_stage(work) as stage:
        first = await while_running(stage, await until_the_call(stage))
        await is_given_up(stage)
        second = stage.taken()
        await stage.leases.claim(SESSION, second.step_id, 2, "another", stage.clock.now() + LEASE_DURATION)
        await stage.leases.save_checkpoint(SESSION, second.step_id, 2, "another", "7")

        work.gate.set()
        await stage.clock.settle()

        lease = await stage.leases.read_lease(SESSION, second.step_id)
        assert lease is not None
        assert lease.checkpoint == "7"
        assert work.kept == [True] * 4
        assert work.copied == [0, 1, 2, 3, 4]
        assert first.done()
        assert (await stage.results())["work"][0] == "approved"


async def test_a_tool_that_runs_in_the_model_steps_worker_has_its_checkpoint_too() -> None:
    work = Import()
    async with a_stage(work, effect="read", inline=True) as stage:
        hot = replace(stage.deps, hot=HotTurn())
        await stage.send("go")
        step = asyncio.create_task(_run_model(hot, stage.taken()))
        await stage.clock.settle()
        step.cancel()
        await asyncio.wait({step})
        await stage.clock.advance(TO_DEATH)

        await sweep_session(stage.deps, SESSION)
        await stage.run_all()

        assert work.found == [None, "4"]
        assert await stage.results() == {"work": ("succeeded", "6 rows")}


async def _run_model(deps: Any, message: Any) -> None:
    from perdure.steps.run_model import run_model

    await run_model(deps, message)


async def test_a_checkpoint_that_could_not_be_saved_or_read_is_lost_and_the_tool_goes_on() -> None:
    work = Import()
    async with a_stage(work) as stage:
        stage.leases.save_checkpoint = _refused
        step = await while_running(stage, await until_the_call(stage))
        step.cancel()
        await asyncio.wait({step})
        await stage.clock.advance(TO_DEATH)
        await sweep_session(stage.deps, SESSION)
        stage.leases.read_lease = _refused

        await stage.run(stage.taken())

        del stage.leases.read_lease
        await stage.run_all()
        assert work.found == [None, None]
        assert work.kept == [False] * 10
        assert await stage.results() == {"work": ("succeeded", "6 rows")}


async def test_the_first_attempt_of_a_tool_reads_no_lease_for_its_checkpoint() -> None:
    work = Import(stops_after=0)
    async with a_stage(work) as stage:
        stage.leases.read_lease = _refused

        await stage.run(await until_the_call(stage))

        assert work.found == [None]
        assert work.kept == [True] * 6


async def test_a_tool_learns_that_its_checkpoint_is_too_large_before_anything_is_written() -> None:
    raised: list[InvalidRequestError] = []

    @function_tool(effect="read", name="work")
    async def work(context: ToolContext) -> str:
        for text in ("a" * (MAX_CHECKPOINT_BYTES + 1), "\ud800", 5):
            try:
                await context.save_checkpoint(text)  # type: ignore[arg-type]
            except InvalidRequestError as error:
                raised.append(error)
        return "ok"

    async with open_stage(an_agent(work, model=asking_for("work"))) as stage:
        await stage.send("go")
        await stage.run_all()

        assert [error.code for error in raised] == ["invalid_request", "invalid_text", "invalid_request"]
        assert "4097 bytes, and 4096 are the most" in raised[0].message
        assert await stage.results() == {"work": ("succeeded", "ok")}


async def test_outside_a_session_a_tool_can_be_tried_without_checkpoints() -> None:
    context = ToolContext(
        tenant="t", session_id="s", turn_id="turn-1", tool_call_id="c", tool_name="n", attempt=1, idempotency_key="k"
    )

    assert context.checkpoint is None
    assert await context.save_checkpoint("row 1") is False
