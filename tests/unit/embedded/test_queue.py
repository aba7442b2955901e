"""Steps and timers in memory, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from perdure.core.expected import Dispatch, Timer
from perdure.embedded.queue import EmbeddedQueue, EmbeddedTimers
from perdure.ports import SessionKey
from tests.unit.embedded.clocks import NOON, VirtualClock, settled

ANNA, BERT = SessionKey("acme", "anna"), SessionKey("acme", "bert")


def a_dispatch(step_id: str = "model-1-0", *, in_seconds: float | None = None) -> Dispatch:
    not_before = None if in_seconds is None else NOON + timedelta(seconds=in_seconds)
    return Dispatch(kind="run_model", step_id=step_id, attempt=1, not_before=not_before)


def a_timer(in_seconds: float, *, fence: int = 1) -> Timer:
    return Timer(timer_id="call-1-0", fence=fence, due_at=NOON + timedelta(seconds=in_seconds))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def queue(clock: VirtualClock) -> AsyncIterator[EmbeddedQueue]:
    queue = EmbeddedQueue(clock)
    yield queue
    queue.close()


@pytest.fixture
async def timers(clock: VirtualClock) -> AsyncIterator[EmbeddedTimers]:
    timers = EmbeddedTimers(clock)
    yield timers
    timers.close()


async def test_a_step_that_is_ready_is_handed_out_at_once(queue: EmbeddedQueue) -> None:
    await queue.send(ANNA, a_dispatch())

    assert await queue.next() == (ANNA, a_dispatch())


async def test_a_worker_that_waits_gets_the_step_that_comes(queue: EmbeddedQueue) -> None:
    waiting = asyncio.create_task(queue.next())
    await settled()

    await queue.send(ANNA, a_dispatch())

    assert await waiting == (ANNA, a_dispatch())


async def test_each_step_goes_to_one_of_the_workers_that_wait(queue: EmbeddedQueue) -> None:
    waiting = [asyncio.create_task(queue.next()) for _ in range(3)]
    await settled()

    await queue.send(ANNA, a_dispatch("model-1-0"))
    await queue.send(ANNA, a_dispatch("model-2-0"))
    await settled()

    done = [task.result()[1].step_id for task in waiting if task.done()]
    assert sorted(done) == ["model-1-0", "model-2-0"]
    for task in waiting:
        task.cancel()


async def test_a_step_is_not_handed_out_before_its_time(queue: EmbeddedQueue, clock: VirtualClock) -> None:
    await queue.send(ANNA, a_dispatch(in_seconds=10))
    waiting = asyncio.create_task(queue.next())

    await clock.advance(9.999)
    assert not waiting.done()
    await clock.advance(0.001)

    assert waiting.result() == (ANNA, a_dispatch(in_seconds=10))


async def test_a_step_whose_time_has_passed_is_handed_out_at_once(queue: EmbeddedQueue, clock: VirtualClock) -> None:
    await clock.advance(60)

    await queue.send(ANNA, a_dispatch(in_seconds=10))

    assert (await queue.next())[0] == ANNA


async def test_delayed_steps_come_in_the_order_of_their_times_whenever_they_were_sent(
    queue: EmbeddedQueue, clock: VirtualClock
) -> None:
    for seconds in (30, 10, 20, 5):
        await queue.send(ANNA, a_dispatch(f"call-{seconds}-0", in_seconds=seconds))
        await settled()

    await clock.advance(25)

    assert [(await queue.next())[1].step_id for _ in range(3)] == ["call-5-0", "call-10-0", "call-20-0"]
    await clock.advance(5)
    assert (await queue.next())[1].step_id == "call-30-0"


async def test_a_step_delayed_beyond_the_longest_sleep_keeps_its_time(
    queue: EmbeddedQueue, clock: VirtualClock
) -> None:
    await queue.send(ANNA, a_dispatch(in_seconds=10_000))
    waiting = asyncio.create_task(queue.next())

    await clock.advance(9_999)
    assert not waiting.done()
    await clock.advance(1)

    assert waiting.done()


async def test_a_busy_session_does_not_starve_another(queue: EmbeddedQueue) -> None:
    for number in range(5):
        await queue.send(ANNA, a_dispatch(f"call-1-{number}"))
    await queue.send(BERT, a_dispatch("call-1-0"))

    order = [(await queue.next())[0] for _ in range(6)]

    assert order[:2] == [ANNA, BERT]
    assert order[2:] == [ANNA] * 4


async def test_steps_of_one_session_keep_their_order(queue: EmbeddedQueue) -> None:
    for number in range(4):
        await queue.send(ANNA, a_dispatch(f"call-1-{number}"))

    assert [(await queue.next())[1].step_id for _ in range(4)] == [f"call-1-{number}" for number in range(4)]


async def test_a_worker_that_was_cancelled_takes_no_step_with_it(queue: EmbeddedQueue) -> None:
    gone = asyncio.create_task(queue.next())
    await settled()
    await queue.send(ANNA, a_dispatch())
    gone.cancel()
    await settled()

    assert await asyncio.wait_for(queue.next(), 1) == (ANNA, a_dispatch())


async def test_a_timer_fires_at_its_time_and_not_before(timers: EmbeddedTimers, clock: VirtualClock) -> None:
    await timers.set(ANNA, a_timer(60))
    waiting = asyncio.create_task(timers.next())

    await clock.advance(59)
    assert not waiting.done()
    await clock.advance(1)

    assert waiting.result() == (ANNA, a_timer(60))


async def test_a_timer_that_is_set_again_fires_once(timers: EmbeddedTimers, clock: VirtualClock) -> None:
    await timers.set(ANNA, a_timer(60))
    await timers.set(ANNA, a_timer(60))

    await clock.advance(120)

    assert await timers.next() == (ANNA, a_timer(60))
    waiting = asyncio.create_task(timers.next())
    await clock.advance(120)
    assert not waiting.done()
    waiting.cancel()


async def test_a_cancelled_timer_does_not_fire(timers: EmbeddedTimers, clock: VirtualClock) -> None:
    await timers.set(ANNA, a_timer(60))
    await timers.set(BERT, a_timer(90))

    await timers.cancel(ANNA, a_timer(60))
    await timers.cancel(ANNA, a_timer(61))
    await clock.advance(120)

    assert (await timers.next())[0] == BERT


async def test_x12_a_timer_that_was_moved_fires_at_its_new_time(timers: EmbeddedTimers, clock: VirtualClock) -> None:
    await timers.set(ANNA, a_timer(60, fence=1))

    await timers.cancel(ANNA, a_timer(60, fence=1))
    await timers.set(ANNA, a_timer(30, fence=2))
    await clock.advance(300)

    assert (await timers.next())[1].fence == 2
    waiting = asyncio.create_task(timers.next())
    await settled()
    assert not waiting.done()
    waiting.cancel()


async def test_a_timer_cancelled_and_set_again_fires_once(timers: EmbeddedTimers, clock: VirtualClock) -> None:
    await timers.set(ANNA, a_timer(60))
    await timers.cancel(ANNA, a_timer(60))
    await timers.set(ANNA, a_timer(60))

    await clock.advance(60)

    assert await timers.next() == (ANNA, a_timer(60))
    waiting = asyncio.create_task(timers.next())
    await clock.advance(60)
    assert not waiting.done()
    waiting.cancel()


async def test_a_timer_may_be_set_again_after_it_fired(timers: EmbeddedTimers, clock: VirtualClock) -> None:
    await timers.set(ANNA, a_timer(60))
    await clock.advance(60)
    await timers.next()

    await timers.set(ANNA, a_timer(60))
    await clock.advance(0)

    assert await asyncio.wait_for(timers.next(), 1) == (ANNA, a_timer(60))


async def test_timers_that_were_cancelled_take_no_memory_until_their_time(timers: EmbeddedTimers) -> None:
    kept = a_timer(90_000)
    await timers.set(ANNA, kept)

    for fence in range(10_000):
        await timers.set(BERT, a_timer(86_400, fence=fence))
        await timers.cancel(BERT, a_timer(86_400, fence=fence))
        await timers.cancel(ANNA, kept)
        await timers.set(ANNA, kept)

    assert len(timers._alarm) < 1_000


async def test_a_timer_fires_behind_very_many_that_were_cancelled(timers: EmbeddedTimers, clock: VirtualClock) -> None:
    await timers.set(ANNA, a_timer(90))
    for fence in range(1_000):
        await timers.set(BERT, a_timer(60, fence=fence))
    for fence in range(1_000):
        await timers.cancel(BERT, a_timer(60, fence=fence))

    await clock.advance(90)

    assert await timers.next() == (ANNA, a_timer(90))
