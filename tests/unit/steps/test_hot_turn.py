"""The hot turn: a model step's worker goes on with the next step itself (design §3)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from perdure import function_tool
from perdure.core.limits import LEASE_DURATION, LEASE_GRACE
from perdure.errors import StoreUnavailableError
from perdure.steps.base import HotTurn, StepMessage
from perdure.steps.call_tool import call_tool
from perdure.steps.recover import sweep, sweep_session
from perdure.steps.run_model import TIME_TO_GO_ON
from perdure.testing.fixtures import SESSION, open_stage
from tests.unit.steps.builders import an_agent, asking_for

ANY = HotTurn(any_tool=True)


@function_tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


@function_tool(effect="read", inline=True)
async def glance() -> str:
    """Look quickly."""
    return "seen"


class Counting:
    """A write that counts its runs, and may be made to die."""

    def __init__(self) -> None:
        self.runs = 0
        self.dies = False

    def tool(self) -> Any:
        @function_tool(effect="non_idempotent_write", requires_approval=False, name="pay")
        async def pay() -> str:
            """Pay."""
            self.runs += 1
            if self.dies:
                raise asyncio.CancelledError
            return "paid"

        return pay


async def test_a_turn_with_a_tool_takes_one_message() -> None:
    async with open_stage(an_agent(look, model=asking_for("look")), hot=ANY) as stage:
        await stage.send("go")

        ran = await stage.run_all()

        assert [message.kind for message in ran] == ["run_model"]
        assert len(stage.queue.all_sent) == 1
        assert [role for role, _ in await stage.transcript()] == ["user", "assistant", "tool", "assistant"]
        assert (await stage.snapshot())["state"]["status"] == "waiting_for_user_message"


async def test_the_same_entries_are_written_with_and_without_it() -> None:
    kinds = []
    for hot in (None, ANY):
        async with open_stage(an_agent(look, model=asking_for("look")), hot=hot) as stage:
            await stage.send("go")
            await stage.run_all()
            kinds.append([(entry.kind, [event.type for event in entry.events]) for entry in await stage.entries()])

    assert kinds[0] == kinds[1]
    assert len(kinds[0]) == 4


async def test_a_write_that_is_taken_costs_no_commit_of_its_own_and_runs_once() -> None:
    counting = Counting()
    async with open_stage(an_agent(counting.tool(), model=asking_for("pay")), hot=ANY) as stage:
        await stage.send("go")

        await stage.run_all()

        assert counting.runs == 1
        assert [entry.kind for entry in await stage.entries()] == [
            "send_input",
            "model_finished",
            "tool_finished",
            "model_finished",
        ]
        assert await stage.results() == {"pay": ("succeeded", "paid")}


async def test_a_model_worker_leaves_tools_that_did_not_opt_in_to_the_queue() -> None:
    async with open_stage(an_agent(look, model=asking_for("look")), hot=HotTurn()) as stage:
        await stage.send("go")

        ran = await stage.run_all()

        assert [message.kind for message in ran] == ["run_model", "call_tool", "run_model"]


async def test_a_model_worker_runs_tools_that_opted_in() -> None:
    async with open_stage(an_agent(glance, model=asking_for("glance")), hot=HotTurn()) as stage:
        await stage.send("go")

        assert [message.kind for message in await stage.run_all()] == ["run_model"]


async def test_a_worker_without_time_sends_the_next_step() -> None:
    async with open_stage(an_agent(look, model=asking_for("look")), hot=ANY) as stage:
        await stage.send("go")

        deadline = stage.clock.now() + TIME_TO_GO_ON - timedelta(seconds=1)
        await stage.run_next(deadline=deadline)

        assert [d.kind for _, d in stage.queue.sent] == ["call_tool"]


async def test_a_step_that_is_being_run_hot_is_left_alone_by_messages_and_by_the_sweep() -> None:
    runs = 0

    @function_tool(effect="read")
    async def slow() -> str:
        """Take long."""
        nonlocal runs
        runs += 1
        await call_tool(stage.deps, StepMessage(key=SESSION, kind="call_tool", step_id="call-2-0", attempt=1))
        await sweep_session(stage.deps, SESSION)
        return "seen"

    async with open_stage(an_agent(slow, model=asking_for("slow")), hot=ANY) as stage:
        await stage.send("go")
        await stage.run_all()

        assert runs == 1
        assert len(stage.queue.all_sent) == 1
        assert await stage.results() == {"slow": ("succeeded", "seen")}


async def dies_after_taking(stage: Any, *, commits: int) -> None:
    """Run the turn until the store has taken this many commits; the worker dies right behind the last one."""
    stage.store.left = commits
    with pytest.raises(StoreUnavailableError):
        await stage.run(stage.taken())
    stage.store.left = None


class DyingStore:
    """A store after whose n-th commit nothing of the worker happens any more."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.left: int | None = None

    def __getattr__(self, name: str) -> Any:
        if self.left is not None and self.left <= 0:
            raise StoreUnavailableError("the worker died")
        return getattr(self._store, name)

    async def commit(self, *args: Any) -> Any:
        if self.left is not None and self.left <= 0:
            raise StoreUnavailableError("the worker died")
        made = await self._store.commit(*args)
        if self.left is not None:
            self.left -= 1
        return made


