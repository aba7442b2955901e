"""Recorded steps, sleeps and events inside a tool (spec TOOL-25)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolContext, current_tool_context, function_tool
from perdure.agents.waiting import EventTimeoutError, ToolInputRequested
from perdure.core import texts
from perdure.core.limits import LEASE_DURATION, MAX_RECORDS, MAX_TOOL_OUTPUT_BYTES
from perdure.steps.recover import sweep
from perdure.testing.fixtures import Stage, open_stage, redeployed
from tests.unit.steps.builders import an_agent, asking_for

DAY = timedelta(days=1)
TRUSTED = pytest.mark.parametrize("before", [True, False], ids=["before-the-tool-waits", "while-it-waits"])


class Made:
    """What steps have made, in their order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def of(self, name: str, value: Any) -> Any:
        self.names.append(name)
        return value


def a_durable(body: Callable[[ToolContext], Awaitable[Any]], effect: Any = "idempotent_write") -> Any:
    @function_tool(effect=effect, name="work", requires_approval=False)
    async def tool(context: ToolContext) -> Any:
        return await body(context)

    return an_agent(tool, model=asking_for("work"))


async def call_id(stage: Stage) -> str:
    head = await stage.head()
    assert head.turn is not None
    return head.turn.calls[0].call_id


async def test_steps_that_were_recorded_are_not_done_again_when_the_worker_dies_between_them() -> None:
    made = Made()
    hangs, recorded = True, asyncio.Event()

    async def body(context: ToolContext) -> str:
        first = await context.step("first", lambda: made.of("first", {"n": 1}))
        recorded.set()
        if hangs:
            await asyncio.Event().wait()
        second = await context.step("second", lambda: made.of("second", [first["n"], 2]))
        return f"{first} {second}"

    async with open_stage(a_durable(body), in_process=False) as stage:
        await stage.send("go")
        await stage.run_next()
        dying = asyncio.ensure_future(stage.run(stage.taken()))
        await recorded.wait()
        dying.cancel()
        await asyncio.gather(dying, return_exceptions=True)
        hangs = False
        await stage.clock.advance(LEASE_DURATION.total_seconds() + 60)
        await sweep(stage.deps)
        await stage.run_all()

        assert made.names == ["first", "second"]
        assert await stage.results() == {"work": ("succeeded", "{'n': 1} [1, 2]")}


async def test_a_sleep_holds_no_worker_and_is_passed_when_the_tool_runs_again() -> None:
    runs: list[int] = []

    async def body(context: ToolContext) -> str:
        runs.append(context.attempt)
        made = await context.step("make", lambda: len(runs))
        await context.sleep("nap", 30 * DAY)
        await context.sleep("second nap", DAY)
        return f"made in run {made}"

    async with open_stage(a_durable(body, "non_idempotent_write")) as stage:
        await stage.send("go")
        began = stage.clock.now()
        await stage.run_all()
        assert (stage.queue.sent, len(stage.timers.pending), runs) == ([], 1, [1])
        assert stage.clock.now() - began < timedelta(seconds=1)

        while stage.timers.pending:
            await stage.skip_timers()
            await stage.run_all()

        assert timedelta(0) <= stage.clock.now() - began - 31 * DAY < timedelta(seconds=1)
        assert runs == [1, 2, 3]
        assert await stage.results() == {"work": ("succeeded", "made in run 1")}


async def test_a_short_sleep_stays_in_the_worker() -> None:
    runs: list[int] = []

    async def body(context: ToolContext) -> str:
        runs.append(context.attempt)
        await context.sleep("nap", timedelta(seconds=4))
        return "rested"

    async with open_stage(a_durable(body)) as stage:
        await stage.send("go")
        began = stage.clock.now()
        await stage.run_all()

        assert stage.clock.now() - began == timedelta(seconds=4)
        assert runs == [1]


