"""Who has no token: another system that signs its events, and a browser that asks what a page may do."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import httpx
import pytest

from perdure.webhooks import signature
from tests.e2e.outside import HOOK_SECRET, PAGE
from tests.e2e.people import User, ended, last_text
from tests.e2e.world import World

SECRET = base64.b64decode(HOOK_SECRET.removeprefix("whsec_"))
PARCEL = {"parcel": 12, "text": 'call lookup_order {"order_id": "7"}'}


def nobody(world: World) -> User:
    return User(world.stack, world.outside, "")


async def told(world: World, event: Any, *, secret: bytes = SECRET, event_id: str = "evt-1") -> httpx.Response:
    """Send an event as the parcel service does."""
    body, at = json.dumps(event).encode(), int(time.time())
    headers = {
        "content-type": "application/json",
        "webhook-id": event_id,
        "webhook-timestamp": str(at),
        "webhook-signature": signature(secret, event_id, at, body),
    }
    async with nobody(world).http() as http:
        return await http.post("/v1/hooks/parcels", content=body, headers=headers)


# --- webhooks ----------------------------------------------------------------------------------------------------


async def test_a_signed_event_starts_a_turn_that_its_owner_sees_and_comes_again_as_the_same_message(
    world: World,
) -> None:
    first = await told(world, PARCEL)
    again = await told(world, PARCEL)
    async with world.user().session("parcel-12") as session:
        snapshot = await ended(session)

    assert [first.status_code, again.status_code] == [202, 202], first.text
    assert [first.json()["duplicate"], again.json()["duplicate"]] == [False, True]
    assert first.json()["message_id"] == again.json()["message_id"]
    assert "walking boots" in last_text(snapshot)
    assert snapshot["messages"][0]["role"] == "user"
    assert snapshot["state"]["turn_count"] == 1


async def test_an_event_that_nobody_with_the_secret_has_signed_changes_nothing(world: World) -> None:
    guessed = await told(world, PARCEL | {"parcel": 13}, secret=b"somebody has guessed this one")
    async with nobody(world).http() as http:
        unsigned = await http.post("/v1/hooks/parcels", json=PARCEL | {"parcel": 13})
        unknown = await http.post("/v1/hooks/letters", json=PARCEL)
    async with world.user().session("parcel-13") as session:
        snapshot = await session.snapshot()

    assert [guessed.status_code, unsigned.status_code, unknown.status_code] == [401, 401, 404]
    assert snapshot["state"] is None


def test_the_secret_is_in_no_functions_configuration(world: World) -> None:
    functions = world.stack.client("lambda")
    variables = {
        name: functions.get_function_configuration(FunctionName=world.stack.ids[name])["Environment"]["Variables"]
        for name in world.stack.template.functions
    }

    assert not any(HOOK_SECRET in json.dumps(given) for given in variables.values())
    assert [name for name, given in variables.items() if given.get("WEBHOOK_SECRETS_ARN")] == ["ApiFunction"]


# --- pages -------------------------------------------------------------------------------------------------------


@pytest.fixture
def allowed(world: World) -> dict[str, Any]:
    """Return what the stack allows pages to do.

    The emulator keeps it in the template's spelling and looks for that of the API, so it is told again.
    """
    gateway, api = world.stack.client("apigatewayv2"), world.stack.ids["HttpApi"]
    _, wanted, _ = world.stack.template.resources["HttpApi"]["Properties"]["CorsConfiguration"]["Fn::If"]
    resolved = wanted | {"AllowOrigins": [PAGE, "http://localhost:5173"]}
    gateway.update_api(ApiId=api, CorsConfiguration=resolved)
    return dict(gateway.get_api(ApiId=api)["CorsConfiguration"])


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_a_preflight_of_an_allowed_page_needs_no_token(
    world: World, allowed: dict[str, Any], method: str
) -> None:
    asked = {"origin": PAGE, "access-control-request-method": method}
    async with nobody(world).http() as http:
        reply = await http.options(
            "/v1/sessions/t1/inputs",
            headers=asked | {"access-control-request-headers": "authorization,content-type,idempotency-key"},
        )

    may = {name: set(reply.headers[f"access-control-allow-{name}"].split(",")) for name in ("methods", "headers")}
    assert reply.status_code in (200, 204)
    assert reply.headers["access-control-allow-origin"] == PAGE
    assert method in may["methods"]
    assert may["headers"] == {"authorization", "content-type", "idempotency-key"}
    assert int(reply.headers["access-control-max-age"]) == allowed["MaxAge"]


async def test_a_page_of_another_origin_gets_no_leave(world: World, allowed: dict[str, Any]) -> None:
    async with world.user().http() as http:
        asked = {"origin": "https://elsewhere.example", "access-control-request-method": "POST"}
        preflight = await http.options("/v1/sessions/t1/inputs", headers=asked)
        read = await http.get("/v1/sessions", headers={"origin": "https://elsewhere.example"})
        ours = await http.get("/v1/sessions", headers={"origin": PAGE})

    assert "access-control-allow-origin" not in preflight.headers
    assert "access-control-allow-origin" not in read.headers
    assert ours.headers["access-control-allow-origin"] == PAGE
    assert "access-control-allow-credentials" not in ours.headers, "tokens, no cookies"
