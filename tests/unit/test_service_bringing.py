"""What trusted code brings to calls that wait for it: events and results, checked and once."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.core.commands import ModelFinished, RequestedCall
from perdure.core.limits import MAX_TOOL_OUTPUT_BYTES
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError, RequestError, TooLargeError
from perdure.models.scripted import call
from perdure.steps.commit import execute
from perdure.testing.fixtures import SESSION, Stage, open_stage
from perdure.webhooks import ToolEvent, Webhook, receive
from tests.unit.desk import Desk, booking
from tests.unit.steps.builders import OTHER, an_agent
from tests.unit.waiting import a_sleeper, calling, deploy

CALL = "call-2-0"


async def refusal(awaitable: Any) -> tuple[type[RequestError], str]:
    with pytest.raises(RequestError) as caught:
        await awaitable
    return type(caught.value), caught.value.code


def deploying() -> Any:
    return an_agent(deploy, model=calling(call("deploy", target="web")))


async def until_it_waits_for_the_event(stage: Stage) -> None:
    await stage.send("go")
    await stage.run_all()
    await stage.session().answer(f"{CALL}-input-1", "eu")
    await stage.run_all()
    await stage.session().skip_wait(CALL)
    await stage.run_all()


async def test_an_event_goes_to_the_tool_that_waits_for_it() -> None:
    async with open_stage(deploying()) as stage:
        await until_it_waits_for_the_event(stage)

        assert await stage.session().send_event(CALL, "deployed", {"build": 7}) == {"result": "recorded"}

        await stage.run_all()
        assert await stage.results() == {"deploy": ("succeeded", "web in eu: {'build': 7}")}
        (came,) = [e["payload"] for e in await stage.events() if e["type"] == "tool.event_arrived"]
        assert came == {
            "tool_call_id": CALL, "name": "deployed", "actor": {"issuer": "local", "subject": "local"}
        }  # fmt: skip


async def test_f063_an_event_that_comes_early_is_kept() -> None:
    async with open_stage(deploying()) as stage:
        await stage.send("go")
        await stage.run_all()

        await stage.session().send_event(CALL, "deployed", "early")
        await stage.session().answer(f"{CALL}-input-1", "eu")
        await stage.run_all()
        await stage.session().skip_wait(CALL)
        await stage.run_all()

        assert (await stage.results())["deploy"] == ("succeeded", "web in eu: early")


async def test_an_event_is_taken_once_and_by_a_call_that_is_open() -> None:
    async with open_stage(deploying()) as stage:
        await until_it_waits_for_the_event(stage)
        session = stage.session()

        first = await session.send_event(CALL, "deployed", idempotency_key="k")
        again = await session.send_event(CALL, "deployed", idempotency_key="k")

        assert first == again
        assert await refusal(session.send_event(CALL, "deployed")) == (RequestConflictError, "not_pending")
        await stage.run_all()
        assert await refusal(session.send_event(CALL, "other")) == (RequestConflictError, "not_pending")


@pytest.mark.parametrize("call_id", ["call-2-1", "call-99-0", "nonsense"])
async def test_an_event_for_a_call_that_never_was_is_not_found(call_id: str) -> None:
    async with open_stage(deploying()) as stage:
        await until_it_waits_for_the_event(stage)

        assert await refusal(stage.session().send_event(call_id, "deployed")) == (NotFoundError, "wait_not_found")


async def test_a_built_in_call_takes_no_event() -> None:
    async with open_stage(a_sleeper()) as stage:
        await stage.send("go")
        await stage.run_next()

        assert await refusal(stage.session().send_event(CALL, "now")) == (RequestConflictError, "not_pending")


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("", None, InvalidRequestError),
        ("n" * 101, None, InvalidRequestError),
        ("deployed", {"a", object()}, InvalidRequestError),
        ("deployed", "\ud800", InvalidRequestError),
        ("deployed", "x" * MAX_TOOL_OUTPUT_BYTES, TooLargeError),
    ],
    ids=["no name", "long name", "no JSON", "surrogate", "large"],
)
async def test_what_could_not_be_kept_of_an_event_is_refused(name: str, value: Any, error: type[RequestError]) -> None:
    async with open_stage(deploying()) as stage:
        await until_it_waits_for_the_event(stage)
        version = (await stage.head()).version

        assert (await refusal(stage.session().send_event(CALL, name, value)))[0] is error

        assert (await stage.head()).version == version


async def test_nobody_brings_an_event_to_a_session_of_somebody_else() -> None:
    async with open_stage(deploying()) as stage:
        await until_it_waits_for_the_event(stage)

        foreign = stage.service.send_event(OTHER, "s-1", CALL, "deployed")

        assert await refusal(foreign) == (NotFoundError, "session_not_found")


# --- results ---------------------------------------------------------------------------------------------------------


async def waiting_for_a_result(stage: Stage) -> None:
    """Let the model ask for a call that its provider runs."""
    await stage.send("go")
    message = stage.taken()
    brought = RequestedCall(
        tool_name="web_search", effect="read", requires_approval=False, arguments={"q": "?"}, brought=True
    )
    finished = ModelFinished(
        turn_id="turn-1", step_id=message.step_id, attempt=1, started_at=stage.clock.now(), ending="tool_calls",
        calls=(brought,),
    )  # fmt: skip
    await execute(stage.ports, SESSION, finished)


@pytest.mark.parametrize(("succeeded", "status"), [(True, "succeeded"), (False, "failed")])
async def test_a_result_that_is_brought_is_the_calls_own(succeeded: bool, status: str) -> None:
    async with open_stage(an_agent()) as stage:
        await waiting_for_a_result(stage)
        (wait,) = await stage.session().waits()

        await stage.session().bring_result(CALL, "web_search", {"hits": 3}, succeeded)
        await stage.run_all()

        assert (wait["kind"], wait["unblocked_by"][0]) == ("result", "trusted code of the application")
        assert await stage.results() == {"web_search": (status, '{"hits": 3}')}


async def test_a_result_for_another_tool_or_a_call_of_ours_is_refused() -> None:
    async with open_stage(Desk().agent(booking("r1"))) as stage:
        await waiting_for_a_result(stage)
        session = stage.session()

        wrong_tool = session.bring_result(CALL, "image_search", "x")
        assert await refusal(wrong_tool) == (RequestConflictError, "not_pending")
        await session.bring_result(CALL, "web_search", "x")
        assert await refusal(session.bring_result(CALL, "web_search", "y")) == (RequestConflictError, "not_pending")
        assert await refusal(session.bring_result("call-9-0", "book", "y")) == (NotFoundError, "wait_not_found")


async def test_a_result_that_is_too_large_is_refused() -> None:
    async with open_stage(an_agent()) as stage:
        await waiting_for_a_result(stage)

        large = stage.session().bring_result(CALL, "web_search", "x" * (MAX_TOOL_OUTPUT_BYTES + 1))

        assert await refusal(large) == (TooLargeError, "too_large")


# --- webhooks --------------------------------------------------------------------------------------------------------


def hook() -> Webhook:
    return Webhook(
        name="builds",
        secret_env="SECRET",
        handler=lambda event: ToolEvent("s-1", event["call"], "deployed", event["build"]),
    )


async def test_a_webhooks_event_reaches_the_tool_once_however_often_it_is_sent() -> None:
    async with open_stage(deploying()) as stage:
        await until_it_waits_for_the_event(stage)
        event = {"call": CALL, "build": 7}

        first = await receive(stage.service, hook(), "e-1", event)
        again = await receive(stage.service, hook(), "e-1", event)
        await stage.run_all()

        assert first == again == {"result": "recorded"}
        assert (await stage.results())["deploy"] == ("succeeded", "web in eu: 7")


async def test_a_webhooks_event_for_a_call_that_is_over_is_ignored_and_for_none_an_error() -> None:
    async with open_stage(deploying()) as stage:
        await until_it_waits_for_the_event(stage)
        await stage.session().cancel_wait(CALL)

        assert await receive(stage.service, hook(), "e-1", {"call": CALL, "build": 7}) == {"ignored": True}
        never = receive(stage.service, hook(), "e-2", {"call": "call-9-9", "build": 7})
        assert await refusal(never) == (NotFoundError, "wait_not_found")
