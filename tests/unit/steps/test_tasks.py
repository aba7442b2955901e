"""Remote work: looked at by steps of its own, asked for, asked to stop, and nothing held between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from perdure import ToolContext, ToolExecutionError, function_tool
from perdure.agents.stepwise import StepwiseRunner
from perdure.agents.waiting import DidNotHappenError, TaskPending, ToolInputRequested, ToolTask
from perdure.core import texts
from perdure.errors import ConfigurationError
from perdure.steps.recover import sweep
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.steps.bodies import Body
from tests.unit.steps.builders import an_agent, asking_for

MINUTE = timedelta(minutes=1)


class Work:
    """Remote work whose looks end as a test wants; the last one again and again."""

    def __init__(self, *looks: Any, effect: Any = "non_idempotent_write", every: timedelta = MINUTE) -> None:
        self.body = Body(*looks)
        self.starts = 0
        self.cancels = 0
        self.on_cancel: Callable[[], Any] = lambda: None

        async def poll(task_id: str, context: ToolContext) -> Any:
            assert task_id == "job-1"
            return await self.body.run(context)

        async def cancel(task_id: str, context: ToolContext) -> None:
            self.cancels += 1
            done = self.on_cancel()
            if done is not None:
                await done

        @function_tool(effect=effect, requires_approval=False, poll=poll, cancel=cancel)
        async def render(context: ToolContext) -> ToolTask:
            assert context.supports_tasks
            self.starts += 1
            return ToolTask("job-1", every, continuation={"page": 0})

        self.tool = render
        self.agent = an_agent(render, model=asking_for("render"))


class Giver(StepwiseRunner):
    """A runner that gives up when it is asked to stop work."""

    def __init__(self, work: Work) -> None:
        self._work = work

    async def cancel_tool_task(self, agent: Any, context: ToolContext, task_id: str) -> None:
        self._work.cancels += 1
        raise asyncio.CancelledError


async def started(stage: Stage) -> None:
    await stage.send("go")
    await stage.run_next()
    await stage.run_next()


async def test_the_looks_go_on_until_the_work_is_done_and_each_is_told_what_the_last_kept() -> None:
    # TASK-01 to TASK-03
    work = Work(TaskPending(continuation={"page": 1}), TaskPending(timedelta(seconds=90.2)), "rendered")
    async with open_stage(work.agent) as stage:
        await started(stage)
        times = []
        for _ in range(3):
            await stage.clock.advance((stage.queue.next_time() - stage.clock.now()).total_seconds())  # type: ignore[operator]
            times.append(stage.clock.now())
            assert (await stage.run_next()).kind == "poll_tool_task"
        await stage.run_all()

        assert await stage.results() == {"render": ("succeeded", "rendered")}
        assert work.starts == 1
        assert [c.continuation for c in work.body.contexts] == [{"page": 0}, {"page": 1}, None]
        assert [(b - a).total_seconds() for a, b in pairwise(times)] == [60, 91]
        looks = [e["payload"]["status"] for e in await stage.events() if e["type"] == "task.looked"]
        assert looks == ["pending", "pending", "succeeded"]


@pytest.mark.parametrize(
    ("outcome", "effect", "runs", "status", "text"),
    [
        (ToolExecutionError("no disk"), "non_idempotent_write", 1, "failed", "no disk"),
        (ValueError("boom"), "non_idempotent_write", 3, "outcome_unknown", texts.OUTCOME_UNKNOWN),
        (ValueError("boom"), "read", 3, "failed", "the tool failed in every attempt"),
        (None, "read", 1, "succeeded", "null"),
    ],
)
async def test_a_look_may_end_the_call_and_a_broken_one_is_made_again(
    outcome: Any, effect: str, runs: int, status: str, text: str
) -> None:
    # TASK-03
    work = Work(outcome, effect=effect)
    async with open_stage(work.agent) as stage:
        await stage.send("go")
        await stage.run_all()

        assert (work.starts, work.body.runs) == (1, runs)
        got, output = (await stage.results())["render"]
        assert (got, output[: len(text)]) == (status, text)
        assert "boom" not in str(await stage.entries())


async def test_a_look_that_does_not_end_is_cut_off_after_two_minutes() -> None:
    work = Work("rendered")
    work.body.gate = asyncio.Event()
    async with open_stage(work.agent) as stage:
        await started(stage)
        await stage.clock.advance(60)
        began = stage.clock.now()
        await stage.run_next()

        assert stage.clock.now() - began == timedelta(minutes=2)
        assert work.body.cancelled


@pytest.mark.parametrize("how", ["answered", "declined", "deadline_passed"])
async def test_what_became_of_a_question_is_told_to_the_very_next_look_and_again_when_that_one_fails(how: str) -> None:
    # TASK-04
    question = ToolInputRequested("Go on?", continuation={"at": 3}, deadline=timedelta(hours=1))
    work = Work(question, ValueError("lost"), TaskPending(), "rendered")
    async with open_stage(work.agent) as stage:
        await stage.send("go")
        await stage.run_all()
        head = await stage.head()
        assert head.turn is not None
        (asked,) = head.turn.interrupts
        if how == "answered":
            await stage.session().answer(asked.interrupt_id, "yes")
        elif how == "declined":
            await stage.session().decline(asked.interrupt_id, "no")
        else:
            await stage.skip_timers()
        began = stage.clock.now()
        await stage.run_next()
        assert stage.clock.now() == began  # no delay
        await stage.run_all()

        assert await stage.results() == {"render": ("succeeded", "rendered")}
        told = [c.resolution.status if c.resolution else None for c in work.body.contexts]
        assert told == [None, how, how, None]
        assert [c.continuation for c in work.body.contexts[1:3]] == [{"at": 3}] * 2


async def test_the_looks_behind_a_question_keep_their_interval() -> None:
    work = Work(ToolInputRequested("Go on?"), TaskPending(), "rendered")
    async with open_stage(work.agent) as stage:
        await stage.send("go")
        await stage.run_all()
        head = await stage.head()
        assert head.turn is not None
        await stage.session().answer(head.turn.interrupts[0].interrupt_id, "yes")
        await stage.run_next()

        assert stage.queue.next_time() == stage.clock.now() + MINUTE


async def test_a_far_look_is_a_timer_and_a_sleeping_session_holds_nothing() -> None:
    work = Work("rendered", every=timedelta(hours=6))
    async with open_stage(work.agent) as stage:
        await stage.send("go")
        await stage.run_all()
        assert (stage.queue.sent, len(stage.timers.pending)) == ([], 1)

        await stage.skip_timers()
        await stage.run_all()

        assert await stage.results() == {"render": ("succeeded", "rendered")}


async def test_a_lost_look_is_made_again_by_the_sweep() -> None:
    work = Work("rendered")
    async with open_stage(work.agent) as stage:
        await started(stage)
        stage.queue.sent.clear()  # the message is lost
        await stage.clock.advance(600)
        await sweep(stage.deps)
        await stage.run_all()

        assert await stage.results() == {"render": ("succeeded", "rendered")}


async def test_a_stop_abandons_the_work_asks_it_to_stop_and_drops_what_a_look_finds_late() -> None:
    # TASK-08
    work = Work("rendered")
    async with open_stage(work.agent) as stage:
        await started(stage)
        await stage.stop()
        await stage.run_all()

        assert await stage.results() == {"render": ("outcome_unknown", texts.TASK_ABANDONED)}
        assert (work.cancels, work.body.runs) == (1, 0)
        (told,) = [e for e in await stage.events() if e["type"] == "task.cancelled"]
        assert told["payload"]["cancelled"] is True
        assert (await stage.head()).cancellations == ()


@pytest.mark.parametrize("how", ["raises", "hangs", "cancels itself", "a runner that cancels itself"])
async def test_work_that_can_not_be_stopped_is_tried_three_times_and_then_let_be(how: str) -> None:
    # TASK-08
    work = Work("rendered")

    def fails() -> Any:
        if how == "raises":
            raise ValueError("no")
        if how == "cancels itself":
            raise asyncio.CancelledError
        return asyncio.Event().wait()

    work.on_cancel = fails
    agent = replace(work.agent, runner=Giver(work)) if how.startswith("a runner") else work.agent
    async with open_stage(agent) as stage:
        await started(stage)
        await stage.stop()
        began = stage.clock.now()
        await stage.run_all()

        assert work.cancels == 3
        assert stage.clock.now() - began <= timedelta(minutes=2)
        (told,) = [e for e in await stage.events() if e["type"] == "task.cancelled"]
        assert told["payload"]["cancelled"] is False
        assert (await stage.head()).cancellations == ()


async def test_a_tool_that_can_not_stop_its_work_is_not_said_to_have_done_so() -> None:
    async def poll(task_id: str, context: ToolContext) -> str:
        return "rendered"

    @function_tool(effect="read", poll=poll)
    async def render() -> ToolTask:
        return ToolTask("job-1", MINUTE)

    async with open_stage(an_agent(render, model=asking_for("render"))) as stage:
        await started(stage)
        await stage.stop()
        await stage.run_all()

        (told,) = [e for e in await stage.events() if e["type"] == "task.cancelled"]
        assert (told["payload"]["cancelled"], told["attempt"]) == (False, 1)


async def test_a_def_tool_with_def_looks_works_the_same() -> None:
    looks: list[str] = []

    def poll(task_id: str, context: ToolContext) -> Any:
        looks.append(task_id)
        return TaskPending() if len(looks) < 2 else {"frames": 9}

    @function_tool(effect="idempotent_write", requires_approval=False, poll=poll)
    def render() -> ToolTask:
        return ToolTask("job-1", MINUTE)

    async with open_stage(an_agent(render, model=asking_for("render"))) as stage:
        await stage.send("go")
        await stage.run_all()

        assert looks == ["job-1"] * 2
        assert await stage.results() == {"render": ("succeeded", '{"frames": 9}')}


@pytest.mark.parametrize(("effect", "status"), [("read", "failed"), ("non_idempotent_write", "outcome_unknown")])
async def test_a_task_that_nobody_can_look_after_says_so_and_its_tool_could_ask(effect: Any, status: str) -> None:
    # TASK-09
    seen: list[bool] = []

    @function_tool(effect=effect, requires_approval=False)
    async def render(context: ToolContext) -> ToolTask:
        seen.append(context.supports_tasks)
        return ToolTask("job-1")

    async with open_stage(an_agent(render, model=asking_for("render"))) as stage:
        await stage.send("go")
        await stage.run_all()

        assert seen == [False]
        assert await stage.results() == {"render": (status, texts.NO_POLLER)}


async def test_a_retried_start_returns_the_work_that_was_started_before() -> None:
    # TASK-06
    begun: list[str] = []

    async def poll(task_id: str, context: ToolContext) -> str:
        return f"{task_id} is done"

    @function_tool(effect="idempotent_write", requires_approval=False, poll=poll)
    async def render(context: ToolContext) -> ToolTask:
        async def begin() -> str:
            begun.append(context.idempotency_key)
            return f"job-{len(begun)}"

        task_id = await context.step("begin", begin)
        if context.attempt == 1:
            raise ValueError("the worker dies here")
        return ToolTask(task_id, MINUTE)

    async with open_stage(an_agent(render, model=asking_for("render"))) as stage:
        await stage.send("go")
        await stage.run_all()

        assert len(begun) == 1
        assert await stage.results() == {"render": ("succeeded", "job-1 is done")}


@pytest.mark.parametrize("made", [lambda: ToolTask("job-1", continuation=object()), lambda: ToolTask("")])
def test_a_task_that_could_not_be_kept_is_refused_where_it_is_made(made: Callable[[], ToolTask]) -> None:
    with pytest.raises(ConfigurationError):
        made()


async def test_a_look_that_keeps_what_is_no_json_is_a_failed_look() -> None:
    def badly() -> TaskPending:
        return TaskPending(continuation=object())

    work = Work("never")

    async def run(context: ToolContext) -> Any:
        work.body.contexts.append(context)
        return badly()

    work.body.run = run  # type: ignore[method-assign]
    async with open_stage(work.agent) as stage:
        await stage.send("go")
        await stage.run_all()

        assert work.body.runs == 3
        assert (await stage.results())["render"][0] == "outcome_unknown"


@pytest.mark.parametrize(
    ("found", "status", "text"),
    [
        ("paid 5", "succeeded", "paid 5"),
        (DidNotHappenError("no such payment"), "failed", "the tool did not run, so it is safe to call again: no such"),
        (TaskPending(), "outcome_unknown", texts.OUTCOME_UNKNOWN),
        (ValueError("boom"), "outcome_unknown", texts.OUTCOME_UNKNOWN),
    ],
)
async def test_what_became_of_a_lost_write_is_looked_up_by_its_key(found: Any, status: str, text: str) -> None:
    looked = Body(found)
    keys: list[str] = []

    async def reconcile(key: str, context: ToolContext) -> Any:
        keys.append(key)
        return await looked.run(context)

    paid = Body(ValueError("the connection broke"))

    @function_tool(effect="non_idempotent_write", requires_approval=False, reconcile=reconcile)
    async def pay(context: ToolContext) -> Any:
        return await paid.run(context)

    async with open_stage(an_agent(pay, model=asking_for("pay"))) as stage:
        await stage.send("go")
        await stage.run_all()

        assert paid.runs == 1
        assert set(keys) == {paid.contexts[0].idempotency_key}
        got, output = (await stage.results())["pay"]
        assert (got, output[: len(text)]) == (status, text)
