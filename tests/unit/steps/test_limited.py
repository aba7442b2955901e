"""Work with a limit on the runtime's clock."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from perdure.steps import limited
from perdure.steps.limited import in_time
from perdure.testing.clock import VirtualClock


async def test_work_that_takes_no_cancellation_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited, "LONGEST_GOODBYE", 0.01)
    clock, enough = VirtualClock(), asyncio.Event()

    async def stubborn() -> None:
        while not enough.is_set():
            with suppress(asyncio.CancelledError):
                await enough.wait()

    waiting = asyncio.ensure_future(in_time(clock, 30, stubborn()))
    await clock.settle()
    await clock.advance(30)

    with pytest.raises(TimeoutError, match="30 s"):
        await asyncio.wait_for(waiting, 2)
    enough.set()


async def test_work_that_is_cut_off_cleans_up_first() -> None:
    clock, cleaned = VirtualClock(), []

    async def tidy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    waiting = asyncio.ensure_future(in_time(clock, 30, tidy()))
    await clock.settle()
    await clock.advance(30)

    with pytest.raises(TimeoutError):
        await waiting
    assert cleaned == [True]


async def test_work_that_ends_with_no_exception_is_a_failure_like_others() -> None:
    async def interrupted() -> None:
        raise BaseExceptionGroup("all of it", [KeyboardInterrupt()])

    with pytest.raises(RuntimeError, match="BaseExceptionGroup"):
        await in_time(VirtualClock(), 30, interrupted())
