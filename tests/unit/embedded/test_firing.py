"""Timers of one process: 32 fire at a time, none for too long (spec SCHD-05), and none is lost when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

import pytest

from perdure.core.expected import Timer
from perdure.embedded.leases import SqliteLeases
from perdure.embedded.queue import EmbeddedQueue, EmbeddedTimers
from perdure.embedded.worker import EmbeddedWorker
from perdure.ports import SessionKey
from perdure.steps.firing import MAX_FIRING_TIMERS
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.steps.builders import an_agent


class Firing:
    """Stands where a timer is fired: notes which ones, and holds them at a gate."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.ended: list[str] = []
        self.cut: list[str] = []
        self.gate = asyncio.Event()

    async def __call__(self, deps: Any, key: SessionKey, timer_id: str, fence: int) -> None:
        self.began.append(timer_id)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cut.append(timer_id)
            raise
        self.ended.append(timer_id)


@pytest.fixture
def firing(monkeypatch: pytest.MonkeyPatch) -> Firing:
    firing = Firing()
    monkeypatch.setattr("perdure.embedded.worker.fire_timer", firing)
    return firing


@asynccontextmanager
async def a_worker(stage: Stage, count: int) -> AsyncIterator[EmbeddedWorker]:
    """Start a worker with as many timers, which are due a second later."""
    timers = EmbeddedTimers(stage.clock)
    worker = EmbeddedWorker(stage.deps, EmbeddedQueue(stage.clock), timers, cast(SqliteLeases, stage.leases))
    await worker.start()
    due_at = stage.clock.now() + timedelta(seconds=1)
    for number in range(count):
        timer = Timer(timer_id=f"t-{number}", fence=1, due_at=due_at)
        await timers.set(SessionKey("local", f"s-{number}"), timer)
    await stage.clock.advance(1)
    yield worker
    await worker.stop(grace_seconds=0)


async def test_thirty_two_timers_fire_at_a_time_and_the_others_after_them(firing: Firing) -> None:
    async with open_stage(an_agent()) as stage, a_worker(stage, 2 * MAX_FIRING_TIMERS + 5):
        at_first = len(firing.began)
        firing.gate.set()
        await stage.clock.settle()

        assert (at_first, MAX_FIRING_TIMERS) == (32, 32)
        assert len(firing.ended) == len(set(firing.ended)) == 2 * MAX_FIRING_TIMERS + 5


async def test_a_timer_that_hangs_holds_up_no_other(firing: Firing) -> None:
    hanging = firing.gate
    async with open_stage(an_agent()) as stage, a_worker(stage, 1):
        firing.gate = asyncio.Event()
        firing.gate.set()
        async with a_worker(stage, 3):
            assert not hanging.is_set()
            assert sorted(firing.ended) == ["t-0", "t-1", "t-2"]


async def test_a_timer_that_takes_too_long_is_cut_off_and_makes_room(
    firing: Firing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.embedded.worker.FIRING_BUDGET", timedelta(0))
    async with open_stage(an_agent()) as stage, a_worker(stage, MAX_FIRING_TIMERS + 1):
        await stage.clock.settle()

        assert len(firing.cut) == len(firing.began) == MAX_FIRING_TIMERS + 1
        assert firing.ended == []


async def test_a_runtime_that_ends_waits_for_the_timers_that_fire(firing: Firing) -> None:
    async with open_stage(an_agent()) as stage, a_worker(stage, 1) as worker:
        stopping = asyncio.create_task(worker.stop())
        await stage.clock.settle()
        assert not stopping.done()

        firing.gate.set()

        assert await stopping == 0
        assert firing.ended == ["t-0"]
