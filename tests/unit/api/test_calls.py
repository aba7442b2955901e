"""The operations of the specification's table with what each refuses (API-01), and that none waits (API-06)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.api.builders import Api, Desk, code

SESSION = "/v1/sessions/s-1"
APPROVAL = f"{SESSION}/interrupts/call-2-0"


@pytest.fixture
async def waiting(api: Api) -> Api:
    """A session that waits for the approval of a refund, with a message behind it."""
    assert await api.refund_that_waits("s-1") == "call-2-0"
    await api.post(f"{SESSION}/inputs", {"text": "next", "message_id": "m-2"})
    return api


REFUSED: list[tuple[str, str, Any, tuple[int, str]]] = [
    ("POST", f"{SESSION}/inputs", {"text": " \n"}, (400, "invalid_request")),
    ("POST", f"{SESSION}/inputs", {"text": "plan it", "plan_mode": True}, (400, "invalid_request")),
    ("POST", f"{SESSION}/inputs", {"text": " ", "delivery": "steer"}, (400, "invalid_request")),
    ("POST", f"{SESSION}/inbox/m-9/deliver", {"delivery": "steer"}, (404, "message_not_found")),
    ("POST", f"{SESSION}/inbox/m-1/deliver", {"delivery": "steer"}, (409, "already_delivered")),
    ("DELETE", f"{SESSION}/inbox/m-9", None, (404, "message_not_found")),
    ("DELETE", f"{SESSION}/inbox/m-1", None, (409, "already_delivered")),
    ("POST", f"{SESSION}/interrupts/call-9-0", {"approved": True}, (404, "interrupt_not_found")),
    ("POST", APPROVAL, {"answer": "yes"}, (400, "invalid_request")),
    ("POST", APPROVAL, {"approved": True, "answer": "yes"}, (400, "invalid_request")),
    ("POST", APPROVAL, {"approved": True, "arguments_hash": "0" * 64}, (409, "arguments_changed")),
    ("PUT", f"{SESSION}/settings", None, (400, "invalid_request")),
    ("PUT", f"{SESSION}/settings", {"x": "y" * 17_000}, (400, "invalid_request")),
    ("PUT", "/v1/sessions/new/settings", {}, (404, "session_not_found")),
    ("POST", "/v1/sessions/new/stop", {}, (404, "session_not_found")),
]


@pytest.mark.parametrize(("method", "path", "body", "error"), REFUSED)
async def test_what_an_operation_refuses_changes_nothing(
    api: Api, method: str, path: str, body: Any, error: tuple[int, str]
) -> None:
    await api.post(f"{SESSION}/inputs", {"text": "refund order 7", "message_id": "m-1"})
    await api.until("s-1", "interrupt_raised")
    await api.post(f"{SESSION}/inputs", {"text": "next", "message_id": "m-2"})
    before = await api.everything("s-1")

    reply = await api.command(method, path, b"null" if body is None and method == "PUT" else body)

    assert code(reply) == error
    assert await api.everything("s-1") == before


async def test_what_an_operation_finds_is_told(waiting: Api) -> None:
    async def result(path: str, body: Any) -> Any:
        status, reply = await waiting.post(f"{SESSION}/{path}", body)
        assert status == 200, reply
        return reply.get("result", reply.get("delivered_as"))

    assert await result("stop", {"turn_id": "turn-9"}) == "other_turn"
    assert await result("inbox/m-2/deliver", {"delivery": "steer"}) == "steer"
    await waiting.until("s-1", "turn_completed")
    assert await result("stop", {"turn_id": "turn-2"}) == "too_late"
    assert await result("stop", {}) == "idle"
    assert (await waiting.get("/v1/sessions/new"))[1]["state"] is None
    assert code(await waiting.post(APPROVAL, {"approved": True})) == (409, "not_pending")


async def test_no_control_waits_for_a_model_call_and_none_waits_for_another(api: Api, desk: Desk) -> None:
    """The model thinks until the gate opens, which it does not before all have been answered."""
    await api.post(f"{SESSION}/inputs", {"text": "think"})
    for number in range(4):
        await api.post(f"{SESSION}/inputs", {"text": "wait", "message_id": f"m-{number}"})

    async with asyncio.timeout(10):
        replies = await asyncio.gather(
            api.post(f"{SESSION}/inputs", {"text": "steer", "delivery": "steer"}),
            api.post(f"{SESSION}/inbox/m-0/deliver", {"delivery": "steer"}),
            api.command("DELETE", f"{SESSION}/inbox/m-1"),
            api.command("PATCH", f"{SESSION}/inbox/m-2", {"text": "wait longer"}),
            api.command("PUT", f"{SESSION}/settings", {"approval_mode": "ask"}),
            api.get(SESSION),
            api.post(f"{SESSION}/stop", {"turn_id": "turn-1"}),
        )

    assert [status for status, _ in replies] == [202, 200, 200, 200, 200, 200, 200]
    assert not desk.gate.is_set()
    assert replies[-1][1] == {"result": "recorded"}
    await api.until("s-1", "turn_cancelled")
    desk.gate.set()
