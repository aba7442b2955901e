"""A machine that slept: its clock has moved on and its tasks have not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

from perdure import function_tool
from perdure.embedded.leases import SqliteLeases
from perdure.embedded.queue import EmbeddedQueue, EmbeddedTimers
from perdure.embedded.worker import SWEEP_SECONDS, EmbeddedWorker
from perdure.steps.call_tool import call_tool
from perdure.testing.clock import VirtualClock
from perdure.testing.fixtures import open_stage
from tests.unit.steps.builders import an_agent, asking_for


class SleepyClock:
    """A clock whose time of day jumps while no sleeper wakes."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.slept = timedelta(0)

    def now(self) -> datetime:
        return self._clock.now() + self.slept

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


async def test_a_tool_that_runs_while_the_machine_sleeps_is_not_taken_for_dead() -> None:
    go_on = asyncio.Event()

    @function_tool(effect="non_idempotent_write", requires_approval=False)
    async def pay() -> str:
        await go_on.wait()
        return "paid"

    async with open_stage(an_agent(pay, model=asking_for("pay"))) as stage:
        await stage.send("go")
        await stage.run_next()
        clock = SleepyClock(stage.clock)
        deps = replace(stage.deps, ports=replace(stage.ports, clock=clock))
        leases = cast(SqliteLeases, stage.leases)
        worker = EmbeddedWorker(deps, EmbeddedQueue(clock), EmbeddedTimers(clock), leases)
        await worker.start()
        await stage.clock.advance(SWEEP_SECONDS - 3)
        running: asyncio.Task[Any] = asyncio.ensure_future(call_tool(deps, stage.taken()))
        await stage.clock.advance(1)

        clock.slept = timedelta(minutes=10)
        await stage.clock.advance(2 * SWEEP_SECONDS)  # the first sweep comes before the tool's next look at its lease
        go_on.set()
        await stage.clock.run(asyncio.wait_for(running, None))

        assert await stage.results() == {"pay": ("succeeded", "paid")}
        await worker.stop()
