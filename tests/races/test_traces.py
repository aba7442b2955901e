"""The traces of `races.md` in which a step takes part, each as its shortest story. README.md has the others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolContext, ToolPolicy, function_tool
from perdure.agents.definition import AgentDefinition
from perdure.core import texts
from perdure.core.decision import Decision
from perdure.core.entries import Entry
from perdure.core.expected import expected_timers
from perdure.core.limits import LEASE_DURATION, LEASE_GRACE, START_LEASE
from perdure.ports import Leases
from perdure.steps.base import StepDeps, StepMessage
from perdure.steps.call_tool import call_tool
from perdure.steps.recover import record_dead_letter, sweep_session
from perdure.steps.run_model import run_model
from perdure.steps.waking import fire_timer
from perdure.testing.fixtures import SESSION, Stage, open_stage
from tests.unit.steps.builders import HangingModel, an_agent, asking_for

DEAD_AFTER = (LEASE_DURATION + LEASE_GRACE).total_seconds()


class PausedLeases:
    """Leases that call somebody at one exact point: before or after one of their methods."""

    def __init__(self, leases: Leases, method: str, pause: Callable[[], Awaitable[None]], *, after: bool) -> None:
        self._leases = leases
        self._method = method
        self._pause = pause
        self._after = after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._leases, name)
        if name != self._method:
            return method

        async def paused(*args: Any) -> Any:
            if not self._after:
                await self._pause()
            answer = await method(*args)
            if self._after:
                await self._pause()
            return answer

        return paused


class Pause:
    """A point that is reached, and then left when the test says so."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self.go_on.wait()


def paused_in(stage: Stage, method: str, pause: Pause, *, after: bool) -> StepDeps:
    """Return the stage's ports for one more worker, which pauses at a method of its leases."""
    leases: Any = PausedLeases(stage.leases, method, pause, after=after)
    return replace(stage.deps, ports=replace(stage.ports, leases=leases))


def an_agent_that_works(effect: Any, ran: list[ToolContext], gate: asyncio.Event | None = None) -> AgentDefinition:
    @function_tool(effect=effect, name="work", requires_approval=False)
    async def work(context: ToolContext) -> str:
        ran.append(context)
        if gate is not None:
            await gate.wait()
        return "ok"

    return an_agent(work, model=asking_for("work"))


async def until_the_call(stage: Stage) -> StepMessage:
    await stage.send("go")
    await stage.run_next()
    return stage.taken()


async def test_x5_a_sweep_that_saw_no_lease_does_not_replace_a_worker_that_claimed_meanwhile() -> None:
    model = HangingModel()
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("hi")
        message = stage.taken()
        await stage.clock.advance(START_LEASE.total_seconds())
        pause = Pause()
        sweeping = asyncio.create_task(sweep_session(paused_in(stage, "read_lease", pause, after=True), SESSION))
        await pause.reached.wait()  # it saw no lease
        working = asyncio.create_task(run_model(stage.deps, message))
        await stage.clock.settle()
        assert model.waiting.is_set()

        pause.go_on.set()
        await sweeping
        again = stage.taken()  # sent again, since it seemed to be lost
        await run_model(stage.deps, again)

        turn = (await stage.head()).turn
        assert turn is not None
        assert turn.step is not None
        assert turn.step.attempt == 1
        assert model.calls == 1
        working.cancel()
        await asyncio.wait({working})


@pytest.mark.parametrize("effect", ["read", "idempotent_write", "non_idempotent_write"])
async def test_x5_did_not_run_is_said_only_of_what_can_not_run_any_more(effect: str) -> None:
    ran: list[ToolContext] = []
    async with open_stage(an_agent_that_works(effect, ran)) as stage:
        message = await until_the_call(stage)
        pause = Pause()
        late = asyncio.create_task(call_tool(paused_in(stage, "claim", pause, after=False), message))
        await pause.reached.wait()  # a worker has the message and is about to claim

        await record_dead_letter(stage.deps, message, "received five times")
        pause.go_on.set()
        await late

        assert await stage.results() == {"work": ("failed", f"{texts.DID_NOT_RUN}: received five times")}
        assert ran == []


@pytest.mark.parametrize("seed", range(12))
async def test_x5_whoever_comes_first_a_dead_letter_and_a_worker_never_contradict_each_other(seed: int) -> None:
    chance = random.Random(seed)
    ran: list[ToolContext] = []
    async with open_stage(an_agent_that_works("non_idempotent_write", ran)) as stage:
        message = await until_the_call(stage)

        async def after_a_while(work: Awaitable[None]) -> None:
            for _ in range(chance.randrange(12)):
                await asyncio.sleep(0)
            await work

        await asyncio.gather(
            after_a_while(call_tool(stage.deps, message)),
            after_a_while(record_dead_letter(stage.deps, message, "received five times")),
        )
        await stage.run_all()

        (status, _) = (await stage.results())["work"]
        assert (status, len(ran)) in (("succeeded", 1), ("failed", 0))


