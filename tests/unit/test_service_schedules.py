"""The operations on schedules: setting, changing, cancelling, and who may (SCHD-01, WAIT-06)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from perdure.service import LOCAL_CALLER
from perdure.testing.fixtures import open_stage
from tests.unit.steps.builders import OTHER, an_agent
from tests.unit.steps.scheduled import HOURLY, asking, due, heard


async def test_setting_with_a_key_twice_gives_the_first_reply_and_makes_one() -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        replies = [
            await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="x", when=HOURLY, idempotency_key="k")
            for _ in range(2)
        ]

        assert replies[0] == replies[1]
        assert len((await stage.service.schedules(LOCAL_CALLER, "s-1"))["schedules"]) == 1


async def test_what_a_schedule_says_can_be_changed_and_its_next_time_moved() -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        service = stage.service
        await service.set_schedule(LOCAL_CALLER, "s-1", text="old", when=HOURLY, schedule_id="r")

        await service.change_schedule(LOCAL_CALLER, "s-1", "r", text="new")
        (shown,) = (await service.schedules(LOCAL_CALLER, "s-1"))["schedules"]
        assert (shown["text"], shown["when"], shown["recurring"]) == ("new", HOURLY, True)
        assert len(stage.timers.pending) == 1
        await due(stage)

        assert await heard(stage) == ["heard: new"]
        with pytest.raises(InvalidRequestError, match="nothing to change"):
            await service.change_schedule(LOCAL_CALLER, "s-1", "r")
        with pytest.raises(NotFoundError, match="'q'"):
            await service.change_schedule(LOCAL_CALLER, "s-1", "q", text="x")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"text": " "}, "text is blank"),
        ({"schedule_id": "x" * 65}, "1 to 64"),
        ({"schedule_id": "a:b"}, "colon"),
        ({"schedule_id": "call-1-0"}, "looks like an id"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 1001}, "max_attempts"),
        ({"metadata": {"x": "y" * 20_000}}, "metadata"),
        ({"delivery": "soon"}, "delivery"),
        ({"agent": "nobody"}, "nobody"),
        ({"when": {}}, "exactly one"),
    ],
)
async def test_what_is_wrong_is_refused_and_named(changes: dict[str, Any], complaint: str) -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        with pytest.raises(InvalidRequestError, match=complaint):
            await stage.service.set_schedule(LOCAL_CALLER, "s-1", **{"text": "x", "when": HOURLY} | changes)

        assert not (await stage.head()).exists


async def test_somebody_elses_schedules_are_not_there() -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="x", when=HOURLY, schedule_id="r")

        with pytest.raises(NotFoundError):
            await stage.service.schedules(OTHER, "s-1")
        with pytest.raises(NotFoundError):
            await stage.service.cancel_schedule(OTHER, "s-1", "r")
        with pytest.raises(NotFoundError):
            await stage.service.set_schedule(OTHER, "s-1", text="y", when=HOURLY)


async def test_another_content_under_an_id_is_a_conflict() -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="x", when=HOURLY, schedule_id="r")

        with pytest.raises(RequestConflictError) as caught:
            await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="y", when=HOURLY, schedule_id="r")

        assert caught.value.code == "schedule_exists"


async def test_a_year_of_hours_is_as_many_messages() -> None:
    # a recurring schedule costs one timer at a time
    async with open_stage(an_agent(model=asking())) as stage:
        await stage.service.set_schedule(
            LOCAL_CALLER, "s-1", text="tick", when={"every": {"days": 30}, "time_zone": "UTC"}
        )
        started = stage.clock.now()
        for _ in range(12):
            assert len(stage.timers.pending) == 1
            await due(stage)

        assert (await heard(stage)).count("heard: tick") == 12
        assert stage.clock.now() - started == timedelta(days=360)


async def test_an_occurrence_may_be_moved_as_far_as_one_may_be_set() -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="x", when=HOURLY, schedule_id="r")
        now = stage.clock.now()

        await stage.session().change_wait("schedule:r", now + timedelta(days=8 * 366))
        with pytest.raises(InvalidRequestError, match="2928 days"):
            await stage.session().change_wait("schedule:r", now + timedelta(days=8 * 366 + 1))


@pytest.mark.parametrize("when", [{"after": {"hours": 2}}, {"every": {"minutes": 50}, "time_zone": "UTC"}])
async def test_another_text_leaves_the_times_as_they_are_moved_ones_too(when: dict[str, Any]) -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="old", when=when, schedule_id="r")
        await stage.clock.advance(600)
        before = (await stage.head()).schedules[0]

        await stage.session().change_schedule("r", text="new")
        assert (await stage.head()).schedules[0].slot == before.slot
        moved = before.slot + timedelta(minutes=7)
        await stage.session().change_wait("schedule:r", moved)
        await stage.session().change_schedule("r", metadata={"a": 1})

        assert (await stage.head()).schedules[0].due_at == moved
        await due(stage)
        assert await heard(stage) == ["heard: new"]
        left = [each.slot for each in (await stage.head()).schedules]
        assert left == ([] if "after" in when else [before.slot + timedelta(minutes=50)])


async def test_a_change_that_is_repeated_when_its_schedule_is_over_gets_its_first_reply_again() -> None:
    async with open_stage(an_agent(model=asking())) as stage:
        service = stage.service
        await service.set_schedule(LOCAL_CALLER, "s-1", text="x", when={"after": {"hours": 1}}, schedule_id="r")
        first = await service.change_schedule(LOCAL_CALLER, "s-1", "r", text="y", idempotency_key="k")
        await due(stage)

        assert await service.change_schedule(LOCAL_CALLER, "s-1", "r", text="y", idempotency_key="k") == first
        with pytest.raises(NotFoundError, match="'r'") as caught:
            await service.change_schedule(LOCAL_CALLER, "s-1", "r", text="z")
        assert caught.value.code == "schedule_not_found"
