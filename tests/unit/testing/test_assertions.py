"""Assertions on what a session did: they hold, or say what it did instead."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

import perdure
from perdure import ToolPolicy, function_tool
from perdure.errors import ToolExecutionError
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts
from perdure.testing.assertions import Run, run_of
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.steps.builders import an_agent, asking_for


@function_tool(effect="read")
async def lookup(order_id: str) -> str:
    """Look an order up."""
    return f"order {order_id}"


@function_tool(effect="read")
async def broken() -> str:
    """Fail."""
    raise ToolExecutionError("the shop is closed")


@function_tool(effect="non_idempotent_write")
async def refund() -> str:
    """Pay back."""
    return "paid"


def looking_up(*order_ids: str) -> ScriptedModel:
    calls = tuple(call("lookup", order_id=order_id) for order_id in order_ids)
    return ScriptedModel(lambda request: "done" if tool_results(request) else Reply(calls=calls))


@asynccontextmanager
async def after_a_turn(*tools: object, model: object) -> AsyncIterator[tuple[Stage, Run]]:
    async with open_stage(an_agent(*tools, model=model)) as stage:
        await stage.send("go")
        await stage.run_all()
        yield stage, await run_of(stage.session())


async def test_what_was_called_and_what_was_not_is_found() -> None:
    async with after_a_turn(lookup, broken, model=looking_up("7", "8")) as (_, run):
        run.completed()
        assert [c.output for c in run.called("lookup", times=2)] == ["order 7", "order 8"]
        assert [c.output for c in run.called("lookup", arguments={"order_id": "8"})] == ["order 8"]
        assert len(run.succeeded("lookup")) == 2
        run.not_called("broken")


WRONG: dict[str, Callable[[Run], object]] = {
    "refund was called 0 times, not at least once. Called were: lookup(order_id='7'): succeeded": (
        lambda run: run.called("refund")
    ),
    "lookup was called 1 times, not 2 times": lambda run: run.called("lookup", times=2),
    "lookup with {'order_id': '8'} was called 0": lambda run: run.called("lookup", arguments={"order_id": "8"}),
    "lookup was called. Called were: lookup(order_id='7'): succeeded": lambda run: run.not_called("lookup"),
    "broken was called 0 times": lambda run: run.succeeded("broken"),
    "there is no turn-2; there are: turn-1": lambda run: run.turn("turn-2"),
}


@pytest.mark.parametrize("message", WRONG)
async def test_a_wrong_assertion_says_what_happened_instead(message: str) -> None:
    async with after_a_turn(lookup, model=looking_up("7")) as (_, run):
        with pytest.raises(AssertionError, match=re.escape(message)):
            WRONG[message](run)


async def test_a_tool_that_failed_did_not_succeed_and_it_says_why() -> None:
    async with after_a_turn(broken, model=asking_for("broken")) as (_, run):
        run.called("broken")
        with pytest.raises(AssertionError, match=r"broken\(\): failed \(the shop is closed\)"):
            run.succeeded("broken")


async def test_a_turn_that_failed_did_not_complete_and_it_says_why() -> None:
    def fail(_: object) -> str:
        raise ValueError("oh")

    async with after_a_turn(model=ScriptedModel(fail)) as (_, run):
        with pytest.raises(AssertionError, match=r"not completed: turn-1 failed \(\w+: .+\)"):
            run.completed()


async def test_a_turn_that_waits_for_a_person_is_read_as_it_is() -> None:
    async with after_a_turn(refund, model=asking_for("refund")) as (_, run):
        assert [c.status for c in run.called("refund")] == [None]
        with pytest.raises(AssertionError, match="turn-1 still runs"):
            run.completed()


async def test_a_session_that_was_never_written_did_nothing() -> None:
    async with open_stage(an_agent()) as stage:
        run = await run_of(stage.session())

        run.not_called("lookup")
        with pytest.raises(AssertionError, match="no turn has started"):
            run.completed()


async def test_turns_are_told_apart_over_any_number_of_messages() -> None:
    model = ScriptedModel(
        lambda request: (
            "done" if tool_results(request) else Reply(calls=(call("lookup", order_id=str(len(user_texts(request)))),))
        )
    )
    async with open_stage(an_agent(lookup, model=model)) as stage:
        for number in range(60):
            await stage.send(f"message {number}")
            await stage.run_all()

        run = await run_of(stage.session())

        run.completed()
        run.called("lookup", times=60)
        assert [c.output for c in run.turn("turn-41").called("lookup", times=1)] == ["order 41"]


async def test_a_session_of_a_running_application_is_read_as_well() -> None:
    async with perdure.open(":memory:", agents=[an_agent(lookup, model=looking_up("7"))]) as runtime:
        session = runtime.session("s-1")
        receipt = await session.send("go")
        async for _ in session.events(after=receipt.cursor):
            pass

        run = await run_of(session)

        run.completed()
        run.succeeded("lookup", times=1)


async def test_a_schedule_that_comes_again_and_again_is_skipped_to_once() -> None:
    async with open_stage(an_agent(model=ScriptedModel(lambda _: "done"))) as stage:
        await stage.session().schedule("good morning", every=timedelta(hours=1), time_zone="UTC")
        await stage.session().schedule("once", after=timedelta(minutes=90))

        assert await stage.skip_timers() == 2
        assert await stage.skip_timers() == 1
        await stage.run_all()

        said = [text for role, text in await stage.transcript() if role == "user"]
        assert said == ["good morning", "once", "good morning"]


async def test_timers_are_skipped_to_one_after_another() -> None:
    policy = ToolPolicy(approval_deadline=timedelta(days=30))
    async with open_stage(an_agent(refund, model=asking_for("refund"), tool_policies={"refund": policy})) as stage:
        await stage.send("go")
        await stage.run_all()
        began_at = stage.clock.now()

        assert await stage.skip_timers() == 1
        await stage.run_all()

        assert stage.clock.now() - began_at == timedelta(days=30)
        run = await run_of(stage.session())
        run.completed()
        assert [c.status for c in run.called("refund")] == ["rejected"]
        assert await stage.skip_timers() == 0