@pytest.mark.parametrize("commits", [1, 2])
async def test_a_step_whose_worker_died_is_found_when_its_claim_has_ended(commits: int) -> None:
    async with open_stage(an_agent(look, model=asking_for("look")), hot=ANY, wrap_store=DyingStore) as stage:
        await stage.send("go")
        await dies_after_taking(stage, commits=commits)

        await stage.clock.advance((LEASE_DURATION + LEASE_GRACE).total_seconds() - 60)
        await sweep_session(stage.deps, SESSION)
        assert stage.queue.sent == []
        await stage.clock.advance(60)
        assert await sweep(stage.deps) == 1
        await stage.run_all()

        assert (await stage.event_types()).count("attempt_reset") == 1
        assert (await stage.transcript())[-1] == ("assistant", "done")


async def test_a_write_whose_worker_died_after_taking_it_ends_with_an_unknown_outcome() -> None:
    counting = Counting()
    agent = an_agent(counting.tool(), model=asking_for("pay"))
    async with open_stage(agent, hot=ANY, wrap_store=DyingStore) as stage:
        await stage.send("go")
        await dies_after_taking(stage, commits=1)
        runs = counting.runs

        await stage.clock.advance((LEASE_DURATION + LEASE_GRACE).total_seconds())
        await sweep(stage.deps)
        await stage.run_all()

        assert counting.runs == runs <= 1
        assert (await stage.results())["pay"][0] == "outcome_unknown"


async def test_a_start_of_the_process_does_not_wait_for_a_claim_of_the_one_before() -> None:
    async with open_stage(an_agent(look, model=asking_for("look")), hot=ANY, wrap_store=DyingStore) as stage:
        await stage.send("go")
        await dies_after_taking(stage, commits=1)

        await sweep_session(stage.deps, SESSION, at_start=True)
        await stage.run_all()

        assert (await stage.transcript())[-1] == ("assistant", "done")


async def test_a_long_hot_step_holds_a_lease_from_its_first_renewal_on() -> None:
    seen: list[tuple[timedelta, int]] = []

    @function_tool(effect="read")
    async def slow() -> str:
        """Take long."""
        await stage.clock.sleep(150)
        lease = await stage.leases.read_lease(SESSION, "call-2-0")
        assert lease is not None
        await sweep_session(stage.deps, SESSION)
        seen.append((lease.expires_at - stage.clock.now(), len(stage.queue.all_sent)))
        await stage.clock.sleep(100)
        return "seen"

    async with open_stage(an_agent(slow, model=asking_for("slow")), hot=ANY) as stage:
        await stage.send("go")
        await stage.run_all()

        ((left, sent),) = seen
        assert left > timedelta(seconds=90)
        assert sent == 1
        assert await stage.results() == {"slow": ("succeeded", "seen")}


async def test_a_message_that_came_meanwhile_makes_the_commit_read_again() -> None:
    came: list[str] = []

    @function_tool(effect="read")
    async def look_again() -> str:
        """Look."""
        if not came:
            came.append((await stage.send("and then?"))["message_id"])
        return "seen"

    async with open_stage(an_agent(look_again, model=asking_for("look_again")), hot=ANY) as stage:
        await stage.send("go")

        ran = await stage.run_all()

        assert [message.kind for message in ran] == ["run_model"]
        turn = ["user", "assistant", "tool", "assistant"]
        assert [role for role, _ in await stage.transcript()] == [*turn, *turn]
