"""What ends a wait, at the same moment as something else, call by call, on the real adapters.

An answer, a deadline, a timer that fires twice, a skip, a move, a cancel, an event, a stop and a steer: of those that
exclude each other exactly one holds, and the turn goes on once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolContext, function_tool
from perdure.agents.definition import AgentDefinition
from perdure.agents.waiting import EventTimeoutError, TaskPending, ToolInputRequested, ToolTask
from perdure.core.codec import format_time
from perdure.errors import RequestConflictError, ToolExecutionError
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.service import LOCAL_CALLER
from perdure.steps.call_tool import call_tool
from perdure.steps.recover import sweep_session
from perdure.steps.tasks import poll_tool_task
from perdure.steps.waking import fire_timer
from perdure.testing.barriers import Order
from perdure.testing.fixtures import SESSION
from tests.races.rig import Rig, open_rig
from tests.unit.steps.builders import an_agent

pytestmark = pytest.mark.slow

HOUR = timedelta(hours=1)


def asking_once(name: str, **arguments: Any) -> ScriptedModel:
    """A model that makes one call for its first message and answers everything else."""
    asked: list[str] = []

    def script(request: Any) -> Reply | str:
        if asked or tool_results(request):
            return "done"
        asked.append(name)
        return Reply(calls=(call(name, **arguments),))

    return ScriptedModel(script)


def question() -> AgentDefinition:
    return an_agent(
        model=asking_once("ask_user", question="Which?"), built_in_tools=["ask_user"], question_deadline=HOUR
    )


def sleep() -> AgentDefinition:
    return an_agent(model=asking_once("durable_wait", duration_seconds=3600), built_in_tools=["durable_wait"])


class Bodies:
    """Tools that wait, and what they really did."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.cancelled: list[str] = []

    def agent(self, name: str) -> AgentDefinition:
        return an_agent(getattr(self, name)(), model=asking_once("work"))

    def asks(self) -> Any:
        @function_tool(name="work", effect="non_idempotent_write", requires_approval=False)
        async def work(context: ToolContext) -> str:
            """Ask, then do it."""
            if not context.answers:
                raise ToolInputRequested("Which?", deadline=HOUR)
            self.did.append(str(context.answers[-1].answer))
            return "ok"

        return work

    def sleeps(self) -> Any:
        @function_tool(name="work", effect="idempotent_write", requires_approval=False)
        async def work(context: ToolContext) -> str:
            """Sleep, then do it."""
            await context.sleep("nap", HOUR)
            self.did.append("work")
            return "ok"

        return work

    def listens(self) -> Any:
        @function_tool(name="work", effect="read")
        async def work(context: ToolContext) -> str:
            """Wait for an event."""
            try:
                return f"paid by {await context.wait_for_event('paid', within=HOUR)}"
            except EventTimeoutError as error:
                raise ToolExecutionError("too late") from error

        return work

    def works_elsewhere(self) -> Any:
        async def poll(_: str, __: ToolContext) -> str | TaskPending:
            self.did.append("look")
            return "printed"

        async def cancel(task_id: str, _: ToolContext) -> None:
            self.cancelled.append(task_id)

        @function_tool(name="work", effect="idempotent_write", requires_approval=False, poll=poll, cancel=cancel)
        async def work() -> ToolTask:
            """Start remote work."""
            return ToolTask("job-1", poll_interval=timedelta(seconds=1))

        return work


@asynccontextmanager
async def waiting(adapter: str, agent: AgentDefinition) -> AsyncIterator[Rig]:
    """A session that waits, with everything done that could be done by then."""
    async with open_rig(adapter, agent) as rig:
        await rig.stage.send("go")
        await rig.stage.run_all()
        yield rig


async def the_wait(rig: Rig) -> str:
    (wait,) = (await rig.stage.service.waits(LOCAL_CALLER, "s-1"))["waits"]
    return str(wait["id"])


def the_timer(rig: Rig) -> tuple[str, int]:
    ((_, timer),) = rig.stage.timers.pending
    return timer.timer_id, timer.fence


def fires(rig: Rig, name: str, timer: tuple[str, int]) -> None:
    """Let a worker fire a timer; another one with the same timer is a duplicate of it."""
    rig.race.start(name, fire_timer(rig.worker(name), SESSION, *timer))


def asks(rig: Rig, name: str, operation: str, *arguments: Any, **more: Any) -> None:
    work: Coroutine[Any, Any, Any] = getattr(rig.service(name), operation)(LOCAL_CALLER, "s-1", *arguments, **more)
    rig.race.start(name, work)


def refusals(outcomes: dict[str, Any]) -> dict[str, str]:
    """Return who was refused and why; nothing else may have gone wrong."""
    for outcome in outcomes.values():
        if isinstance(outcome, BaseException) and not isinstance(outcome, RequestConflictError):
            raise outcome
    return {name: outcome.code for name, outcome in outcomes.items() if isinstance(outcome, RequestConflictError)}


