"""Barriers: the calls of several workers go on in the order that a test chose, and a race always ends."""

from __future__ import annotations

import asyncio

import pytest

from perdure.ports import SessionKey
from perdure.steps.commit import execute
from perdure.testing.barriers import BarrierError, Race, in_order, lockstep, seeded, together
from perdure.testing.clock import VirtualClock
from perdure.testing.conformance.builders import a_message
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.steps.builders import an_agent

KEY = SessionKey("local", "s-1")


async def load_twice(race: Race, stage: Stage, name: str) -> str:
    ports = race.around(stage.ports, name)
    await ports.store.load(KEY)
    await ports.leases.read_lease(KEY, "model-1-0")
    await ports.store.load(KEY)
    return name


def calls(race: Race) -> list[str]:
    return [str(span) for span in race.trace.spans]


async def test_calls_are_made_in_the_order_that_was_chosen_and_others_after_it() -> None:
    async with open_stage(an_agent()) as stage, Race(stage.clock) as race:
        for name in ("a", "b"):
            race.start(name, load_twice(race, stage, name))

        outcomes = await race.run(in_order("b store.load", "a store.load", "b leases.read_lease"))

        assert outcomes == {"a": "a", "b": "b"}
        assert calls(race)[:3] == ["b store.load", "a store.load", "b leases.read_lease"]
        assert len(calls(race)) == 6


async def test_a_worker_makes_the_calls_that_lead_to_the_one_that_is_next() -> None:
    async with open_stage(an_agent()) as stage, Race(stage.clock) as race:
        for name in ("a", "b"):
            race.start(name, load_twice(race, stage, name))

        await race.run(in_order("b leases.read_lease", "a leases.read_lease"))

        assert calls(race)[:4] == ["b store.load", "b leases.read_lease", "a store.load", "a leases.read_lease"]


async def test_an_order_that_can_not_be_kept_says_who_waits_where() -> None:
    async with open_stage(an_agent()) as stage, Race(stage.clock) as race:
        race.start("a", load_twice(race, stage, "a"))

        with pytest.raises(BarrierError, match=r"a store\.load wait"):
            await race.run(in_order("b store.load"))


@pytest.mark.parametrize("seed", range(5))
async def test_a_seed_makes_the_same_race_again(seed: int) -> None:
    races = []
    for _ in range(2):
        async with open_stage(an_agent()) as stage, Race(stage.clock) as race:
            for name in ("a", "b", "c"):
                race.start(name, load_twice(race, stage, name))
            await race.run(seeded(seed))
            races.append(calls(race))

    assert races[0] == races[1]
    assert len(races[0]) == 9


async def test_calls_that_go_on_together_do_not_precede_each_other() -> None:
    clock = VirtualClock()
    async with open_stage(an_agent(), clock=clock) as stage, Race(clock) as race:
        for name in ("a", "b"):
            race.start(name, load_twice(race, stage, name))

        await race.run(together)

        first, second = race.trace.find("a", "store.load"), race.trace.find("b", "store.load")
        assert not race.trace.precedes(first, second)
        assert not race.trace.precedes(second, first)
        assert race.trace.precedes(second, race.trace.find("a", "store.load", -1))


async def test_in_lockstep_of_n_writers_the_last_one_loses_n_minus_one_commits() -> None:
    async with open_stage(an_agent()) as stage, Race(stage.clock) as race:
        for number in range(5):
            name = f"w{number}"
            race.start(name, execute(race.around(stage.ports, name), KEY, a_message()))

        await race.run(lockstep)

        assert sorted(race.trace.lost().values()) == [1, 2, 3, 4]


async def test_a_worker_goes_through_one_call_and_no_further() -> None:
    async with open_stage(an_agent()) as stage, Race(stage.clock) as race:
        for name in ("a", "b"):
            race.start(name, load_twice(race, stage, name))

        await race.through("a", "leases.read_lease")

        assert calls(race) == ["a store.load", "a leases.read_lease"]
        assert await race.free() == {"a": "a", "b": "b"}


async def test_a_race_in_which_nobody_can_go_on_ends_with_an_error_and_without_leftovers() -> None:
    async def wait_for_nothing() -> None:
        await asyncio.Event().wait()

    async with open_stage(an_agent()) as stage, Race(stage.clock) as race:
        race.start("a", wait_for_nothing())
        with pytest.raises(BarrierError, match="nobody can go on"):
            await race.run(together)

    assert [task for task in asyncio.all_tasks() if task.get_name() == "a"] == []


async def test_a_worker_that_never_stops_calling_is_called_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.testing.barriers.MAX_CALLS", 50)

    async with open_stage(an_agent()) as stage, Race(stage.clock) as race:

        async def spin() -> None:
            ports = race.around(stage.ports, "a")
            while True:
                await ports.store.load(KEY)

        race.start("a", spin())

        with pytest.raises(BarrierError, match="no end after 50 port calls"):
            await race.run(together)


async def test_what_a_worker_raises_is_its_outcome() -> None:
    async def fail() -> None:
        raise KeyError("k")

    async with open_stage(an_agent()) as stage, Race(stage.clock) as race:
        race.start("a", fail())

        assert repr((await race.run(together))["a"]) == "KeyError('k')"
