"""A tool asks, and the same tool runs again with what was answered."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolContext, function_tool
from perdure.agents.waiting import ToolInputRequested
from perdure.core import texts
from perdure.testing.fixtures import CollectingResults, Stage, open_stage
from tests.unit.steps.bodies import Body, a_tool
from tests.unit.steps.builders import an_agent, asking_for

WEEK = timedelta(days=7)


async def pending(stage: Stage) -> list[str]:
    head = await stage.head()
    return [interrupt.interrupt_id for interrupt in head.turn.interrupts] if head.turn else []


async def asked(stage: Stage) -> str:
    """Send a message and run until the tool has asked; returns the question's id."""
    await stage.send("go")
    await stage.run_all()
    (interrupt_id,) = await pending(stage)
    return interrupt_id


@pytest.mark.parametrize("in_process", [True, False])
@pytest.mark.parametrize("effect", ["read", "idempotent_write", "non_idempotent_write", "unclassified"])
async def test_the_same_tool_runs_again_with_the_answers_and_what_it_kept(effect: str, in_process: bool) -> None:
    # APPR-13
    body = Body(
        ToolInputRequested("Which one?", choices=["a", "b"], continuation={"seen": [1]}),
        ToolInputRequested("Sure?", continuation="half"),
        "done",
    )
    agent = an_agent(a_tool(body, effect), model=asking_for("work"))
    async with open_stage(agent, in_process=in_process) as stage:
        first = await asked(stage)
        assert first.endswith("-input-1")
        await stage.clock.advance(WEEK.total_seconds())
        await stage.session().answer(first, "a", message="the first")
        await stage.run_all()
        (second,) = await pending(stage)
        await stage.session().answer(second, "yes")
        await stage.run_all()

        assert await stage.results() == {"work": ("succeeded", "done")}
        assert [context.continuation for context in body.contexts] == [None, {"seen": [1]}, "half"]
        assert [context.attempt for context in body.contexts] == [1, 2, 3]
        assert len({context.idempotency_key for context in body.contexts}) == 1
        answers = [(a.question, a.status, a.answer, a.message) for a in body.contexts[2].answers]
        assert answers == [("Which one?", "answered", "a", "the first"), ("Sure?", "answered", "yes", None)]


async def test_two_tools_may_ask_at_once_and_go_on_in_any_order() -> None:
    # APPR-13, APPR-14
    one, two = (Body(ToolInputRequested("Which?"), name) for name in ("one", "two"))
    agent = an_agent(a_tool(one, name="one"), a_tool(two, name="two"), model=asking_for("one", "two"))
    async with open_stage(agent) as stage:
        await stage.send("go")
        await stage.run_all()
        first, second = await pending(stage)
        assert first != second

        await stage.session().answer(second, "b")
        await stage.run_all()
        assert (one.runs, two.runs) == (1, 2)
        await stage.session().answer(first, "a")
        await stage.run_all()

        assert await stage.results() == {"one": ("succeeded", "one"), "two": ("succeeded", "two")}
        assert [c.answers[0].answer for c in (one.contexts[1], two.contexts[1])] == ["a", "b"]


async def test_a_tool_whose_question_is_declined_does_not_run_again() -> None:
    body = Body(ToolInputRequested("Which?"))
    async with open_stage(an_agent(a_tool(body, "non_idempotent_write"), model=asking_for("work"))) as stage:
        await stage.session().decline(await asked(stage))
        await stage.run_all()

        assert body.runs == 1
        assert await stage.results() == {"work": ("rejected", texts.DECLINED)}
        assert (await stage.transcript())[-1] == ("assistant", "done")


async def test_a_tools_question_has_a_deadline_that_ends_its_call() -> None:
    body = Body(ToolInputRequested("Which?", deadline=timedelta(hours=1)))
    async with open_stage(an_agent(a_tool(body), model=asking_for("work"))) as stage:
        await asked(stage)
        assert await stage.skip_timers() == 1
        await stage.run_all()

        assert await stage.results() == {"work": ("rejected", texts.QUESTION_DEADLINE_PASSED)}


@pytest.mark.parametrize(
    ("question", "more"),
    [
        (" ", {}),
        ("Which?", {"choices": ["a", "a"]}),
        ("Which?", {"continuation": object()}),
        ("Which?", {"deadline": timedelta(days=400)}),
    ],
)
async def test_what_can_not_be_asked_ends_the_call_and_says_why(question: str, more: dict[str, Any]) -> None:
    body = Body(ToolInputRequested(question, **more))
    async with open_stage(an_agent(a_tool(body), model=asking_for("work"))) as stage:
        await stage.send("go")
        await stage.run_all()

        ((status, text),) = (await stage.results()).values()
        assert status == "failed"
        assert text.startswith("work asked something that can't be asked")


async def test_a_def_tool_and_one_that_awaits_nothing_can_ask() -> None:
    runs: list[int] = []

    @function_tool(effect="read")
    def work(context: ToolContext) -> str:
        runs.append(len(context.answers))
        if not context.answers:
            raise ToolInputRequested("Which?")
        return f"it is {context.answers[0].answer}"

    async with open_stage(an_agent(work, model=asking_for("work"))) as stage:
        await stage.session().answer(await asked(stage), "b")
        await stage.run_all()

        assert runs == [0, 1]
        assert await stage.results() == {"work": ("succeeded", "it is b")}


async def test_tools_that_ask_beside_many_that_end_together_are_asked_all_the_same() -> None:
    results = CollectingResults()
    bodies = [Body(ToolInputRequested("Which?"), "asked")] + [Body("ok") for _ in range(5)]
    tools = [a_tool(body, name=f"t{number}") for number, body in enumerate(bodies)]
    agent = an_agent(*tools, model=asking_for(*(tool.name for tool in tools)))
    async with open_stage(agent, in_process=False, results=results) as stage:
        question = await asked(stage)
        await stage.session().answer(question, "a")
        await stage.run_all()

        assert [status for status, _ in (await stage.results()).values()] == ["succeeded"] * 6
        assert bodies[0].runs == 2


async def test_a_question_that_is_delivered_twice_is_asked_once() -> None:
    body = Body(ToolInputRequested("Which?"), "done")
    async with open_stage(an_agent(a_tool(body), model=asking_for("work"))) as stage:
        await stage.send("go")
        for message in await stage.run_all():
            await stage.run(message)

        assert body.runs == 1
        assert len(await pending(stage)) == 1
