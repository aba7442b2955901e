"""Approvals with other arguments than the model's: checked, run, told and bound to what they replace (Beyond 3)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolPolicy, function_tool
from perdure.agents.stepwise import StepwiseRunner
from perdure.errors import InvalidRequestError, RequestConflictError, RequestError
from perdure.service import LOCAL_CALLER
from perdure.testing.fixtures import Stage, open_stage, redeployed
from tests.unit.desk import Desk, booking, pending
from tests.unit.steps.builders import an_agent
from tests.unit.waiting import an_asker

CALL = "call-2-0"
HALF_AN_HOUR = timedelta(minutes=30)
LATE = 31 * 60


async def asked(stage: Stage) -> None:
    await stage.send("go")
    await stage.run_all()


async def edited(stage: Stage, arguments: dict[str, Any], **more: Any) -> Any:
    """Approve the open call with other arguments."""
    (interrupt,) = (await stage.snapshot())["pending_interrupts"]
    shown = {"arguments_hash": interrupt.get("arguments_hash"), "approved": True}
    return await stage.approve(interrupt["interrupt_id"], arguments=arguments, **(shown | more))


async def refusal(awaitable: Any) -> tuple[type[RequestError], str]:
    with pytest.raises(RequestError) as caught:
        await awaitable
    return type(caught.value), caught.value.code


async def test_a_call_runs_with_the_arguments_that_were_approved_and_everybody_is_told() -> None:
    desk, model = Desk(), booking("r1")
    async with open_stage(desk.agent(model)) as stage:
        await asked(stage)

        await edited(stage, {"room": "r2"})
        await stage.run_all()

        assert desk.booked == ["r2"]
        (resolved,) = [e["payload"] for e in await stage.events() if e["type"] == "interrupt_resolved"]
        assert (resolved["arguments"], resolved["actor"]["subject"]) == ({"room": "r2"}, "local")
        (shown,) = (await stage.snapshot())["tool_calls"]
        assert (shown["arguments"], shown["requested_arguments"]) == ({"room": "r2"}, {"room": "r1"})
        assert '{"room":"r2"}' in model.requests[1].messages[-1].output  # type: ignore[union-attr]


async def test_a_call_that_was_approved_without_arguments_runs_without_any() -> None:
    booked: list[str] = []

    @function_tool(effect="non_idempotent_write")
    def book(room: str = "any") -> str:
        booked.append(room)
        return f"booked {room}"

    async with open_stage(an_agent(book, model=booking("r1"))) as stage:
        await asked(stage)

        await edited(stage, {})
        await stage.run_all()

        assert booked == ["any"]


async def test_arguments_that_are_the_models_own_change_nothing() -> None:
    desk, model = Desk(), booking("r1")
    async with open_stage(desk.agent(model)) as stage:
        await asked(stage)

        await edited(stage, {"room": "r1"})
        await stage.run_all()

        assert desk.booked == ["r1"]
        (resolved,) = [e["payload"] for e in await stage.events() if e["type"] == "interrupt_resolved"]
        assert "arguments" not in resolved


def _deep(levels: int) -> dict[str, Any]:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return {"room": value}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "room"),
        ({"room": 7}, "room"),
        ({"room": "r1", "also": 1}, "also"),
        ({"room": "\ud800"}, "half of a surrogate pair"),
        ({"room": float("inf")}, "out of range"),
        (_deep(200), "nested too deeply"),
    ],
    ids=["missing", "type", "unknown", "surrogate", "number", "depth"],
)
async def test_arguments_that_the_tool_would_not_take_of_a_model_are_refused_of_a_person(
    arguments: dict[str, Any], reason: str
) -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"))) as stage:
        await asked(stage)

        with pytest.raises(InvalidRequestError) as caught:
            await edited(stage, arguments)

        assert caught.value.message.startswith("invalid book arguments: ")
        assert reason in caught.value.message
        assert list(await pending(stage)) == ["r1"]


async def test_a_check_of_arguments_that_breaks_refuses_them() -> None:
    @function_tool(effect="non_idempotent_write")
    async def book(room: str) -> str:
        return room

    def broken(raw: dict[str, Any]) -> dict[str, Any]:
        if raw["room"] == "r2":
            raise KeyError("a bug")
        return raw

    agent = an_agent(replace(book, validate=broken), model=booking("r1"))
    async with open_stage(agent) as stage:
        await asked(stage)

        with pytest.raises(InvalidRequestError, match="their check failed with KeyError"):
            await edited(stage, {"room": "r2"})


async def test_what_nobody_here_could_check_is_not_changed() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"))) as stage:
        await asked(stage)
        with_runner = redeployed(stage, an_agent(name="support", runner=StepwiseRunner()))

        changed = edited(with_runner, {"room": "r2"})

        assert await refusal(changed) == (RequestConflictError, "agent_missing")


async def test_other_arguments_are_of_an_approval_and_in_time() -> None:
    desk = Desk()
    policy = {"book": ToolPolicy(approval_deadline=HALF_AN_HOUR)}
    async with open_stage(desk.agent(booking("r1"), tool_policies=policy)) as stage:
        await asked(stage)

        rejected = edited(stage, {"room": "r2"}, approved=False)
        assert await refusal(rejected) == (InvalidRequestError, "invalid_request")
        stale = edited(stage, {"room": "r2"}, arguments_hash="0" * 64)
        assert await refusal(stale) == (RequestConflictError, "arguments_changed")
        await stage.clock.advance(LATE)
        late = edited(stage, {"room": "r2"})
        assert await refusal(late) == (RequestConflictError, "deadline_passed")


async def test_a_question_takes_no_arguments() -> None:
    async with open_stage(an_asker()) as stage:
        await asked(stage)

        wrong = edited(stage, {"question": "?"}, arguments_hash="0" * 64)

        assert await refusal(wrong) == (InvalidRequestError, "invalid_request")


async def test_an_approval_is_not_answered() -> None:
    async with open_stage(Desk().agent(booking("r1"))) as stage:
        await asked(stage)

        wrong = stage.service.resolve_interrupt(LOCAL_CALLER, "s-1", CALL, answer="yes")

        assert await refusal(wrong) == (InvalidRequestError, "invalid_request")


async def test_f055_other_arguments_name_those_that_they_replace() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"))) as stage:
        await asked(stage)

        forged = stage.approve(CALL, arguments={"room": "r2"})

        assert await refusal(forged) == (InvalidRequestError, "invalid_request")
        assert list(await pending(stage)) == ["r1"]