@TRUSTED
async def test_an_event_reaches_its_tool_whenever_it_comes(before: bool) -> None:
    async def body(context: ToolContext) -> Any:
        if before and context.attempt == 1:
            await stage.session().send_event(context.tool_call_id, "paid", {"by": "card"})
        return await context.wait_for_event("paid")

    async with open_stage(a_durable(body)) as stage:
        await stage.send("go")
        await stage.run_all()
        if not before:
            assert stage.queue.sent == []
            await stage.session().send_event(await call_id(stage), "paid", {"by": "card"})
            await stage.run_all()

        assert await stage.results() == {"work": ("succeeded", '{"by": "card"}')}


async def test_an_event_that_does_not_come_in_time_is_an_error_that_the_tool_may_catch_and_stays_one() -> None:
    async def body(context: ToolContext) -> Any:
        try:
            return await context.wait_for_event("paid", DAY)
        except EventTimeoutError:
            await context.sleep("grace", DAY)
            return "never paid"

    async with open_stage(a_durable(body)) as stage:
        await stage.send("go")
        await stage.run_all()
        for _ in range(2):
            await stage.skip_timers()
            await stage.run_all()

        assert await stage.results() == {"work": ("succeeded", "never paid")}


async def test_a_tool_that_catches_every_exception_still_sleeps() -> None:
    caught: list[str] = []

    async def body(context: ToolContext) -> str:
        try:
            await context.sleep("nap", DAY)
        except Exception as error:
            caught.append(type(error).__name__)
        return "rested"

    async with open_stage(a_durable(body)) as stage:
        await stage.send("go")
        await stage.run_all()
        assert len(stage.timers.pending) == 1
        await stage.skip_timers()
        await stage.run_all()

        assert caught == []
        assert await stage.results() == {"work": ("succeeded", "rested")}


async def test_a_read_whose_event_does_not_come_fails_at_once_and_says_so() -> None:
    runs = 0

    async def body(context: ToolContext) -> Any:
        nonlocal runs
        runs += 1
        return await context.wait_for_event("paid", DAY)

    async with open_stage(a_durable(body, "read")) as stage:
        await stage.send("go")
        await stage.run_all()
        await stage.skip_timers()
        await stage.run_all()

        assert await stage.results() == {"work": ("failed", "work failed: event 'paid' did not come in time")}
        assert runs == 2


async def test_branches_of_a_task_group_may_sleep() -> None:
    async def body(context: ToolContext) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(context.sleep("one", DAY))
            group.create_task(context.sleep("two", DAY))
        return "rested"

    async with open_stage(a_durable(body)) as stage:
        await stage.send("go")
        await stage.run_all()
        for _ in range(2):
            assert len(stage.timers.pending) == 1
            await stage.skip_timers()
            await stage.run_all()

        assert await stage.results() == {"work": ("succeeded", "rested")}


async def test_a_branch_of_a_task_group_may_ask() -> None:
    async def ask(context: ToolContext) -> None:
        if not context.answers:
            raise ToolInputRequested("Which?")

    async def body(context: ToolContext) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask(context))
        return f"{context.answers[0].answer}"

    async with open_stage(a_durable(body)) as stage:
        await stage.send("go")
        await stage.run_all()
        (asked,) = (await stage.snapshot())["pending_interrupts"]
        await stage.session().answer(asked["interrupt_id"], "this")
        await stage.run_all()

        assert await stage.results() == {"work": ("succeeded", "this")}


async def test_a_branch_that_fails_beside_one_that_sleeps_is_a_failure() -> None:
    async def fail() -> None:
        raise ValueError("boom")

    async def body(context: ToolContext) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(context.sleep("one", DAY))
            group.create_task(fail())
        return "rested"

    async with open_stage(a_durable(body, "read")) as stage:
        await stage.send("go")
        await stage.run_all()

        assert stage.timers.pending == []
        assert (await stage.results())["work"][0] == "failed"


@pytest.mark.parametrize(
    ("effect", "runs", "status"), [("read", 3, "failed"), ("non_idempotent_write", 1, "outcome_unknown")]
)
async def test_a_tool_that_uses_a_name_twice_is_told_so(effect: str, runs: int, status: str) -> None:
    seen: list[int] = []

    async def body(context: ToolContext) -> None:
        seen.append(1)
        await context.step("one", lambda: 1)
        await context.step("one", lambda: 2)

    async with open_stage(a_durable(body, effect)) as stage:
        await stage.send("go")
        await stage.run_all()

        assert (len(seen), (await stage.results())["work"][0]) == (runs, status)


