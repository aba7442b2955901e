"""Why a session waits, and who or what ends it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure import ToolPolicy
from perdure.core.codec import format_time
from perdure.errors import NotFoundError
from perdure.models.scripted import call
from perdure.testing.fixtures import open_stage, redeployed
from tests.unit.desk import Desk, booking
from tests.unit.steps.builders import OTHER, Provider, an_agent, failing
from tests.unit.waiting import (
    WAIT,
    Remote,
    a_sleeper,
    an_asker,
    begun,
    calling,
    deploy,
    now,
    only_wait,
    operations,
    refusal,
    waits,
)


async def test_a_session_that_works_or_has_nothing_to_do_waits_for_nothing() -> None:
    async with open_stage(Desk().agent(booking("r1"))) as stage:
        assert await waits(stage) == []
        await stage.send("go")
        assert await waits(stage) == []


async def test_an_approval_is_told_with_who_may_give_it_and_until_when() -> None:
    policy = {"book": ToolPolicy(approval_deadline=timedelta(minutes=10))}
    async with open_stage(Desk().agent(booking("r1"), tool_policies=policy)) as stage:
        await begun(stage)

        (interrupt,) = (await stage.snapshot())["pending_interrupts"]
        shown = {"arguments_hash": interrupt["arguments_hash"]}
        path = f"/v1/sessions/s-1/interrupts/{WAIT}"
        assert await only_wait(stage) == {
            "kind": "approval",
            "id": WAIT,
            "since": now(stage),
            "until": now(stage, minutes=10),
            "title": "A person has to approve or reject book.",
            "unblocked_by": ["a person who may approve", "its time"],
            "tool_name": "book",
            "calls": [
                {"label": "approve", "operation": "resolve_interrupt", "method": "POST", "path": path,
                 "body": {"approved": True, **shown}},
                {"label": "reject", "operation": "resolve_interrupt", "method": "POST", "path": path,
                 "body": {"approved": False, **shown}},
                {"label": "wait until another time", "operation": "change_wait", "method": "PATCH",
                 "path": f"/v1/sessions/s-1/waits/{WAIT}", "body": {"until": "<RFC 3339 time>"}},
            ],
        }  # fmt: skip


async def test_f043_an_approval_that_this_deployment_cannot_run_can_only_be_rejected() -> None:
    async with open_stage(Desk().agent(booking("r1"), name="billing")) as stage:
        await begun(stage)

        wait = await only_wait(redeployed(stage, an_agent(name="other")))

        assert wait["blocked"] == "agent_missing"
        assert wait["unblocked_by"] == ["whoever runs the deployment", "a person who may approve"]
        assert [each["label"] for each in wait["calls"]] == ["reject", "wait until another time"]
        assert "blocked" not in await only_wait(stage)


async def test_a_question_is_told_with_its_choices() -> None:
    async with open_stage(an_asker("Which colour?", choices=["red", "green"], allows_free_text=False)) as stage:
        await begun(stage)

        wait = await only_wait(stage)

        assert (wait["kind"], wait["id"], wait["title"]) == ("question", WAIT, "A person has to answer: Which colour?")
        assert (wait["choices"], wait["allows_free_text"]) == (["red", "green"], False)
        bodies = [each.get("body") for each in wait["calls"]]
        assert bodies == [{"answer": "<answer>"}, {"approved": False}, {"until": "<RFC 3339 time>"}]
        assert "until" not in wait


async def test_a_long_question_is_told_by_its_beginning() -> None:
    async with open_stage(an_asker("Which\n" + "colour " * 500)) as stage:
        await begun(stage)

        title = (await only_wait(stage))["title"]

        assert title.startswith("A person has to answer: Which colour colour")
        assert len(title) < 350


async def test_a_durable_wait_is_told_with_its_reason_and_its_time() -> None:
    async with open_stage(a_sleeper(3600, reason="the shop opens at nine")) as stage:
        await begun(stage)

        wait = await only_wait(stage)

        assert (wait["kind"], wait["id"], wait["since"]) == ("timer", WAIT, now(stage))
        assert (wait["until"], wait["reason"]) == (now(stage, hours=1), "the shop opens at nine")
        assert wait["title"] == "The agent waits for its time to come: the shop opens at nine"
        assert operations(wait) == ["skip_wait", "change_wait", "cancel_wait"]


async def test_what_a_tool_asks_sleeps_for_and_awaits_is_told_one_after_the_other() -> None:
    async with open_stage(an_agent(deploy, model=calling(call("deploy", target="web")))) as stage:
        await begun(stage)
        await stage.run_all()
        asks = await only_wait(stage)
        await stage.session().answer(asks["id"], "eu")
        await stage.run_all()
        sleeps = await only_wait(stage)
        await stage.session().skip_wait(sleeps["id"])
        await stage.run_all()
        awaits = await only_wait(stage)

        assert (asks["kind"], asks["id"], asks["tool_name"]) == ("question", f"{WAIT}-input-1", "deploy")
        assert (sleeps["kind"], sleeps["id"], sleeps["name"]) == ("timer", WAIT, "cool-down")
        assert (awaits["kind"], awaits["name"]) == ("event", "deployed")
        assert awaits["unblocked_by"] == ["trusted code of the application", "a person who may control the session"]
        assert operations(awaits) == ["change_wait", "cancel_wait"]


@pytest.mark.parametrize(
    ("every", "may"), [(timedelta(minutes=1), ["cancel_wait"]),
                       (timedelta(hours=1), ["skip_wait", "change_wait", "cancel_wait"])]
)  # fmt: skip
async def test_remote_work_is_told_with_its_looks_and_when_the_next_one_is(every: timedelta, may: list[str]) -> None:
    async with open_stage(Remote(every).agent()) as stage:
        await begun(stage)
        await stage.run_next()
        begun_at = now(stage)

        wait = await only_wait(stage)

        assert (wait["kind"], wait["id"], wait["since"], wait["looks"]) == ("task", WAIT, begun_at, 0)
        assert wait["next_look_at"] == format_time(stage.clock.now() + every)
        assert operations(wait) == may


async def test_a_reconnect_that_is_put_off_is_told_with_its_time() -> None:
    async with open_stage(an_agent(name="support")) as stage:
        provider = Provider(stage.clock, failing("rate_limited", retry_after_seconds=300.0))
        retrying = redeployed(stage, an_agent(model=provider))
        await begun(retrying)

        wait = await only_wait(retrying)

        assert (wait["kind"], wait["id"]) == ("retry", "model-1-0")
        assert wait["until"] > wait["since"]
        assert operations(wait) == ["retry", "stop"]


async def test_pause_hold_and_close_are_told_with_what_ends_them() -> None:
    async with open_stage(an_agent(name="support")) as stage:
        broken = redeployed(stage, an_agent(model=Provider(stage.clock, failing("invalid", retryable=False))))
        await begun(broken)
        session = stage.session()
        await session.pause()
        await session.close()

        pause, hold, closed = await waits(stage)

        assert (pause["kind"], operations(pause)) == ("pause", ["resume"])
        assert (hold["kind"], operations(hold)) == ("hold", ["retry", "stop"])
        assert hold["title"].startswith("The latest turn failed (provider: ")
        assert (closed["kind"], closed["calls"]) == ("closed", [])
        assert all(wait["since"] == now(stage) for wait in (pause, hold, closed))


@pytest.mark.parametrize("kind", ["auth", "credits"])
async def test_a_model_that_refuses_its_credential_is_for_whoever_runs_the_deployment(kind: str) -> None:
    async with open_stage(an_agent(name="support")) as stage:
        broken = redeployed(stage, an_agent(model=Provider(stage.clock, failing(kind, retryable=False))))
        await begun(broken)

        wait = await only_wait(broken)

        assert wait["kind"] == kind
        assert wait["unblocked_by"][0] == "whoever runs the deployment"


async def test_everything_that_is_open_is_told_at_once() -> None:
    desk = Desk()
    model = calling(call("ask_user", question="?"), call("book", room="r1"), call("durable_wait", duration_seconds=60))
    async with open_stage(desk.agent(model, built_in_tools=["ask_user", "durable_wait"])) as stage:
        await begun(stage)

        assert {wait["kind"] for wait in await waits(stage)} == {"question", "approval", "timer"}


async def test_nobody_learns_what_a_session_of_somebody_else_waits_for() -> None:
    async with open_stage(an_asker()) as stage:
        await begun(stage)

        assert await refusal(stage.service.waits(OTHER, "s-1")) == (NotFoundError, "session_not_found")


async def test_a_call_that_is_told_does_what_it_says() -> None:
    async with open_stage(a_sleeper()) as stage:
        await begun(stage)
        skip = next(each for each in (await only_wait(stage))["calls"] if each["operation"] == "skip_wait")

        assert skip["path"].endswith(f"/waits/{WAIT}/skip")
        assert (skip["method"], skip["body"]) == ("POST", {})
