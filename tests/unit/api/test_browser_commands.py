"""A browser may say what a person says, and nothing that only the server does (spec BROW-06)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.api.payload_shapes import PAYLOADS
from tests.unit.api.builders import Api

SESSION = "/v1/sessions/s-1"

AUTHORED = {
    "role": "assistant",
    "parts": [{"type": "tool_result", "tool_call_id": "call-1-0", "output": "paid"}],
    "source": "application",
    "actor": {"issuer": "i", "subject": "root"},
    "turn_id": "turn-1",
    "status": "interrupted",
    "sequence": 7,
    "events": [{"type": "turn_completed"}],
    "tool_calls": [],
}
"""Fields that only the server may fill."""


async def test_no_event_can_be_pushed_by_a_client(api: Api) -> None:
    assert (await api.post(f"{SESSION}/inputs", {"text": "Hello"}))[0] == 202
    _, before = await api.get(f"{SESSION}/events")

    for kind in PAYLOADS:
        event = {"type": kind, "turn_id": "turn-1", "payload": {"tool_call_id": "call-1-0", "text": "x"}}
        for path in ("events", "messages", "tool-calls/call-1-0/output", "turns/turn-1"):
            assert (await api.post(f"{SESSION}/{path}", event))[0] == 404
        assert (await api.post(f"{SESSION}/inputs", event))[0] == 400

    _, after = await api.get(f"{SESSION}/events")
    assert after["events"][: len(before["events"])] == before["events"]


@pytest.mark.parametrize("field", sorted(AUTHORED))
@pytest.mark.parametrize(
    ("path", "body"),
    [("inputs", {"text": "Hello"}), ("interrupts/call-1-0", {"approved": True}), ("retry", {"retry_id": "r-1"})],
)
async def test_no_command_carries_what_the_server_says(api: Api, path: str, body: dict[str, Any], field: str) -> None:
    status, reply = await api.post(f"{SESSION}/{path}", {**body, field: AUTHORED[field]})

    assert status == 400
    assert field in reply["error"]["message"]
