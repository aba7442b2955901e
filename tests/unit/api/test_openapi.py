"""The OpenAPI document is valid, complete, and what the service answers fits its schemas."""

from datetime import UTC, datetime
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel

from perdure.api import agent_shapes, event_shapes, result_shapes, shapes, state_shapes
from perdure.api.messages import json_bytes
from perdure.api.openapi import document
from perdure.api.payload_shapes import PAYLOADS
from perdure.api.routes import ROUTES
from perdure.core.head import Head, StopMarker, Turn
from perdure.core.public import public_state
from tests.unit.api.builders import Api, Desk


def operations(doc: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["operationId"]: item for path in doc["paths"].values() for item in path.values()}


@pytest.mark.parametrize("tickets", [True, False])
def test_the_document_is_valid_openapi(tickets: bool) -> None:
    doc = document(tickets=tickets)

    OpenAPIV31SpecValidator(doc).validate()
    assert doc["openapi"] == "3.1.0"


def test_every_route_of_the_table_is_described_once() -> None:
    described = {
        (method.upper(), path, item["operationId"])
        for path, methods in document(tickets=True)["paths"].items()
        for method, item in methods.items()
    }

    assert described == {(route.method, route.path, route.operation) for route in ROUTES}


async def test_a_route_that_the_host_has_not_is_left_out(api: Api) -> None:
    _, doc = await api.get("/openapi.json")

    assert "/v1/socket-tickets" not in doc["paths"]
    assert doc == document(tickets=False)


def test_every_private_operation_tells_its_errors_in_one_shape() -> None:
    for name, operation in operations(document(tickets=True)).items():
        if name in ("get_health", "get_openapi"):
            continue
        assert {"400", "401", "403", "500", "503"} <= set(operation["responses"])
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert response["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}


def test_bodies_allow_no_other_fields_and_no_null() -> None:
    schemas = document(tickets=True)["components"]["schemas"]

    assert schemas["InputBody"]["additionalProperties"] is False
    assert schemas["InputBody"]["required"] == ["text"]
    assert schemas["InputBody"]["properties"]["agent"]["type"] == "string"
    assert schemas["InterruptBody"]["oneOf"] == [{"required": [name]} for name in ("approved", "answer", "value")]


def fits(shape: type[BaseModel], reply: Any) -> None:
    """Check that a shape takes a reply and knows all of its fields, and that nothing absent is null."""
    known = shape.model_validate_json(json_bytes(reply)).model_dump(mode="json", exclude_unset=True)
    assert _names(known) == _names(reply)


def _names(value: Any) -> Any:
    """Return a value with everything but field names, numbers and nesting blotted out."""
    if isinstance(value, dict):
        return {name: _names(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_names(item) for item in value]
    return type(value).__name__


async def test_what_the_service_answers_is_what_the_document_says(api: Api, desk: Desk) -> None:
    _, unwritten = await api.get("/v1/sessions/s-1")
    interrupt_id = await api.refund_that_waits("s-1")
    _, receipt = await api.post("/v1/sessions/s-1/inputs", {"text": "hello", "metadata": {"a": None}})
    _, waiting = await api.get("/v1/sessions/s-1")
    _, inbox = await api.get("/v1/sessions/s-1/inbox")
    _, sessions = await api.get("/v1/sessions")
    _, agents = await api.get("/v1/agents")
    _, resolution = await api.post(f"/v1/sessions/s-1/interrupts/{interrupt_id}", {"approved": True})
    await api.until("s-1", "turn_completed", receipt["cursor"])
    _, stop = await api.post("/v1/sessions/s-1/stop", {"turn_id": "turn-1"})
    _, done = await api.get("/v1/sessions/s-1")
    _, messages = await api.get("/v1/sessions/s-1/messages?limit=3")
    _, events = await api.get("/v1/sessions/s-1/events")

    assert waiting["pending_interrupts"]
    assert inbox["entries"]
    assert messages["next_before"]
    for snapshot in (unwritten, waiting, done):
        fits(shapes.Snapshot, snapshot)
    fits(shapes.Receipt, receipt)
    fits(shapes.Inbox, inbox)
    fits(shapes.SessionPage, sessions)
    fits(agent_shapes.Agents, agents)
    fits(result_shapes.Resolution, resolution)
    fits(shapes.StopResult, stop)
    fits(shapes.MessagePage, messages)
    fits(event_shapes.EventPage, events)


def fit_their_types(events: list[dict[str, Any]]) -> None:
    """Check that the document knows the type and every field of the payload of some events."""
    for event in events:
        fits(PAYLOADS[event["type"]], event["payload"])


def test_the_document_tells_the_payload_of_every_type_of_event() -> None:
    schemas = document(tickets=True)["components"]["schemas"]

    payloads = schemas["Event"]["x-payloads"]
    assert set(payloads) == set(event_shapes.EventTypes)
    assert {ref["$ref"].rpartition("/")[2] for ref in payloads.values()} <= set(schemas)


async def test_a_long_transcript_and_a_turn_that_is_being_stopped_fit_as_well(api: Api) -> None:
    for _ in range(26):
        _, receipt = await api.post("/v1/sessions/s-1/inputs", {"text": "hi"})
        await api.until("s-1", "turn_completed", receipt["cursor"])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    turn = Turn(
        turn_id="turn-1", opened_version=1, first_sequence=1, message_id="m", started_at=now, stop=StopMarker(at=now)
    )

    _, snapshot = await api.get("/v1/sessions/s-1")
    stopping = public_state(Head(version=1, agent="support", created_at=now, turn=turn))

    assert len(snapshot["messages"]) == 50
    assert "next_before" in snapshot
    fits(shapes.Snapshot, snapshot)
    fits(state_shapes.State, stopping)


async def test_events_have_types_that_the_document_names(api: Api) -> None:
    interrupt_id = await api.refund_that_waits("s-1")
    await api.post(f"/v1/sessions/s-1/interrupts/{interrupt_id}", {"approved": False, "message": "not today"})
    await api.until("s-1", "turn_completed")

    _, page = await api.get("/v1/sessions/s-1/events")

    fit_their_types(page["events"])
    assert [event["sequence"] for event in page["events"]] == list(range(1, len(page["events"]) + 1))
