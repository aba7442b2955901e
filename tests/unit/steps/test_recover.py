"""The sweep, dead letters and timers: what should be in flight and is not is found, and nothing else is touched."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolContext, ToolPolicy, function_tool
from perdure.core import texts
from perdure.core.expected import sweep_due_at
from perdure.core.limits import LEASE_DURATION, LEASE_GRACE, START_LEASE, TIMER_GRACE
from perdure.errors import UnknownRecordVersionError
from perdure.ports import SessionKey, SessionStore
from perdure.steps.base import StepMessage
from perdure.steps.call_tool import call_tool
from perdure.steps.recover import record_dead_letter, sweep, sweep_session
from perdure.steps.waking import fire_timer
from perdure.testing.fixtures import SESSION, Stage, open_stage
from tests.unit.steps.builders import an_agent, asking_for

DEAD_AFTER = (LEASE_DURATION + LEASE_GRACE).total_seconds()


def a_tool(effect: Any = "read", ran: list[ToolContext] | None = None) -> Any:
    @function_tool(effect=effect, name="work", requires_approval=False)
    async def work(context: ToolContext) -> str:
        if ran is not None:
            ran.append(context)
        return "ok"

    return work


def a_refund(deadline: timedelta | None = None) -> Any:
    @function_tool(effect="non_idempotent_write", name="refund")
    async def refund() -> str:
        return "paid"

    return an_agent(
        refund, model=asking_for("refund"), tool_policies={"refund": ToolPolicy(approval_deadline=deadline)}
    )


async def a_claim(stage: Stage, message: StepMessage) -> None:
    """A worker claims an attempt and is never heard of again."""
    expires = stage.clock.now() + LEASE_DURATION
    assert await stage.leases.claim(SESSION, message.step_id, message.attempt, "dead", expires)


async def test_a_step_that_nobody_claimed_in_time_is_sent_again_and_not_given_up() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        lost = stage.taken()

        await stage.clock.advance(START_LEASE.total_seconds() - 1)
        await sweep_session(stage.deps, SESSION)
        assert stage.queue.sent == []
        await stage.clock.advance(1)
        await sweep_session(stage.deps, SESSION)

        assert stage.taken() == lost
        assert await stage.leases.read_lease(SESSION, lost.step_id) is None
        await stage.run(lost)
        assert (await stage.event_types())[-1] == "turn_completed"


async def test_at_the_start_of_a_process_everything_unclaimed_is_sent_at_once_and_timers_are_set() -> None:
    async with open_stage(a_refund(timedelta(hours=1)), an_agent(name="other")) as stage:
        await stage.send("hi", "s-2", agent="other")
        await stage.send("go")
        await stage.run(StepMessage(key=SESSION, kind="run_model", step_id="model-1-0", attempt=1))
        stage.queue.sent.clear()
        stage.timers.pending.clear()

        for session_id in ("s-1", "s-2"):
            await sweep_session(stage.deps, SessionKey("local", session_id), at_start=True)

        assert [d.step_id for _, d in stage.queue.sent] == ["model-1-0"]
        assert [timer.timer_id for _, timer in stage.timers.pending] == ["call-2-0"]


async def test_the_sweep_leaves_a_living_worker_alone() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        await a_claim(stage, stage.taken())

        await stage.clock.advance(DEAD_AFTER - 1)
        await sweep_session(stage.deps, SESSION)

        assert stage.queue.sent == []
        assert (await stage.head()).version == 1


async def test_the_sweep_replaces_a_dead_worker_with_the_next_attempt() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        first = stage.taken()
        await a_claim(stage, first)

        await stage.clock.advance(DEAD_AFTER)
        assert await sweep(stage.deps) == 1

        second = stage.taken()
        assert (second.step_id, second.attempt) == (first.step_id, 2)
        reset = (await stage.events())[-1]
        assert (reset["type"], reset["attempt"], reset["payload"]) == (
            "attempt_reset",
            1,
            {"reason": "its worker died"},
        )


async def test_three_dead_workers_fail_the_turn_and_not_a_fourth_is_tried() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        for _ in range(3):
            await a_claim(stage, stage.taken())
            await stage.clock.advance(DEAD_AFTER)
            await sweep_session(stage.deps, SESSION)

        assert stage.queue.sent == []
        error = (await stage.snapshot())["state"]["last_turn_error"]
        assert error == {
            "code": "internal",
            "message": "the model step was given up after attempt 3: its worker died",
        }


async def test_a_revocation_whose_commit_was_lost_in_a_crash_is_finished_by_the_next_sweep() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        first = stage.taken()
        await a_claim(stage, first)
        await stage.clock.advance(DEAD_AFTER)
        assert await stage.leases.revoke(SESSION, first.step_id, 1, stage.clock.now()) == "claimed"

        await sweep_session(stage.deps, SESSION)

        assert stage.taken().attempt == 2


async def test_a_session_whose_step_nobody_takes_is_looked_at_with_doubling_delays_up_to_an_hour() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        began = stage.clock.now()
        looks: list[float] = []
        for _ in range(480):
            await stage.clock.advance(30)
            if await sweep(stage.deps):
                looks.append((stage.clock.now() - began).total_seconds())

        assert looks == [30, 90, 180, 360, 720, 1440, 2880, 5760, 9360, 12960]
        assert len(stage.queue.sent) == 1 + len(looks)


async def test_a_session_whose_worker_lives_is_looked_at_again_when_its_lease_would_have_ended() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        await a_claim(stage, stage.taken())
        await stage.clock.advance(600)
        await stage.leases.renew(SESSION, "model-1-0", 1, "dead", stage.clock.now() + LEASE_DURATION)
        assert await sweep(stage.deps) == 1

        await stage.clock.advance(DEAD_AFTER - 1)
        assert await sweep(stage.deps) == 0
        await stage.clock.advance(1)
        assert await sweep(stage.deps) == 1

        assert stage.taken().attempt == 2


async def test_a_session_that_waits_for_a_person_is_not_looked_at() -> None:
    async with open_stage(a_refund()) as stage:
        await stage.send("go")
        await stage.run_all()
        assert sweep_due_at(await stage.head()) is None

        await stage.clock.advance(timedelta(days=400).total_seconds())

        assert await sweep(stage.deps) == 0


async def test_a_session_that_can_not_be_read_does_not_keep_the_sweep_from_the_others() -> None:
    class Newer:
        def __init__(self, store: SessionStore) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        async def load(self, key: SessionKey, receipt_keys: Any = ()) -> Any:
            if key.session_id == "s-0" and self.broken:
                raise UnknownRecordVersionError("written by a newer version")
            return await self._store.load(key, receipt_keys)

        broken = False

    async with open_stage(an_agent(), wrap_store=Newer) as stage:
        await stage.send("hi", "s-0")
        await stage.clock.advance(1)
        await stage.send("hi", "s-1")
        stage.queue.sent.clear()
        stage.store.broken = True  # type: ignore[attr-defined]

        await stage.clock.advance(60)
        await sweep(stage.deps)

        assert [key.session_id for key, _ in stage.queue.sent] == ["s-1"]


# --- dead letters ---------------------------------------------------------------------------------------------------


async def test_a_dead_letter_of_a_living_worker_changes_nothing() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        message = stage.taken()
        await a_claim(stage, message)

        await record_dead_letter(stage.deps, message, "received five times")

        assert (await stage.head()).version == 1


async def test_a_dead_letter_of_a_dead_worker_fails_the_turn_visibly() -> None:
    async with open_stage(an_agent()) as stage:
        await stage.send("hi")
        message = stage.taken()
        await a_claim(stage, message)
        await stage.clock.advance(DEAD_AFTER)

        await record_dead_letter(stage.deps, message, "received five times")

        assert stage.queue.sent == []
        error = (await stage.snapshot())["state"]["last_turn_error"]
        assert "received five times" in error["message"]


@pytest.mark.parametrize("effect", ["read", "idempotent_write", "non_idempotent_write"])
async def test_a_dead_letter_of_a_tool_that_nobody_claimed_says_that_it_did_not_run(effect: str) -> None:
    ran: list[ToolContext] = []
    async with open_stage(an_agent(a_tool(effect, ran), model=asking_for("work"))) as stage:
        await stage.send("go")
        await stage.run_next()
        message = stage.taken()

        await record_dead_letter(stage.deps, message, "received five times")
        await stage.run(message)  # it comes all the same

        assert ran == []
        assert await stage.results() == {"work": ("failed", f"{texts.DID_NOT_RUN}: received five times")}


async def test_a_dead_letter_of_a_read_that_somebody_had_claimed_does_not_say_that_it_did_not_run() -> None:
    async with open_stage(an_agent(a_tool(), model=asking_for("work"))) as stage:
        await stage.send("go")
        await stage.run_next()
        message = stage.taken()
        await a_claim(stage, message)
        await stage.clock.advance(DEAD_AFTER)

        await record_dead_letter(stage.deps, message, "received five times")

        (status, text) = (await stage.results())["work"]
        assert status == "failed"
        assert texts.DID_NOT_RUN not in text


async def test_a_dead_letter_of_a_write_that_started_says_that_its_outcome_is_unknown() -> None:
    async with open_stage(an_agent(a_tool("idempotent_write"), model=asking_for("work"))) as stage:
        await stage.send("go")
        await stage.run_next()
        message = stage.taken()
        await died_after_its_start(stage, message)

        await record_dead_letter(stage.deps, message, "received five times")

        assert await stage.results() == {"work": ("outcome_unknown", texts.OUTCOME_UNKNOWN)}


async def died_after_its_start(stage: Stage, message: StepMessage) -> None:
    agent = stage.deps.agents.default
    gate = asyncio.Event()

    @function_tool(effect="idempotent_write", name="work")
    async def waits() -> str:
        await gate.wait()
        return "never"

    from perdure.testing.fixtures import redeployed

    step = asyncio.create_task(call_tool(redeployed(stage, an_agent(waits, model=agent.model)).deps, message))
    await stage.clock.settle()
    step.cancel()
    await asyncio.wait({step})
    await stage.clock.advance(DEAD_AFTER)


async def test_a_dead_letter_that_is_old_news_sends_what_is_expected_now() -> None:
    async with open_stage(an_agent(a_tool(), model=asking_for("work"))) as stage:
        await stage.send("go")
        old = await stage.run_next()
        stage.queue.sent.clear()

        await record_dead_letter(stage.deps, old, "received five times")

        assert [d.kind for _, d in stage.queue.sent] == ["call_tool"]
        assert (await stage.head()).turn is not None


async def test_a_start_does_not_make_the_sweep_look_again_before_a_far_deadline() -> None:
    async with open_stage(a_refund(timedelta(days=300))) as stage:
        await stage.send("go")
        await stage.run_all()

        await sweep_session(stage.deps, SESSION, at_start=True)

        await stage.clock.advance(timedelta(days=299).total_seconds())
        assert await sweep(stage.deps) == 0
        await stage.clock.advance(timedelta(days=1).total_seconds() + TIMER_GRACE.total_seconds())
        assert await sweep(stage.deps) == 1


async def test_looking_at_a_session_that_waits_for_a_person_does_not_make_it_due() -> None:
    async with open_stage(a_refund()) as stage:
        await stage.send("go")
        await stage.run_all()

        await sweep_session(stage.deps, SESSION)

        await stage.clock.advance(timedelta(days=1).total_seconds())
        assert await sweep(stage.deps) == 0


# --- timers ---------------------------------------------------------------------------------------------------------


async def test_an_approval_that_nobody_gave_in_time_is_rejected_and_the_turn_goes_on() -> None:
    async with open_stage(a_refund(timedelta(hours=1))) as stage:
        await stage.send("go")
        await stage.run_all()
        await stage.clock.advance(3600)

        await stage.fire_timers()
        await stage.run_all()

        assert await stage.results() == {"refund": ("rejected", texts.APPROVAL_DEADLINE_PASSED)}
        assert (await stage.transcript())[-1] == ("assistant", "done")
        assert (await stage.event_types()).count("interrupt_resolved") == 1


async def test_a_timer_that_never_fired_is_fired_by_the_sweep() -> None:
    async with open_stage(a_refund(timedelta(hours=1))) as stage:
        await stage.send("go")
        await stage.run_all()

        await stage.clock.advance(3600 + TIMER_GRACE.total_seconds() - 1)
        assert await sweep(stage.deps) == 0
        await stage.clock.advance(1)
        assert await sweep(stage.deps) == 1

        assert (await stage.results())["refund"][0] == "rejected"


@pytest.mark.parametrize("fence", [1, 3])
async def test_a_timer_whose_fence_moved_does_nothing(fence: int) -> None:
    async with open_stage(a_refund(timedelta(hours=1))) as stage:
        await stage.send("go")
        await stage.run_all()
        await stage.clock.advance(3600)

        await fire_timer(stage.deps, SESSION, "call-2-0", fence)

        assert (await stage.head()).version == 2


async def test_a_timer_that_fires_early_does_nothing() -> None:
    async with open_stage(a_refund(timedelta(hours=1))) as stage:
        await stage.send("go")
        await stage.run_all()
        await stage.clock.advance(3599)

        await fire_timer(stage.deps, SESSION, "call-2-0", 2)

        assert (await stage.head()).version == 2


async def test_an_approval_takes_its_timer_with_it() -> None:
    async with open_stage(a_refund(timedelta(hours=1))) as stage:
        await stage.send("go")
        await stage.run_all()
        assert len(stage.timers.pending) == 1

        await stage.approve("call-2-0")

        assert stage.timers.pending == []
