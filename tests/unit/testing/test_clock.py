"""The virtual clock: sleepers wake in order, nothing is skipped, and a deadlock is told."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from perdure.testing.clock import NOON, StuckError, VirtualClock


async def test_sleepers_wake_in_the_order_of_their_times_and_see_them() -> None:
    clock = VirtualClock()
    woken: list[tuple[str, timedelta]] = []

    async def sleeper(name: str, *waits: float) -> None:
        for wait in waits:
            await clock.sleep(wait)
            woken.append((name, clock.now() - NOON))

    tasks = [asyncio.create_task(sleeper("a", 3, 1)), asyncio.create_task(sleeper("b", 2, 5))]
    await clock.advance(4.5)

    assert woken == [("b", timedelta(seconds=2)), ("a", timedelta(seconds=3)), ("a", timedelta(seconds=4))]
    assert clock.now() - NOON == timedelta(seconds=4.5)
    await clock.advance(10)
    await asyncio.gather(*tasks)


async def test_running_jumps_to_the_next_sleeper_only_when_nothing_else_can_happen() -> None:
    clock = VirtualClock()
    order: list[str] = []

    async def busy() -> None:
        for _ in range(50):
            await asyncio.sleep(0)
        order.append("busy")

    async def work() -> str:
        other = asyncio.create_task(busy())
        await clock.sleep(3600)
        order.append("slept")
        await other
        return "done"

    assert await clock.run(work()) == "done"
    assert order == ["busy", "slept"]
    assert clock.now() - NOON == timedelta(hours=1)


async def test_no_time_passes_while_an_answer_from_a_thread_is_awaited() -> None:
    clock = VirtualClock()
    go_on = threading.Event()

    async def work() -> timedelta:
        with clock.working():
            await asyncio.to_thread(go_on.wait)
        return clock.now() - NOON

    async def rival() -> None:
        await clock.sleep(1)

    asyncio.get_running_loop().call_later(0.05, go_on.set)
    waiting = asyncio.create_task(rival())

    assert await clock.run(work()) == timedelta(0)
    await clock.advance(1)
    assert waiting.done()


async def test_work_that_waits_for_nothing_that_can_come_is_told_and_ended() -> None:
    clock = VirtualClock()
    ended: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with pytest.raises(StuckError):
        await clock.run(work())
    assert ended == [True]


async def test_work_that_only_sleeps_for_ever_is_given_up() -> None:
    clock = VirtualClock()

    async def work() -> None:
        while True:
            await clock.sleep(60)

    with pytest.raises(StuckError):
        await clock.run(work(), within=timedelta(minutes=10))


async def test_a_cancelled_sleeper_is_not_waited_for() -> None:
    clock = VirtualClock()
    sleeper = asyncio.create_task(clock.sleep(5))
    await clock.settle()
    sleeper.cancel()

    async def work() -> None:
        await clock.sleep(9)

    await clock.run(work())

    assert clock.now() - NOON == timedelta(seconds=9)


async def test_what_work_raises_comes_out() -> None:
    async def work() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await VirtualClock().run(work())