async def ends(rig: Rig) -> list[str]:
    return [kind for kind in await rig.stage.event_types() if kind in ("turn_completed", "turn_cancelled")]


# --- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["question", "asks"])
async def test_of_two_answers_the_first_holds_and_the_second_is_told(adapter: str, order: Order, kind: str) -> None:
    bodies = Bodies()
    async with waiting(adapter, question() if kind == "question" else bodies.agent(kind)) as rig:
        interrupt = await the_wait(rig)

        for name in ("anna", "bert"):
            asks(rig, name, "resolve_interrupt", interrupt, answer=name)
        refused = refusals(await rig.race.run(order))
        await rig.finish()

        assert list(refused.values()) == ["not_pending"]
        (heard,) = {"anna", "bert"} - refused.keys()
        (result,) = (await rig.stage.results()).values()
        assert result[0] == "succeeded"
        assert bodies.did == [heard] if kind == "asks" else heard in result[1]


@pytest.mark.parametrize("kind", ["question", "asks"])
async def test_an_answer_and_the_deadline_never_both_hold(adapter: str, order: Order, kind: str) -> None:
    """At its deadline a question is over, whoever comes first: what decides is the time, and not the timer."""
    bodies = Bodies()
    async with waiting(adapter, question() if kind == "question" else bodies.agent(kind)) as rig:
        interrupt, timer = await the_wait(rig), the_timer(rig)
        await rig.stage.clock.advance(3600)

        asks(rig, "anna", "resolve_interrupt", interrupt, answer="red")
        for name in ("timer", "duplicate"):
            fires(rig, name, timer)
        refused = refusals(await rig.race.run(order))
        await rig.finish()

        assert refused.keys() == {"anna"}
        assert refused["anna"] in ("deadline_passed", "not_pending")
        (result,) = (await rig.stage.results()).values()
        assert result == ("rejected", "question deadline passed")
        assert not bodies.did


@pytest.mark.parametrize("what", ["stop", "steer"])
@pytest.mark.parametrize("kind", ["question", "asks"])
async def test_an_answer_and_the_end_of_its_turn_never_both_count(
    adapter: str, order: Order, kind: str, what: str
) -> None:
    bodies = Bodies()
    async with waiting(adapter, question() if kind == "question" else bodies.agent(kind)) as rig:
        interrupt = await the_wait(rig)

        asks(rig, "anna", "resolve_interrupt", interrupt, answer="red")
        if what == "stop":
            asks(rig, "bert", "stop")
        else:
            asks(rig, "bert", "send_input", text="no", delivery="steer")
        refused = refusals(await rig.race.run(order))
        calls = [c for c in (await rig.stage.snapshot())["tool_calls"] if c["status"] != "approved"]
        await rig.finish()

        assert refused in ({}, {"anna": "not_pending"})
        if refused:
            assert [c["status"] for c in calls] in (["rejected"], [])
            assert not bodies.did
        parts = [
            p for e in await rig.stage.entries() for m in e.messages for p in m.parts if p["type"] == "tool_result"
        ]
        assert len(parts) == 1
        assert (parts[0]["status"] == "succeeded") <= (not refused)
        assert bool(bodies.did) == (kind == "asks" and parts[0]["status"] == "succeeded")


# --- times ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sleep", "sleeps"])
async def test_a_timer_that_fires_twice_beside_the_sweep_ends_a_wait_once(
    adapter: str, order: Order, kind: str
) -> None:
    bodies = Bodies()
    async with waiting(adapter, sleep() if kind == "sleep" else bodies.agent(kind)) as rig:
        timer = the_timer(rig)
        await rig.stage.clock.advance(3600)

        for name in ("timer", "duplicate"):
            fires(rig, name, timer)
        rig.race.start("sweep", sweep_session(rig.worker("sweep"), SESSION))
        assert not refusals(await rig.race.run(order))
        await rig.finish()

        assert await ends(rig) == ["turn_completed"]
        assert bodies.did == (["work"] if kind == "sleeps" else [])
        assert (await rig.stage.event_types()).count("tool_call_finished") == 1


@pytest.mark.parametrize("kind", ["sleep", "sleeps"])
async def test_a_timer_beside_a_skip_a_cancel_and_a_stop_ends_a_wait_once(
    adapter: str, order: Order, kind: str
) -> None:
    bodies = Bodies()
    async with waiting(adapter, sleep() if kind == "sleep" else bodies.agent(kind)) as rig:
        wait, timer = await the_wait(rig), the_timer(rig)
        await rig.stage.clock.advance(3600)

        fires(rig, "timer", timer)
        asks(rig, "anna", "skip_wait", wait)
        asks(rig, "bert", "cancel_wait", wait)
        asks(rig, "cleo", "stop")
        refused = refusals(await rig.race.run(order))
        await rig.finish()

        assert set(refused.values()) <= {"not_pending"}
        assert len(await ends(rig)) == 1
        assert (await rig.stage.event_types()).count("tool_call_finished") == 1
        assert len(bodies.did) <= 1


