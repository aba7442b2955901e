"""Approvals as signed parts of messages: nothing that was made up, changed or is over decides anything (APPR-10)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import ToolPolicy, function_tool
from perdure.core.entries import Actor
from perdure.errors import (
    ConfigurationError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    RequestConflictError,
    RequestError,
    UnauthorizedError,
)
from perdure.models.scripted import call
from perdure.service import LOCAL_CALLER, Caller, Service
from perdure.session import BoundService, Session
from perdure.signed_approvals import SECRET_NAME, secret_bytes, signature_of
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.desk import Desk, booking
from tests.unit.steps.builders import an_agent
from tests.unit.waiting import an_asker, calling

SECRET = "a secret that nobody else knows"
CALL = "call-2-0"
MADE_UP = "0" * 64


def session_of(stage: Stage, session_id: str = "s-1", *, secret: str | None = SECRET, tenant: str = "local") -> Session:
    who = Caller(tenant=tenant, actor=LOCAL_CALLER.actor)
    service = Service(stage.deps, approval_secret=secret, authorize=lambda *_: True)
    return Session(BoundService(service, who), session_id)


async def asked(stage: Stage, session_id: str = "s-1") -> Session:
    await stage.service.send_input(LOCAL_CALLER, session_id, text="go")
    await stage.run_all()
    return session_of(stage, session_id)


async def refusal(awaitable: Any) -> tuple[type[RequestError], str]:
    with pytest.raises(RequestError) as caught:
        await awaitable
    return type(caught.value), caught.value.code


def by_way_of_json(part: Any) -> Any:
    return json.loads(json.dumps(part))


async def test_an_open_approval_leaves_as_a_part_and_comes_back_as_a_decision() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"))) as stage:
        session = await asked(stage)

        part = await session.approval_request(CALL)
        (shown,) = (await stage.snapshot())["pending_interrupts"]
        assert {name: value for name, value in part.items() if name != "signature"} == {
            "type": "approval_request",
            "session_id": "s-1",
            "interrupt_id": CALL,
            "turn_id": "turn-1",
            "tool_call_id": CALL,
            "tool_name": "book",
            "arguments": {"room": "r1"},
            "arguments_hash": shown["arguments_hash"],
        }
        assert part == await session.approval_request(CALL)
        assert await session.approval_response(by_way_of_json(part), True, "go ahead") == {"result": "resolved"}
        await stage.run_all()

        assert desk.booked == ["r1"]
        (decided,) = [e["payload"] for e in await stage.events() if e["type"] == "interrupt_resolved"]
        assert (decided["approved"], decided["message"], decided["actor"]["subject"]) == (True, "go ahead", "local")


async def test_a_rejection_is_recorded_and_the_model_is_told() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"))) as stage:
        session = await asked(stage)

        await session.approval_response(await session.approval_request(CALL), False, "too large")
        await stage.run_all()

        assert desk.booked == []
        assert (await stage.results())["book"] == (
            "rejected",
            "Tool call denied by user. They wrote: too large",
        )


@pytest.mark.parametrize(
    "changed",
    [
        {"arguments": {"room": "r9"}},
        {"arguments": {"room": "r1", "also": True}},
        {"arguments_hash": MADE_UP},
        {"tool_name": "log_visit"},
        {"interrupt_id": "call-2-1"},
        {"tool_call_id": "call-2-1"},
        {"turn_id": "turn-2"},
        {"session_id": "s-2"},
        {"deadline": "2030-01-01T00:00:00.000Z"},
        {"signature": MADE_UP},
        {"signature": ""},
        {"signature": "ü\ud800"},
    ],
    ids=str,
)
async def test_a_part_that_was_changed_or_made_up_decides_nothing(changed: dict[str, Any]) -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"))) as stage:
        session = await asked(stage)
        part = await session.approval_request(CALL)

        for approved in (True, False):
            told = await refusal(session.approval_response(part | changed, approved))
            assert told == (UnauthorizedError, "unauthorized")

        assert len((await stage.snapshot())["pending_interrupts"]) == 1
        assert desk.booked == []


async def test_a_genuine_part_of_another_turn_or_other_arguments_is_stale() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"))) as stage:
        session = await asked(stage)
        part = await session.approval_request(CALL)

        for changed, code in (({"turn_id": "turn-9"}, "not_pending"), ({"arguments_hash": "0"}, "arguments_changed")):
            genuine = part | changed
            genuine |= {"signature": signature_of(secret_bytes(SECRET), "local", genuine)}
            assert await refusal(session.approval_response(genuine, True)) == (RequestConflictError, code)

        assert len((await stage.snapshot())["pending_interrupts"]) == 1


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "broken",
    [
        lambda part: None,
        lambda part: {},
        lambda part: part | {"type": "approval_response"},
        lambda part: part | {"arguments": "x"},
        lambda part: part | {"tool_name": 7},
        lambda part: part | {"deadline": 7},
        lambda part: part | {"approved": True},
        lambda part: {name: value for name, value in part.items() if name != "signature"},
        lambda part: part | {"arguments": {"room": float("nan")}},
        lambda part: part | {"arguments": {"room": {1, 2}}},
        lambda part: part | {"arguments": {"room": nested(100_000)}},
    ],
)
async def test_what_is_no_such_part_is_refused_as_that(broken: Callable[[Any], Any]) -> None:
    async with open_stage(Desk().agent(booking("r1"))) as stage:
        session = await asked(stage)
        part = await session.approval_request(CALL)

        told = await refusal(session.approval_response(broken(part), True))

        assert told == (InvalidRequestError, "invalid_request")
        assert len((await stage.snapshot())["pending_interrupts"]) == 1


async def test_a_part_counts_once_and_not_after_a_stop() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1", "r2"))) as stage:
        session = await asked(stage)
        first, second = [await session.approval_request(f"call-2-{index}") for index in (0, 1)]

        await session.approval_response(first, True, idempotency_key="k")
        again = await session.approval_response(first, True, idempotency_key="k")
        assert again == {"result": "resolved"}
        assert await refusal(session.approval_response(first, True)) == (RequestConflictError, "not_pending")
        assert await refusal(session.approval_request("call-2-0")) == (RequestConflictError, "not_pending")
        await stage.run_all()
        await session.stop()
        assert await refusal(session.approval_response(second, True)) == (RequestConflictError, "not_pending")
        assert await session.approval_response(first, True, idempotency_key="k") == again

        assert desk.booked == ["r1"]


async def test_a_deadline_is_part_of_it_and_holds() -> None:
    @function_tool(effect="non_idempotent_write")
    async def pay(amount: float) -> str:
        return "paid"

    policy = ToolPolicy(approval_deadline=timedelta(minutes=30))
    agent = an_agent(pay, model=calling(call("pay", amount=1)), tool_policies={"pay": policy})
    async with open_stage(agent) as stage:
        session = await asked(stage)
        part = await session.approval_request(CALL)
        assert part["deadline"] == (await stage.snapshot())["pending_interrupts"][0]["deadline"]

        await stage.clock.advance(31 * 60)

        assert await refusal(session.approval_response(part, True)) == (RequestConflictError, "deadline_passed")


async def test_a_part_that_went_through_javascript_is_the_same() -> None:
    @function_tool(effect="non_idempotent_write")
    async def pay(amount: float) -> str:
        return "paid"

    async with open_stage(an_agent(pay, model=calling(call("pay", amount=25.0)))) as stage:
        session = await asked(stage)
        part = await session.approval_request(CALL)
        assert repr(part["arguments"]["amount"]) == "25.0"

        as_javascript_has_it = dict(reversed((part | {"arguments": {"amount": 25}}).items()))

        assert await session.approval_response(as_javascript_has_it, True) == {"result": "resolved"}


async def test_a_part_is_of_its_session_its_tenant_and_its_secret() -> None:
    async with open_stage(Desk().agent(booking("r1"))) as stage:
        session = await asked(stage)
        other = await asked(stage, "s-2")
        part = await session.approval_request(CALL)

        assert await refusal(other.approval_response(part, True)) == (InvalidRequestError, "invalid_request")
        elsewhere = session_of(stage, tenant="elsewhere")
        assert (await refusal(elsewhere.approval_response(part, True)))[0] is UnauthorizedError
        newer = session_of(stage, secret="another secret of enough bytes")
        assert (await refusal(newer.approval_response(part, True)))[0] is UnauthorizedError
        assert (await newer.approval_request(CALL))["signature"] != part["signature"]


async def test_having_a_part_is_no_right_to_decide() -> None:
    async with open_stage(Desk().agent(booking("r1"))) as stage:
        part = await (await asked(stage)).approval_request(CALL)
        service = Service(
            stage.deps, approval_secret=SECRET, authorize=lambda _, operation, __: operation in ("read", "send")
        )
        viewer = Caller(tenant="local", actor=Actor(issuer="local", subject="viewer"))

        with pytest.raises(ForbiddenError):
            await service.approval_response(viewer, "s-1", part, approved=True)
        assert await service.approval_request(viewer, "s-1", CALL) == part


async def test_only_approvals_that_there_are_can_be_asked_for() -> None:
    async with open_stage(an_asker()) as stage:
        session = await asked(stage)

        assert await refusal(session.approval_request(CALL)) == (InvalidRequestError, "invalid_request")
        assert await refusal(session.approval_request("call-9-0")) == (NotFoundError, "interrupt_not_found")
        nowhere = session_of(stage, "s-9")
        assert await refusal(nowhere.approval_request(CALL)) == (NotFoundError, "interrupt_not_found")


async def test_without_a_secret_nothing_is_signed_and_a_short_one_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(SECRET_NAME, raising=False)
    async with open_stage(Desk().agent(booking("r1"))) as stage:
        part = await (await asked(stage)).approval_request(CALL)
        bare = session_of(stage, secret=None)

        with pytest.raises(ConfigurationError, match=SECRET_NAME):
            await bare.approval_request(CALL)
        with pytest.raises(ConfigurationError, match=SECRET_NAME):
            await bare.approval_response(part | {"signature": MADE_UP}, True)
        monkeypatch.setenv(SECRET_NAME, SECRET)
        assert await bare.approval_request(CALL) == part
    with pytest.raises(ConfigurationError, match="24 bytes"):
        perdure.open(tmp_path / "s.db", agents=[Desk().agent(booking())], approval_secret="x" * 23)
    perdure.open(tmp_path / "s.db", agents=[Desk().agent(booking())], approval_secret="x" * 24)


async def test_on_aws_the_secret_is_kept_with_those_of_the_webhooks() -> None:
    async with open_stage(Desk().agent(booking("r1"))) as stage:
        part = await (await asked(stage)).approval_request(CALL)

        service = Service(stage.deps, webhook_secret={SECRET_NAME: SECRET}.__getitem__)

        assert await service.approval_request(LOCAL_CALLER, "s-1", CALL) == part


def test_a_signature_does_not_change_between_versions() -> None:
    # Parts are out in the world while a deployment is replaced.
    part = {"type": "approval_request", "arguments": {"amount": 25.0, "to": "Zoë"}, "signature": "not signed"}

    assert signature_of(secret_bytes(SECRET), "acme", part) == (
        "59c7d078e3a2084d290ea1ca56b89054e0afebd1c358f40c0751260efc85d3aa"
    )
