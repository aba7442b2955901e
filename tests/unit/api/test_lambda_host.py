"""The API behind API Gateway: the same routes, and callers by verified claims only."""

import asyncio
import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from perdure._version import __version__
from perdure.api.lambda_host import MAX_RESPONSE_BYTES, Handler, api_handler
from perdure.core.entries import Actor
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.service import Caller
from tests.unit.api.builders import Desk

CLAIMS = {"iss": "https://issuer.example.com/", "sub": "user-7", "tenant": "acme", "org": "umbrella"}


def an_event(
    method: str = "GET", path: str = "/v1/sessions/s-1", body: Any = None, *, query: str = "", **changes: Any
) -> dict[str, Any]:
    return {
        "version": "2.0",
        "routeKey": "ANY /v1/{proxy+}",
        "rawPath": path,
        "rawQueryString": query,
        "headers": {"content-type": "application/json", "idempotency-key": "k-1"},
        "requestContext": {
            "authorizer": {"jwt": {"claims": CLAIMS, "scopes": None}},
            "http": {"method": method, "path": path, "sourceIp": "203.0.113.7"},
            "stage": "$default",
        },
        "body": None if body is None else json.dumps(body),
        "isBase64Encoded": False,
    } | changes


def with_claims(event: dict[str, Any], claims: dict[str, Any] | None) -> dict[str, Any]:
    changed = copy.deepcopy(event)
    if claims is None:
        del changed["requestContext"]["authorizer"]
    else:
        changed["requestContext"]["authorizer"]["jwt"]["claims"] = claims
    return changed