@pytest.mark.parametrize("value", [object(), float("nan"), "x" * MAX_TOOL_OUTPUT_BYTES], ids=["object", "nan", "large"])
async def test_a_step_whose_result_can_not_be_kept_is_not_done_twice(value: Any) -> None:
    made = Made()

    async def body(context: ToolContext) -> None:
        await context.step("one", lambda: made.of("one", value))

    async with open_stage(a_durable(body)) as stage:
        await stage.send("go")
        await stage.run_all()

        status, text = (await stage.results())["work"]
        assert (len(made.names), status) == (1, "failed")
        assert "step 'one' was done, but" in text


async def test_a_lone_surrogate_in_what_a_step_made_becomes_a_replacement_character() -> None:
    async def body(context: ToolContext) -> Any:
        return await context.step("one", lambda: {"text": "a\ud800b"})

    async with open_stage(a_durable(body)) as stage:
        await stage.send("go")
        await stage.run_all()

        assert await stage.results() == {"work": ("succeeded", '{"text": "a\ufffdb"}')}


async def test_a_call_records_a_hundred_facts_at_most() -> None:
    async def body(context: ToolContext) -> None:
        for number in range(MAX_RECORDS + 1):
            await context.step(f"s{number}", lambda: None)

    async with open_stage(a_durable(body)) as stage:
        await stage.send("go")
        await stage.run_all()

        status, text = (await stage.results())["work"]
        assert (status, text) == ("failed", "work recorded 100 facts, the most one call may have")


@pytest.mark.parametrize(("effect", "status"), [("read", "rejected"), ("idempotent_write", "outcome_unknown")])
async def test_no_step_begins_after_a_stop(effect: str, status: str) -> None:
    done: list[str] = []

    async def body(context: ToolContext) -> None:
        await context.step("first", lambda: done.append("first"))
        await stage.stop()
        await context.abort.wait()
        await context.step("second", lambda: done.append("second"))

    async with open_stage(a_durable(body, effect)) as stage:
        await stage.send("go")
        await stage.run_all()

        assert done == ["first"]
        assert (await stage.results())["work"][0] == status


async def test_what_a_tool_shows_is_told_and_no_model_sees_it() -> None:
    # TOOL-17
    model = asking_for("work")

    @function_tool(effect="read")
    async def work(context: ToolContext) -> str:
        await context.show({"done": "half"})
        return "all"

    async with open_stage(an_agent(work, model=model)) as stage:
        await stage.send("go")
        await stage.run_all()

        shown = [e["payload"]["output"] for e in await stage.events() if e["type"] == "tool.output"]
        assert shown == ['{"done": "half"}']
        assert "half" not in str(model.requests[-1].messages)


async def test_the_context_below_a_tool_records_too() -> None:
    async def deep() -> Any:
        return await current_tool_context().step("deep", lambda: 7)

    async def body(context: ToolContext) -> Any:
        return await deep()

    async with open_stage(a_durable(body)) as stage:
        await stage.send("go")
        await stage.run_all()

        assert await stage.results() == {"work": ("succeeded", "7")}


@pytest.mark.parametrize(("effect", "status"), [("idempotent_write", "outcome_unknown"), ("read", "failed")])
async def test_a_tool_that_is_gone_is_not_said_to_have_done_nothing_when_it_had_recorded_a_step(
    effect: str, status: str
) -> None:
    async def body(context: ToolContext) -> str:
        await context.step("one", lambda: 1)
        await context.sleep("nap", DAY)
        return "done"

    async with open_stage(a_durable(body, effect)) as stage:
        await stage.send("go")
        await stage.run_all()
        stage = redeployed(stage, an_agent(model=asking_for("work")))
        await stage.skip_timers()
        await stage.run_all()

        got, text = (await stage.results())["work"]
        assert got == status
        assert texts.DID_NOT_RUN not in text
