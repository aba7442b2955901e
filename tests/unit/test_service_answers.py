"""Answers: taken as they are allowed, once and in time; and approvals with other arguments."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.agents.inbox import InboxSettings
from perdure.core import texts
from perdure.errors import (
    ConfigurationError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    RequestConflictError,
    RequestError,
)
from perdure.models.scripted import call
from perdure.service import LOCAL_CALLER
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.desk import Desk, booking, pending
from tests.unit.steps.builders import OTHER, an_agent
from tests.unit.waiting import an_asker, calling, deploy

HALF_AN_HOUR = timedelta(minutes=30)
LATE = 31 * 60


async def asked(stage: Stage) -> str:
    """Have the agent ask; return the id of what is open."""
    await stage.send("go")
    await stage.run_all()
    (open_one,) = (await stage.snapshot())["pending_interrupts"]
    return str(open_one["interrupt_id"])


async def answer(stage: Stage, interrupt_id: str, text: str, **more: Any) -> Any:
    return await stage.service.resolve_interrupt(LOCAL_CALLER, "s-1", interrupt_id, answer=text, **more)


async def refusal(awaitable: Any) -> tuple[type[RequestError], str]:
    with pytest.raises(RequestError) as caught:
        await awaitable
    return type(caught.value), caught.value.code


@pytest.mark.parametrize(
    ("question", "text", "taken"),
    [
        ({}, " any text ", " any text "),
        ({"choices": ["red", "green"]}, "blue, please", "blue, please"),
        ({"choices": ["red", "green"], "allows_free_text": False}, "green", "green"),
        ({"choices": ["red", "green"], "allows_free_text": False}, "\n green ", "green"),
        ({"choices": [" red", "green"], "allows_free_text": False}, " red", " red"),
    ],
)
async def test_an_answer_that_the_question_allows_reaches_the_model(
    question: dict[str, Any], text: str, taken: str
) -> None:
    async with open_stage(an_asker(**question)) as stage:
        interrupt_id = await asked(stage)

        assert await answer(stage, interrupt_id, text) == {"result": "resolved"}

        await stage.run_all()
        (resolved,) = [e["payload"] for e in await stage.events() if e["type"] == "interrupt_resolved"]
        assert (resolved["answered"], resolved["answer"]) == (True, taken)
        status, output = (await stage.results())["ask_user"]
        assert status == "succeeded"
        assert f'"answer": "{taken}"'.replace("\n", "\\n") in output


@pytest.mark.parametrize("text", ["blue", "Green", "red green", "redgreen", "", " ", "\u2003\u00a0", "\u1680"])
async def test_an_answer_outside_the_choices_or_a_blank_one_changes_nothing(text: str) -> None:
    async with open_stage(an_asker(choices=["red", "green"], allows_free_text=False)) as stage:
        interrupt_id = await asked(stage)
        before = (await stage.head()).version

        assert await refusal(answer(stage, interrupt_id, text)) == (InvalidRequestError, "invalid_request")

        assert (await stage.head()).version == before


async def test_the_refusal_of_an_answer_does_not_repeat_it() -> None:
    async with open_stage(an_asker(choices=["red"], allows_free_text=False)) as stage:
        interrupt_id = await asked(stage)

        with pytest.raises(InvalidRequestError) as caught:
            await answer(stage, interrupt_id, "my secret")

        assert "secret" not in caught.value.message


async def test_a_tools_own_question_has_choices_that_hold_as_well() -> None:
    async with open_stage(an_agent(deploy, model=calling(call("deploy", target="web")))) as stage:
        interrupt_id = await asked(stage)
        assert interrupt_id == "call-2-0-input-1"

        assert await refusal(answer(stage, interrupt_id, "asia")) == (InvalidRequestError, "invalid_request")
        assert await answer(stage, interrupt_id, "eu") == {"result": "resolved"}


async def test_a_question_is_declined_in_the_models_hearing_and_never_approved() -> None:
    async with open_stage(an_asker()) as stage:
        interrupt_id = await asked(stage)

        with pytest.raises(InvalidRequestError):
            await stage.approve(interrupt_id)
        assert await stage.session().decline(interrupt_id, "ask me tomorrow") == {"result": "resolved"}

        await stage.run_all()
        assert await stage.results() == {"ask_user": ("rejected", "ask me tomorrow")}


async def test_a_word_with_an_answer_reaches_the_model() -> None:
    async with open_stage(an_asker()) as stage:
        interrupt_id = await asked(stage)

        await stage.session().answer(interrupt_id, "red", "but only this once")
        await stage.run_all()

        assert "but only this once" in (await stage.results())["ask_user"][1]


@pytest.mark.parametrize("timer_first", [False, True])
async def test_f066_an_answer_after_the_deadline_is_refused_whether_its_timer_came_or_not(timer_first: bool) -> None:
    async with open_stage(an_asker(deadline=HALF_AN_HOUR)) as stage:
        interrupt_id = await asked(stage)
        await stage.clock.advance(LATE)
        if timer_first:
            await stage.fire_timers()

        with pytest.raises(RequestConflictError) as caught:
            await answer(stage, interrupt_id, "my own words")
        await stage.fire_timers()
        await stage.run_all()

        assert caught.value.code == "deadline_passed"
        assert "my own words" not in caught.value.message
        assert await stage.results() == {"ask_user": ("rejected", texts.QUESTION_DEADLINE_PASSED)}
        assert (await stage.snapshot())["inbox"] == []
        assert (await stage.event_types()).count("interrupt_resolved") == 1


@pytest.mark.parametrize("timer_first", [False, True])
async def test_f066_by_setting_a_late_answer_becomes_a_message_once(timer_first: bool) -> None:
    agent = an_asker(deadline=HALF_AN_HOUR, inbox=InboxSettings(delivery="interrupt", late_answers="queue"))
    async with open_stage(agent) as stage:
        interrupt_id = await asked(stage)
        await stage.clock.advance(LATE)
        if timer_first:
            await stage.fire_timers()

        first = await answer(stage, interrupt_id, "the red one", idempotency_key="k")
        again = await answer(stage, interrupt_id, "the red one", idempotency_key="k")

        assert first == again
        assert (first["result"], set(first)) == ("queued", {"result", "message_id", "cursor"})
        (waiting,) = (await stage.snapshot())["inbox"]
        assert (waiting["text"], waiting["message_id"]) == ("the red one", first["message_id"])
        events = await stage.events(after=first["cursor"])
        assert events[0]["type"] == "message_queued"
        await stage.fire_timers()
        await stage.run_all()
        assert ("user", "the red one") in await stage.transcript()


async def test_a_late_answer_is_a_message_only_of_somebody_who_may_send_one() -> None:
    def approver(principal: Any, operation: str, facts: Any) -> bool | None:
        return operation in ("read", "approve") if principal.actor.subject == "other" else None

    agent = an_asker(deadline=HALF_AN_HOUR, inbox=InboxSettings(late_answers="queue"))
    async with open_stage(agent, authorize=approver) as stage:
        interrupt_id = await asked(stage)
        await stage.clock.advance(LATE)

        late = stage.service.resolve_interrupt(OTHER, "s-1", interrupt_id, answer="red")

        assert await refusal(late) == (ForbiddenError, "forbidden")
        assert (await stage.snapshot())["inbox"] == []


async def test_a_late_decline_is_refused_whatever_becomes_of_late_answers() -> None:
    agent = an_asker(deadline=HALF_AN_HOUR, inbox=InboxSettings(late_answers="queue"))
    async with open_stage(agent) as stage:
        interrupt_id = await asked(stage)
        await stage.clock.advance(LATE)

        assert await refusal(stage.session().decline(interrupt_id)) == (RequestConflictError, "deadline_passed")


def test_an_unknown_word_for_late_answers_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="late_answers"):
        InboxSettings(late_answers="drop")  # type: ignore[arg-type]


@pytest.mark.parametrize("steps_between", [0, 1])
async def test_a_question_of_a_tool_that_was_answered_is_no_longer_open(steps_between: int) -> None:
    async with open_stage(an_agent(deploy, model=calling(call("deploy", target="web")))) as stage:
        interrupt_id = await asked(stage)
        await answer(stage, interrupt_id, "eu")
        for _ in range(steps_between):
            await stage.run_next()

        assert await refusal(answer(stage, interrupt_id, "us")) == (RequestConflictError, "not_pending")


@pytest.mark.parametrize(
    "interrupt_id", ["call-2-0-input-2", "call-2-1-input-1", "call-1-0-input-1", "call-2-0-input-", "call-99-0-input-1"]
)
async def test_a_question_that_no_tool_asked_is_not_found(interrupt_id: str) -> None:
    async with open_stage(an_agent(deploy, model=calling(call("deploy", target="web")))) as stage:
        await asked(stage)

        assert await refusal(answer(stage, interrupt_id, "eu")) == (NotFoundError, "interrupt_not_found")


async def test_approvals_one_at_a_time_are_known_to_be_over_as_well() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1", "r2"), approval_order="sequential")) as stage:
        first = await asked(stage)
        await stage.approve(first)
        ((_, second),) = (await pending(stage)).items()
        await stage.approve(second)

        assert await refusal(stage.approve(second)) == (RequestConflictError, "not_pending")


async def test_the_same_answer_with_the_same_key_gets_the_same_reply_when_the_question_is_over() -> None:
    async with open_stage(an_asker(choices=["red", "green"], allows_free_text=False)) as stage:
        interrupt_id = await asked(stage)

        first = await answer(stage, interrupt_id, "red", idempotency_key="k")
        again = await answer(stage, interrupt_id, "red", idempotency_key="k")

        assert first == again == {"result": "resolved"}
        assert await refusal(answer(stage, interrupt_id, "green", idempotency_key="k")) == (
            RequestConflictError,
            "idempotency_mismatch",
        )


async def test_nobody_learns_of_a_question_that_they_may_not_see() -> None:
    async with open_stage(an_asker(choices=["red"], allows_free_text=False)) as stage:
        interrupt_id = await asked(stage)

        wrong = stage.service.resolve_interrupt(OTHER, "s-1", interrupt_id, answer="blue")

        assert await refusal(wrong) == (NotFoundError, "session_not_found")