@pytest.mark.parametrize("kind", ["question", "asks", "sleep", "sleeps"])
async def test_a_wait_that_is_moved_as_its_time_comes_ends_at_one_of_the_two_times(
    adapter: str, order: Order, kind: str
) -> None:
    bodies = Bodies()
    agents = {"question": question, "sleep": sleep}
    async with waiting(adapter, agents[kind]() if kind in agents else bodies.agent(kind)) as rig:
        wait, timer = await the_wait(rig), the_timer(rig)
        await rig.stage.clock.advance(3600)
        later = format_time(rig.stage.clock.now() + HOUR)

        asks(rig, "anna", "change_wait", wait, until=later)
        fires(rig, "timer", timer)
        refused = refusals(await rig.race.run(order))
        await rig.race.free()
        await rig.stage.run_all()

        if refused:
            assert refused["anna"] in ("deadline_passed", "not_pending")
        else:
            assert await the_wait(rig) == wait, "the old timer ended what had been moved"
            await fire_timer(rig.stage.deps, SESSION, *timer)
            assert await the_wait(rig) == wait, "the old timer ended what had been moved"
        await rig.stage.skip_timers()
        await rig.finish()
        assert await ends(rig) == ["turn_completed"]


async def test_a_sleep_that_ends_beside_a_pause_goes_on_behind_the_resume(adapter: str, order: Order) -> None:
    bodies = Bodies()
    async with waiting(adapter, bodies.agent("sleeps")) as rig:
        timer = the_timer(rig)
        await rig.stage.clock.advance(3600)

        fires(rig, "timer", timer)
        asks(rig, "anna", "pause")
        assert not refusals(await rig.race.run(order))
        await rig.race.free()
        await rig.stage.run_all()

        assert not bodies.did, "a tool went on in the pause"
        await rig.stage.service.resume(LOCAL_CALLER, "s-1")
        await rig.finish()
        assert bodies.did == ["work"]


# --- events and remote work -----------------------------------------------------------------------------------------


async def test_an_event_reaches_a_tool_that_is_about_to_wait_for_it(adapter: str, order: Order) -> None:
    async with open_rig(adapter, Bodies().agent("listens")) as rig:
        await rig.stage.send("go")
        await rig.stage.run_next()
        message = rig.stage.taken()

        rig.race.start("worker", call_tool(rig.worker("worker"), message))
        for name in ("anna", "bert"):
            asks(rig, name, "send_event", message.step_id, "paid", value=name)
        refused = refusals(await rig.race.run(order))
        await rig.finish()

        assert list(refused.values()) == ["not_pending"]
        (heard,) = {"anna", "bert"} - refused.keys()
        assert await rig.stage.results() == {"work": ("succeeded", f"paid by {heard}")}


async def test_an_event_and_the_end_of_its_time_leave_one_result(adapter: str, order: Order) -> None:
    async with waiting(adapter, Bodies().agent("listens")) as rig:
        wait, timer = await the_wait(rig), the_timer(rig)
        await rig.stage.clock.advance(3600)

        asks(rig, "anna", "send_event", wait, "paid", value="anna")
        fires(rig, "timer", timer)
        refused = refusals(await rig.race.run(order))
        await rig.finish()

        result = (await rig.stage.results())["work"]
        assert set(refused.values()) <= {"not_pending"}
        assert result in (("succeeded", "paid by anna"), ("failed", "too late"))
        assert not (refused and result[0] == "succeeded")


@pytest.mark.parametrize("what", ["cancel_wait", "stop"])
async def test_a_look_at_remote_work_and_its_end_by_people_leave_one_result(
    adapter: str, order: Order, what: str
) -> None:
    bodies = Bodies()
    async with open_rig(adapter, bodies.agent("works_elsewhere")) as rig:
        await rig.stage.send("go")
        await rig.stage.run_next()
        await rig.stage.run_next()
        wait = await the_wait(rig)
        await rig.stage.clock.advance(1)
        message = rig.stage.taken()

        rig.race.start("look", poll_tool_task(rig.worker("look"), message))
        rig.race.start("again", poll_tool_task(rig.worker("again"), message))
        asks(rig, "anna", what, *([wait] if what == "cancel_wait" else []))
        refused = refusals(await rig.race.run(order))
        await rig.finish()

        assert set(refused.values()) <= {"not_pending"}
        status, _ = (await rig.stage.results())["work"]
        assert len(bodies.did) <= 1, "one look was made twice"
        assert status in ("succeeded", "outcome_unknown")
        assert bodies.cancelled == ([] if status == "succeeded" else ["job-1"])
        assert len(await ends(rig)) == 1
