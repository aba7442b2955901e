"""What tools say in texts that no store takes, or that a caller could not say: refused or mended, never stuck."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolContext, function_tool
from perdure.agents.schedules import Occurrence, ScheduleEndedError
from perdure.agents.waiting import ToolInputRequested, ToolTask, kept_value
from perdure.checks import MAX_METADATA_BYTES
from perdure.errors import ConfigurationError, InvalidRequestError
from perdure.service import LOCAL_CALLER
from perdure.testing.fixtures import open_stage
from tests.unit.steps.builders import an_agent, asking_for

HALF = "\ud800"
SOON = {"after": {"hours": 1}}
Act = Callable[[ToolContext], Awaitable[Any]]


def a_tool(act: Act, **more: Any) -> Any:
    @function_tool(effect="idempotent_write", name="work", requires_approval=False, **more)
    async def tool(context: ToolContext) -> Any:
        return await act(context)

    return tool


async def asks(context: ToolContext) -> str:
    if not context.answers:
        raise ToolInputRequested(f"Delete {HALF}?", choices=[f"yes{HALF}", "no"], continuation={HALF: HALF})
    return f"{context.answers[0].answer} {context.continuation}"


@pytest.mark.parametrize(
    "act",
    [
        lambda context: context.step(HALF, lambda: 1),
        lambda context: context.sleep(HALF, timedelta(hours=1)),
        lambda context: context.wait_for_event(HALF),
    ],
    ids=["step", "sleep", "event"],
)
async def test_a_name_with_half_a_character_fails_the_call_and_leaves_no_worker_stuck(act: Act) -> None:
    async with open_stage(an_agent(a_tool(act), model=asking_for("work"))) as stage:
        await stage.send("go")
        await stage.run_all()

        assert (await stage.results())["work"][0] == "outcome_unknown"
        assert (await stage.transcript())[-1] == ("assistant", "done")


def test_a_handle_with_half_a_character_is_no_handle() -> None:
    with pytest.raises(ConfigurationError, match="surrogate"):
        ToolTask(HALF)


def test_half_a_character_in_a_key_is_kept_as_one_in_a_value() -> None:
    assert kept_value({f"a{HALF}": HALF}, "it") == {"a\ufffd": "\ufffd"}


async def test_a_question_is_asked_with_its_half_characters_mended() -> None:
    async with open_stage(an_agent(a_tool(asks), model=asking_for("work"))) as stage:
        await stage.send("go")
        await stage.run_all()
        (asked,) = (await stage.snapshot())["pending_interrupts"]

        assert (asked["question"], asked["choices"]) == ("Delete \ufffd?", ["yes\ufffd", "no"])
        await stage.session().answer(asked["interrupt_id"], "yes\ufffd")
        await stage.run_all()
        assert (await stage.results())["work"] == ("succeeded", "yes\ufffd {'\ufffd': '\ufffd'}")


async def test_the_question_of_remote_work_is_mended_too() -> None:
    async def poll(_: str, context: ToolContext) -> str:
        if context.resolution is None:
            raise ToolInputRequested(f"Delete {HALF}?")
        return "deleted"

    async def start(_: ToolContext) -> ToolTask:
        return ToolTask("job", timedelta(seconds=1))

    async with open_stage(an_agent(a_tool(start, poll=poll), model=asking_for("work"))) as stage:
        await stage.send("go")
        await stage.run_all()
        await stage.clock.advance(1)
        await stage.run_all()

        (asked,) = (await stage.snapshot())["pending_interrupts"]
        assert asked["question"] == "Delete \ufffd?"


@pytest.mark.parametrize(
    ("act", "complaint"),
    [
        (lambda session: session.append(HALF), "surrogate"),
        (lambda session: session.append(" "), "blank"),
        (lambda session: session.append("x", name=HALF), "surrogate"),
        (lambda session: session.append("x", name="n" * 101), "1 to 100"),
        (lambda session: session.schedule(HALF, when=SOON), "surrogate"),
        (lambda session: session.schedule(" ", when=SOON), "blank"),
        (lambda session: session.schedule("x", when=SOON, schedule_id=HALF), "surrogate"),
        (lambda session: session.schedule("x", when=SOON, schedule_id="a:1"), "colon"),
        (lambda session: session.schedule("x", when={"after": timedelta(hours=1)}), "not JSON"),
        (lambda session: session.schedule("x", when=SOON, metadata={"a": HALF}), "surrogate"),
        (lambda session: session.schedule("x", when=SOON, metadata={"a": {1}}), "not JSON"),
        (lambda session: session.schedule("x", when=SOON, metadata=[1]), "object"),
        (lambda session: session.schedule("x", when=SOON, metadata={"a": "x" * MAX_METADATA_BYTES}), "larger"),
    ],
)
async def test_what_a_caller_could_not_send_a_tool_can_not_either(act: Any, complaint: str) -> None:
    async def body(context: ToolContext) -> Any:
        return await act(context.session)

    async with open_stage(an_agent(a_tool(body), model=asking_for("work"))) as stage:
        await stage.send("go")
        await stage.run_all()

        status, output = (await stage.results())["work"]
        assert (status, complaint in output) == ("failed", True), output
        assert (await stage.snapshot())["inbox"] == []


@pytest.mark.parametrize(
    ("word", "heard"),
    [
        (f"water {HALF}", ["tick", "water \ufffd"]),
        (" ", ["tick"]),
        (ScheduleEndedError(HALF), ["tick"]),
    ],
)
async def test_what_an_agent_says_of_an_occurrence_can_be_stored(word: Any, heard: list[str]) -> None:
    words = ["tick", word, ScheduleEndedError("enough")]

    def on_schedule(_: Occurrence) -> str:
        said = words.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    async with open_stage(an_agent(on_schedule=on_schedule)) as stage:
        hourly = {"every": {"hours": 1}, "time_zone": "UTC"}
        await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="x", when=hourly)
        while stage.timers.pending:
            at = min(timer.due_at for _, timer in stage.timers.pending)
            await stage.clock.advance((at - stage.clock.now()).total_seconds())
            await stage.fire_timers()
            await stage.run_all()

        assert [text for role, text in await stage.transcript() if role == "user"] == heard


async def test_nobody_takes_the_id_of_an_occurrences_message() -> None:
    async with open_stage(an_agent()) as stage:
        with pytest.raises(InvalidRequestError, match="looks like an id"):
            await stage.service.send_input(LOCAL_CALLER, "s-1", text="hi", message_id="schedule:m:1")


@pytest.mark.parametrize("metadata", [[1], "text"])
async def test_metadata_that_is_no_object_is_refused(metadata: Any) -> None:
    async with open_stage(an_agent()) as stage:
        with pytest.raises(InvalidRequestError, match="object"):
            await stage.service.send_input(LOCAL_CALLER, "s-1", text="hi", metadata=metadata)
        with pytest.raises(InvalidRequestError, match="object"):
            await stage.service.set_schedule(LOCAL_CALLER, "s-1", text="x", when=SOON, metadata=metadata)
