"""The time of a scheduled message, at the same moment as something else, call by call, on the real adapters.

Whoever fires it how often, and whatever people do to it meanwhile: an occurrence is sent once, or not at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from perdure.core.codec import format_time
from perdure.errors import RequestError
from perdure.models.scripted import ScriptedModel
from perdure.service import LOCAL_CALLER
from perdure.steps.recover import sweep_session
from perdure.steps.waking import fire_timer
from perdure.testing.barriers import Order
from perdure.testing.fixtures import SESSION
from tests.races.rig import Rig, open_rig
from tests.races.test_waits import asks, fires, the_timer
from tests.unit.steps.builders import an_agent
from tests.unit.steps.scheduled import HOURLY

pytestmark = pytest.mark.slow

HOUR = timedelta(hours=1)
REPORT, WAIT = "Write the report.", "schedule:report"
IN_AN_HOUR = {"after": {"hours": 1}}


@asynccontextmanager
async def due(adapter: str, when: dict[str, Any] = IN_AN_HOUR) -> AsyncIterator[Rig]:
    """A session with a schedule whose time has come, and nothing else."""
    async with open_rig(adapter, an_agent(model=ScriptedModel(lambda _: "done"))) as rig:
        await rig.stage.service.set_schedule(LOCAL_CALLER, "s-1", text=REPORT, when=when, schedule_id="report")
        await rig.stage.clock.advance(HOUR.total_seconds())
        yield rig


def refused(outcomes: dict[str, Any]) -> dict[str, str]:
    """Return who was refused and why; nothing else may have gone wrong."""
    for outcome in outcomes.values():
        if isinstance(outcome, BaseException) and not isinstance(outcome, RequestError):
            raise outcome
    return {name: outcome.code for name, outcome in outcomes.items() if isinstance(outcome, RequestError)}


async def said(rig: Rig) -> list[str]:
    return [text for role, text in await rig.stage.transcript() if role == "user"]


async def fired(rig: Rig) -> list[int]:
    """Return the numbers of the occurrences that were sent."""
    events = [event for entry in await rig.stage.entries() for event in entry.events]
    return [event.payload["number"] for event in events if event.type == "schedule.fired"]


async def test_an_occurrence_that_two_workers_and_the_sweep_fire_comes_once(adapter: str, order: Order) -> None:
    async with due(adapter) as rig:
        timer = the_timer(rig)

        for name in ("timer", "duplicate"):
            fires(rig, name, timer)
        rig.race.start("sweep", sweep_session(rig.worker("sweep"), SESSION))
        assert not refused(await rig.race.run(order))
        await rig.finish()

        assert await said(rig) == [REPORT]


async def test_an_occurrence_of_a_recurring_schedule_that_fires_twice_leaves_the_next_one(
    adapter: str, order: Order
) -> None:
    async with due(adapter, HOURLY) as rig:
        timer = the_timer(rig)

        for name in ("timer", "duplicate"):
            fires(rig, name, timer)
        assert not refused(await rig.race.run(order))
        await rig.race.free()
        await rig.stage.run_all()

        assert len(await fired(rig)) == 1
        (schedule,) = (await rig.stage.head()).schedules
        assert schedule.slot - rig.stage.clock.now() == HOUR
        await rig.stage.clock.advance(HOUR.total_seconds())
        await rig.stage.fire_timers()
        await rig.stage.run_all()
        await rig.stage.service.cancel_schedule(LOCAL_CALLER, "s-1", "report")
        await rig.finish()

        first, second = await fired(rig)
        assert second == first + 1
        assert await said(rig) == [REPORT, REPORT]


async def test_a_schedule_that_is_cancelled_as_its_time_comes_is_sent_or_cancelled(adapter: str, order: Order) -> None:
    async with due(adapter) as rig:
        timer = the_timer(rig)

        for name in ("timer", "duplicate"):
            fires(rig, name, timer)
        asks(rig, "anna", "cancel_schedule", "report")
        not_there = refused(await rig.race.run(order))
        await rig.finish()

        assert not_there in ({}, {"anna": "schedule_not_found"})
        assert await said(rig) == ([REPORT] if not_there else [])


async def test_a_schedule_that_is_moved_as_its_time_comes_is_sent_at_one_of_the_two_times(
    adapter: str, order: Order
) -> None:
    async with due(adapter) as rig:
        timer = the_timer(rig)

        asks(rig, "anna", "change_wait", WAIT, until=format_time(rig.stage.clock.now() + HOUR))
        fires(rig, "timer", timer)
        not_there = refused(await rig.race.run(order))
        await rig.race.free()
        await rig.stage.run_all()
        await fire_timer(rig.stage.deps, SESSION, *timer)
        await rig.stage.run_all()

        assert not_there in ({}, {"anna": "not_pending"})
        assert await said(rig) == ([REPORT] if not_there else []), "the old timer sent what had been moved"
        await rig.stage.skip_timers()
        await rig.finish()
        assert await said(rig) == [REPORT]


async def test_an_occurrence_that_is_skipped_to_as_its_time_comes_comes_once(adapter: str, order: Order) -> None:
    async with due(adapter) as rig:
        timer = the_timer(rig)

        for name in ("anna", "bert"):
            asks(rig, name, "skip_wait", WAIT)
        fires(rig, "timer", timer)
        refusals = refused(await rig.race.run(order))
        await rig.finish()

        assert set(refusals.values()) <= {"not_pending"}
        assert refusals
        assert await said(rig) == [REPORT]


async def test_an_occurrence_and_a_message_have_a_turn_each(adapter: str, order: Order) -> None:
    async with due(adapter) as rig:
        timer = the_timer(rig)

        for name in ("timer", "duplicate"):
            fires(rig, name, timer)
        asks(rig, "anna", "send_input", text="hello")
        assert not refused(await rig.race.run(order))
        await rig.finish()

        assert sorted(await said(rig)) == [REPORT, "hello"]
        assert (await rig.stage.event_types()).count("turn_completed") == 2


async def test_an_occurrence_beside_a_pause_is_answered_behind_the_resume(adapter: str, order: Order) -> None:
    async with due(adapter) as rig:
        timer = the_timer(rig)

        for name in ("timer", "duplicate"):
            fires(rig, name, timer)
        asks(rig, "anna", "pause")
        assert not refused(await rig.race.run(order))
        await rig.race.free()
        await rig.stage.run_all()
        await rig.stage.service.resume(LOCAL_CALLER, "s-1")
        await rig.finish()

        assert await said(rig) == [REPORT]
        assert len(await fired(rig)) == 1
