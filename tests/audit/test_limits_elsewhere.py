"""Limits that stand beside what they bound: years, names, tries, values and secrets, one under and one over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.agents.tools import ToolContext, function_tool
from perdure.agents.waiting import MAX_TASK_ID, ToolTask, check_wait
from perdure.answering import MAX_VALUE_BYTES
from perdure.checks import json_bytes
from perdure.core import limits
from perdure.core.calendar import parse_when
from perdure.errors import ConfigurationError, InvalidRequestError
from perdure.models.scripted import call
from perdure.scheduling import MAX_TRIES
from perdure.service import LOCAL_CALLER
from perdure.signed_approvals import secret_bytes
from perdure.steps.durable import MAX_NAME
from perdure.testing.fixtures import Stage, open_stage
from perdure.webhooks import MIN_SECRET_BYTES
from tests.unit.core.builders import NOON
from tests.unit.steps.builders import an_agent
from tests.unit.waiting import calling

MOMENT = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)


def refused(over: bool, *errors: type[Exception]) -> Any:
    """Expect a refusal, if it is over the limit."""
    return pytest.raises(errors or (InvalidRequestError,)) if over else _Nothing()


class _Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


# --- waits and tasks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", [False, True])
def test_a_sleep_of_a_tool_takes_a_year_and_no_longer(over: bool) -> None:
    with refused(over, ConfigurationError):
        check_wait(limits.MAX_WAIT + over * MOMENT, "a sleep")
    assert timedelta(days=365) == limits.MAX_WAIT


@pytest.mark.parametrize("over", [False, True])
def test_a_schedule_comes_within_a_year_of_its_setting(over: bool) -> None:
    seconds = limits.MAX_WAIT // SECOND + over
    with refused(over):
        assert parse_when({"after": {"seconds": seconds}}, now=NOON) == NOON + limits.MAX_WAIT


@pytest.mark.parametrize("over", [False, True])
def test_a_task_id_has_two_thousand_characters_at_most(over: bool) -> None:
    with refused(over, ConfigurationError):
        ToolTask("x" * (MAX_TASK_ID + over))


@pytest.mark.parametrize("over", [False, True])
async def test_the_name_of_a_step_and_of_an_event_has_a_hundred_characters_at_most(over: bool) -> None:
    name = "n" * (MAX_NAME + over)

    @function_tool(effect="read")
    async def work(context: ToolContext) -> str:
        await context.step(name, lambda: None)
        return str(await context.wait_for_event("done"))

    async with open_stage(an_agent(work, model=calling(call("work")))) as stage:
        await stage.send("go")
        await stage.run_all()

        assert (await stage.results())["work"][0] == ("failed" if over else "waiting_for_event")
        with refused(over):
            await stage.session().send_event("call-2-0", name, 1)


# --- schedules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", [False, True])
async def test_an_occurrence_has_one_to_a_thousand_tries(over: bool) -> None:
    async with open_stage(an_agent()) as stage:
        for tries in (1 - over, MAX_TRIES + over):
            with refused(over):
                await stage.service.set_schedule(
                    LOCAL_CALLER, f"s-{tries}", text="x", when={"after": {"hours": 1}}, max_attempts=tries
                )


# --- approvals ahead, values, secrets --------------------------------------------------------------------------------


@pytest.mark.parametrize("over", [False, True])
async def test_a_value_has_256_kib_of_json_at_most(over: bool) -> None:
    async with open_stage(an_agent()) as stage:
        asked = await wanting(stage)
        empty = len(json_bytes({"value": ""}, "value"))

        with refused(over):
            await stage.session().give(asked, "x" * (MAX_VALUE_BYTES - empty + over))
        assert len((await stage.snapshot())["pending_interrupts"]) == over


@pytest.mark.parametrize("over", [False, True])
async def test_a_value_is_waited_for_for_a_year_at_most(over: bool) -> None:
    async with open_stage(an_agent()) as stage:
        with refused(over):
            await wanting(stage, deadline=limits.MAX_WAIT + over * MOMENT)


@pytest.mark.parametrize("over", [False, True])
def test_a_secret_for_approvals_has_24_bytes_or_more(over: bool) -> None:
    with refused(over, ConfigurationError):
        secret_bytes("x" * (MIN_SECRET_BYTES - over))


async def wanting(stage: Stage, **more: Any) -> str:
    await stage.send("hello")
    await stage.run_all()
    asked = await stage.session().request_value("address", "Where to?", **more)
    return str(asked["interrupt_id"])
