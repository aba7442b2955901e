"""What `Timers` promises."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.core.expected import Timer
from perdure.ports import SessionKey
from perdure.testing.conformance.builders import A_SESSION, NOON
from perdure.testing.conformance.delivery import Delivery

pytestmark = pytest.mark.asyncio

A_MOMENT = timedelta(milliseconds=1)
SOON_AFTER = timedelta(seconds=1)
DELAYS = [
    timedelta(milliseconds=300),
    timedelta(seconds=10),
    timedelta(seconds=900),
    timedelta(seconds=901),
    timedelta(seconds=1020),
    timedelta(seconds=1021.5),
    timedelta(hours=1),
    timedelta(days=31, milliseconds=7),
]


def a_timer(delay: timedelta, *, timer_id: str = "call-2-0", fence: int = 2) -> Timer:
    return Timer(timer_id=timer_id, fence=fence, due_at=NOON + delay)


@pytest.mark.parametrize("delay", DELAYS, ids=str)
async def test_a_timer_fires_at_its_time_and_never_before(delivery: Delivery, delay: timedelta) -> None:
    await delivery.timers.set(A_SESSION, a_timer(delay))

    await delivery.until(NOON + delay - A_MOMENT)
    early = list(delivery.fired)
    await delivery.until(NOON + delay + SOON_AFTER)

    assert early == []
    assert [(came.key, came.name, came.number) for came in delivery.fired] == [(A_SESSION, "call-2-0", 2)]


async def test_a_timer_that_is_overdue_fires_at_once(delivery: Delivery) -> None:
    await delivery.timers.set(A_SESSION, a_timer(-timedelta(days=1)))

    await delivery.until(NOON)

    assert [came.at for came in delivery.fired] == [NOON]


@pytest.mark.parametrize("delay", [timedelta(seconds=10), timedelta(hours=1)], ids=str)
async def test_a_timer_that_is_set_again_fires_as_the_one_it_is(delivery: Delivery, delay: timedelta) -> None:
    await delivery.timers.set(A_SESSION, a_timer(delay))
    await delivery.timers.set(A_SESSION, a_timer(delay))

    await delivery.until(NOON + delay + SOON_AFTER)

    assert {(came.name, came.number) for came in delivery.fired} == {("call-2-0", 2)}


async def test_a_timer_that_is_cancelled_long_before_its_time_never_fires(delivery: Delivery) -> None:
    timer = a_timer(timedelta(hours=2))
    await delivery.timers.set(A_SESSION, timer)
    await delivery.after(timedelta(hours=1))

    await delivery.timers.cancel(A_SESSION, timer)
    await delivery.after(timedelta(hours=2))

    assert delivery.fired == []


@pytest.mark.parametrize("delay", [timedelta(seconds=10), timedelta(hours=1)], ids=str)
async def test_a_timer_that_is_not_there_can_be_cancelled(delivery: Delivery, delay: timedelta) -> None:
    await delivery.timers.cancel(A_SESSION, a_timer(delay))
    await delivery.timers.cancel(A_SESSION, a_timer(delay))

    await delivery.after(timedelta(hours=2))

    assert delivery.fired == []


@pytest.mark.parametrize("later", [timedelta(seconds=20), timedelta(hours=2)], ids=str)
async def test_x12_a_timer_that_was_moved_fires_at_its_new_time(delivery: Delivery, later: timedelta) -> None:
    await delivery.timers.set(A_SESSION, a_timer(timedelta(hours=1), fence=2))

    await delivery.timers.set(A_SESSION, a_timer(later, fence=5))
    await delivery.until(NOON + timedelta(hours=3))

    assert (NOON + later, 5) in [(came.at, came.number) for came in delivery.fired]


async def test_timers_of_other_ids_sessions_and_tenants_are_independent(delivery: Delivery) -> None:
    hour = timedelta(hours=1)
    others = [
        (A_SESSION, a_timer(hour, timer_id="call-2-1")),
        (SessionKey(A_SESSION.tenant, "s-2"), a_timer(hour)),
        (SessionKey("acme/eu 🌍", A_SESSION.session_id), a_timer(hour)),
    ]
    for key, timer in [(A_SESSION, a_timer(hour)), *others]:
        await delivery.timers.set(key, timer)

    await delivery.timers.cancel(A_SESSION, a_timer(hour))
    await delivery.after(hour + SOON_AFTER)

    assert {(came.key, came.name) for came in delivery.fired} == {(key, timer.timer_id) for key, timer in others}