class Recording:
    """A service that answers anything and remembers who asked for what."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Caller, tuple[Any, ...], dict[str, Any]]] = []
        self.reply: dict[str, Any] = {"ok": True}

    def __getattr__(self, name: str) -> Any:
        async def record(caller: Caller, *args: Any, **arguments: Any) -> dict[str, Any]:
            self.calls.append((name, caller, args, arguments))
            return self.reply

        return record


@pytest.fixture
def service() -> Recording:
    return Recording()


@pytest.fixture
def handler(service: Any) -> Handler:
    return api_handler(lambda: service)


def told(response: dict[str, Any]) -> tuple[int, str]:
    return response["statusCode"], json.loads(response["body"])["error"]["code"]


def test_the_caller_is_who_the_verified_claims_name(handler: Handler, service: Recording) -> None:
    response = handler(an_event("POST", "/v1/sessions/s-1/inputs", {"text": "hi"}), None)

    (name, caller, args, arguments), *rest = service.calls
    assert response["statusCode"] == 202
    assert (name, args, rest) == ("send_input", ("s-1",), [])
    assert caller == Caller(tenant="acme", actor=Actor(issuer=CLAIMS["iss"], subject="user-7"))
    assert (arguments["text"], arguments["idempotency_key"]) == ("hi", "k-1")


def test_the_tenant_claim_has_the_name_that_was_configured(service: Any) -> None:
    handler = api_handler(lambda: service, tenant_claim="org")

    handler(an_event(), None)

    assert service.calls[0][1].tenant == "umbrella"


@pytest.mark.parametrize(
    "claims",
    [{**CLAIMS, "tenant": ""}, {**CLAIMS, "tenant": " "}, {**CLAIMS, "sub": ""}, {**CLAIMS, "tenant": 7}]
    + [{name: value for name, value in CLAIMS.items() if name != missing} for missing in ("tenant", "iss", "sub")],
)
def test_a_token_without_a_tenant_or_subject_is_forbidden(
    handler: Handler, service: Recording, claims: dict[str, Any]
) -> None:
    assert told(handler(with_claims(an_event(), claims), None)) == (403, "forbidden")
    assert service.calls == []


def test_without_an_authorizer_nobody_is_known(handler: Handler, service: Recording) -> None:
    assert told(handler(with_claims(an_event(), None), None)) == (401, "unauthorized")
    assert service.calls == []


def test_a_body_or_header_never_names_the_tenant(handler: Handler, service: Recording) -> None:
    event = an_event("POST", "/v1/sessions/s-1/inputs", {"text": "hi", "tenant": "other"})

    assert told(handler(event, None)) == (400, "invalid_request")
    assert service.calls == []


def test_health_needs_no_token(handler: Handler) -> None:
    response = handler(with_claims(an_event(path="/healthz"), None), None)

    assert (response["statusCode"], json.loads(response["body"])) == (
        200,
        {"status": "ok", "version": __version__},
    )


def test_a_body_may_come_as_base64(handler: Handler, service: Recording) -> None:
    text = "\u00e9\x00\U0001f600"
    body = base64.b64encode(json.dumps({"text": text}, ensure_ascii=False).encode()).decode()

    handler(an_event("POST", "/v1/sessions/s-1/inputs", isBase64Encoded=True) | {"body": body}, None)

    assert service.calls[0][3]["text"] == text


@pytest.mark.parametrize("body", ["", "{", "\x00", '{"text": "\\ud800"}'])
def test_a_bad_body_is_refused(handler: Handler, service: Recording, body: str) -> None:
    status, _ = told(handler(an_event("POST", "/v1/sessions/s-1/inputs") | {"body": body}, None))

    assert status == 400
    assert service.calls == []


def test_a_path_under_a_stage_is_the_same_route(handler: Handler, service: Recording) -> None:
    event = an_event(path="/prod/v1/sessions/s-1/events", query="limit=5&wait_seconds=2")
    event["requestContext"]["stage"] = "prod"

    response = handler(event, None)

    assert response["statusCode"] == 200
    assert service.calls[0][0] == "events"
    assert service.calls[0][3] == {"limit": 5, "wait_seconds": 2.0}


def test_a_preflight_is_let_through_and_asks_the_service_for_nothing(handler: Handler, service: Recording) -> None:
    """API Gateway adds what the stack allows; a status that is no success would make browsers give up."""
    reply = handler(an_event("OPTIONS", "/v1/sessions/case-42/inputs"), None)

    assert (reply["statusCode"], reply["body"]) == (204, "")
    assert not service.calls


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/nothing"), ("DELETE", "/v1/sessions/s-1"), ("GET", "/")])
def test_a_missing_route_has_our_envelope(handler: Handler, method: str, path: str) -> None:
    assert told(handler(an_event(method, path), None)) == (404, "not_found")


def test_events_are_polled_not_streamed(handler: Handler) -> None:
    event = an_event(path="/v1/sessions/s-1/events")
    event["headers"]["accept"] = "text/event-stream"

    assert told(handler(event, None)) == (400, "invalid_request")


def test_a_ticket_is_issued_for_the_verified_caller(service: Any) -> None:
    async def issue(caller: Caller) -> dict[str, Any]:
        return {"ticket": caller.tenant}

    response = api_handler(lambda: service, tickets=issue)(an_event("POST", "/v1/socket-tickets"), None)

    assert (response["statusCode"], json.loads(response["body"])) == (200, {"ticket": "acme"})


def test_an_answer_that_lambda_can_not_return_says_what_to_do(handler: Handler, service: Recording) -> None:
    service.reply = {"messages": "x" * MAX_RESPONSE_BYTES}

    response = handler(an_event(path="/v1/sessions/s-1/messages"), None)

    assert told(response) == (413, "too_large")
    assert "limit" in response["body"]


def test_the_service_is_made_at_the_first_request_and_on_one_loop() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    class Looping(Recording):
        def __getattr__(self, name: str) -> Any:
            loops.append(asyncio.get_running_loop())
            return super().__getattr__(name)

    def never() -> Any:
        raise AssertionError("made before it was needed")

    made: Any = Looping
    api_handler(never)
    handler = api_handler(made)
    handler(an_event(), None)
    handler(an_event(), None)

    assert loops[0] is loops[1]


async def test_a_real_turn_runs_behind_the_gateway(tmp_path: Path) -> None:
    async with EmbeddedRuntime(tmp_path / "s.db", Desk().agents()) as runtime:
        loop = asyncio.get_running_loop()
        handler = api_handler(
            lambda: runtime.service, run=lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(30)
        )

        sent = await asyncio.to_thread(handler, an_event("POST", "/v1/sessions/s-1/inputs", {"text": "a\u2028b"}), None)
        again = await asyncio.to_thread(
            handler, an_event("POST", "/v1/sessions/s-1/inputs", {"text": "a\u2028b"}), None
        )

        assert json.loads(sent["body"])["duplicate"] is False
        assert json.loads(again["body"]) == {**json.loads(sent["body"]), "duplicate": True}
        page = await asyncio.to_thread(handler, an_event(path="/v1/sessions/s-1/messages"), None)
        assert json.loads(page["body"])["messages"][0]["parts"][0]["text"] == "a\u2028b"