@pytest.mark.parametrize("effect", ["read", "idempotent_write", "non_idempotent_write"])
async def test_x6_a_worker_that_read_head_before_the_end_can_not_claim_the_attempt_again(effect: str) -> None:
    ran: list[ToolContext] = []
    async with open_stage(an_agent_that_works(effect, ran), in_process=False) as stage:
        message = await until_the_call(stage)
        pause = Pause()
        slow = asyncio.create_task(call_tool(paused_in(stage, "claim", pause, after=False), message))
        await pause.reached.wait()
        await stage.clock.settle()  # it has read HEAD, which expects the attempt

        await stage.run(message)
        pause.go_on.set()
        await slow

        assert len(ran) == 1
        assert (await stage.results())["work"][0] == "succeeded"


@pytest.mark.parametrize("effect", ["read", "non_idempotent_write"])
async def test_x6_an_attempt_whose_lease_ran_out_is_not_taken_over_as_the_same_attempt(effect: str) -> None:
    ran: list[ToolContext] = []
    async with open_stage(an_agent_that_works(effect, ran)) as stage:
        message = await until_the_call(stage)
        await stage.leases.claim(SESSION, message.step_id, 1, "dead", stage.clock.now() + LEASE_DURATION)
        await stage.clock.advance(DEAD_AFTER * 10)

        await stage.run(message)

        assert ran == []
        assert (await stage.head()).version == 2


async def test_x7_a_stop_never_calls_rejected_what_an_earlier_attempt_has_started() -> None:
    ran: list[ToolContext] = []
    gate = asyncio.Event()
    async with open_stage(an_agent_that_works("idempotent_write", ran, gate)) as stage:
        first = await until_the_call(stage)
        dying = asyncio.create_task(call_tool(stage.deps, first))
        await stage.clock.settle()
        dying.cancel()
        await asyncio.wait({dying})
        await stage.clock.advance(DEAD_AFTER)
        await sweep_session(stage.deps, SESSION)
        await stage.clock.advance(5)
        second = stage.taken()
        assert (second.attempt, await stage.leases.read_lease(SESSION, second.step_id) is None) == (2, False)

        await stage.stop()
        assert (await stage.results())["work"][0] != "rejected"
        gate.set()
        await stage.run(second)

        assert len(ran) == 1
        assert await stage.results() == {"work": ("outcome_unknown", texts.OUTCOME_UNKNOWN)}
        assert (await stage.event_types())[-1] == "turn_cancelled"


async def test_x9_the_redelivery_after_a_crash_between_commit_and_send_sends_what_is_expected() -> None:
    ran: list[ToolContext] = []
    async with open_stage(an_agent_that_works("read", ran)) as stage:
        await stage.send("go")
        message = await stage.run_next()
        stage.queue.sent.clear()  # the worker died between its commit and the send

        await stage.run(message)  # the queue shows the message again: old news by now
        await stage.run_all()

        assert len(ran) == 1
        assert (await stage.event_types())[-1] == "turn_completed"


async def test_x12_a_moved_timer_fires_at_its_new_time_and_the_old_one_does_nothing() -> None:
    @function_tool(effect="non_idempotent_write")
    async def refund() -> str:
        return "paid"

    policy = ToolPolicy(approval_deadline=timedelta(hours=1))
    agent = an_agent(refund, model=asking_for("refund"), tool_policies={"refund": policy})
    async with open_stage(agent) as stage:
        await stage.send("go")
        await stage.run_all()
        ((_, old),) = stage.timers.pending
        await moved(stage, by=timedelta(hours=1))
        (new,) = expected_timers(await stage.head())
        assert (new.timer_id, new.fence) == (old.timer_id, old.fence + 1)

        await stage.clock.advance(3600)
        await fire_timer(stage.deps, SESSION, old.timer_id, old.fence)
        assert len((await stage.snapshot())["pending_interrupts"]) == 1

        await stage.clock.advance(3600)
        await fire_timer(stage.deps, SESSION, old.timer_id, old.fence)
        assert len((await stage.snapshot())["pending_interrupts"]) == 1
        await fire_timer(stage.deps, SESSION, new.timer_id, new.fence)
        assert (await stage.results())["refund"][0] == "rejected"


async def moved(stage: Stage, *, by: timedelta) -> None:
    """Commit a later deadline for the one pending approval, as a later command may."""
    loaded = await stage.store.load(SESSION)
    head = loaded.head
    assert head.turn is not None
    (interrupt,) = head.turn.interrupts
    assert interrupt.deadline is not None
    later = replace(interrupt, deadline=interrupt.deadline + by, fence=head.version + 1)
    changed = replace(head, version=head.version + 1, turn=replace(head.turn, interrupts=(later,)))
    entry = Entry(version=changed.version, commit_id="move", at=stage.clock.now(), kind="moved")
    await stage.store.commit(SESSION, loaded, Decision(changed, entry, {}))
