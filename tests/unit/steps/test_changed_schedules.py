"""What a schedule says, or when, is changed: what is left out stays, and nobody changes what is not there any more."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from perdure.errors import NotFoundError, RequestConflictError
from perdure.service import LOCAL_CALLER, Service
from perdure.steps.base import StepDeps
from perdure.testing.fixtures import open_stage
from tests.unit.steps.builders import an_agent
from tests.unit.steps.scheduled import asking, due, heard


async def test_what_a_schedule_says_can_be_changed_without_its_next_time() -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        service, hour = stage.service, {"after": {"hours": 1}}
        every = {"every": {"minutes": 90}, "time_zone": "UTC"}
        await service.set_schedule(LOCAL_CALLER, "s-1", text="old", when=hour, schedule_id="once")
        await service.set_schedule(LOCAL_CALLER, "s-1", text="old", when=every, schedule_id="often")
        times = {each["schedule_id"]: each["next_at"] for each in await stage.session().schedules()}
        await stage.clock.advance(60)

        for schedule_id in times:
            await service.change_schedule(LOCAL_CALLER, "s-1", schedule_id, text="new")
        assert {each["schedule_id"]: each["next_at"] for each in await stage.session().schedules()} == times
        await due(stage)
        await due(stage)
        first = timedelta(minutes=90)
        (often,) = await stage.session().schedules()

        assert await heard(stage) == ["heard: new", "heard: new"]
        assert datetime.fromisoformat(often["next_at"]) == datetime.fromisoformat(times["often"]) + first


async def test_a_time_that_is_set_anew_counts_from_now_and_one_that_was_moved_stays_moved() -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        session = stage.session()
        await session.schedule("x", after=timedelta(hours=1), schedule_id="r")
        await stage.clock.advance(60)

        made = await session.change_schedule("r", after=timedelta(hours=1))
        assert datetime.fromisoformat(made["next_at"]) == stage.clock.now() + timedelta(hours=1)
        later = stage.clock.now() + timedelta(hours=5)
        await session.change_wait("schedule:r", later)
        made = await session.change_schedule("r", text="y")

        assert datetime.fromisoformat(made["next_at"]) == later


class Meanwhile:
    """A store in which somebody else comes behind the next reading of the log."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.then: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def read(self, key: Any, **what: Any) -> Any:
        found = await self.store.read(key, **what)
        then, self.then = self.then, None
        if then is not None:
            await then
        return found


@pytest.mark.parametrize(
    ("by", "code", "left"), [("cancel", "schedule_not_found", []), ("change", "stale_revision", ["theirs"])]
)
async def test_a_change_of_what_was_cancelled_or_changed_meanwhile_is_refused(
    by: str, code: str, left: list[str]
) -> None:
    # SCHD-04
    async with open_stage(an_agent(model=asking()), wrap_store=Meanwhile) as stage:
        session, store = stage.session(), cast(Any, stage.ports.store)
        await session.schedule("x", after=timedelta(hours=1), schedule_id="r")
        other = Service(StepDeps(ports=replace(stage.ports, store=store.store), agents=stage.deps.agents))
        cancelling = other.cancel_schedule(LOCAL_CALLER, "s-1", "r")
        changing = other.change_schedule(LOCAL_CALLER, "s-1", "r", text="theirs")
        store.then, unused = (cancelling, changing) if by == "cancel" else (changing, cancelling)
        unused.close()

        with pytest.raises((NotFoundError, RequestConflictError)) as caught:
            await session.change_schedule("r", text="ours")

        assert caught.value.code == code
        assert [each["text"] for each in await session.schedules()] == left
