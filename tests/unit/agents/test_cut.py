"""Work that is cut off when something else comes first: who wins, and what comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from perdure.agents.cut import CutOff, unless

Body = Callable[[], Coroutine[Any, Any, str]]


async def sleeps() -> str:
    await asyncio.Event().wait()
    return "never"


async def swallows() -> str:
    try:
        return await sleeps()
    except asyncio.CancelledError:
        return "an answer all the same"


async def fails_to_clean_up() -> str:
    try:
        return await sleeps()
    finally:
        raise OSError("the cleanup failed")


async def until_it_waits() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_work_that_ends_comes_out_and_nobody_looks_on_any_more() -> None:
    looking = asyncio.Event()

    async def comes() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            looking.set()

    async def work() -> str:
        await until_it_waits()
        return "done"

    assert await unless(comes, work()) == "done"
    await asyncio.wait_for(looking.wait(), 1)


async def test_an_error_of_the_work_comes_out_as_it_is() -> None:
    async def work() -> str:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await unless(asyncio.Event().wait, work())


@pytest.mark.parametrize("work", [sleeps, swallows, fails_to_clean_up])
async def test_work_is_cut_off_and_what_it_made_of_that_is_dropped(work: Body) -> None:
    signal = asyncio.Event()
    running = asyncio.create_task(unless(signal.wait, work()))
    await until_it_waits()

    signal.set()

    with pytest.raises(CutOff):
        await running
    assert running.cancelling() == 0


@pytest.mark.parametrize("work", [sleeps, swallows, fails_to_clean_up])
async def test_a_cancellation_from_outside_wins_over_what_comes_with_it(work: Body) -> None:
    signal = asyncio.Event()
    running = asyncio.create_task(unless(signal.wait, work()))
    await until_it_waits()

    signal.set()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_cancellation_from_outside_alone_comes_out() -> None:
    running = asyncio.create_task(unless(asyncio.Event().wait, sleeps()))
    await until_it_waits()

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_cancellation_from_before_is_not_taken_for_one_of_now() -> None:
    signal = asyncio.Event()

    async def a_task_that_goes_on_after_a_cancellation() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            with pytest.raises(CutOff):
                await unless(signal.wait, sleeps())
            return "cut off"
        return "never cancelled"

    running = asyncio.create_task(a_task_that_goes_on_after_a_cancellation())
    await until_it_waits()
    running.cancel()
    await until_it_waits()

    signal.set()

    assert await running == "cut off"
