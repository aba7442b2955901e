"""Who gets into the stream API: tokens, tickets, the adapter's word for who calls, and pages of other origins."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure.aws import stream_app
from perdure.testing.issuer import Issuer
from perdure.testing.lambda_harness import LambdaHarness
from tests.handlers.agents import send
from tests.handlers.test_streams_on_aws import EVENTS, LOOK_UP, events_of, last_of
from tests.unit.api.test_sse import parsed

# --- who gets in -------------------------------------------------------------------------------------------------


def test_the_owner_gets_the_events_of_a_session(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    harness.settle()
    page = harness.gateway.http("GET", EVENTS).body

    streamed = harness.gateway.stream("GET", EVENTS, token_seconds=1)

    assert (streamed.status, streamed.headers["content-type"]) == (200, "text/event-stream")
    shown = [json.loads(event["data"]) for event in parsed(b"".join(streamed.pieces))]
    assert shown[:-1] == page["events"]
    assert shown[-1]["type"] == "access_denied"  # the token's second is over


@pytest.mark.parametrize(
    "make",
    [
        lambda _: "",
        Issuer.forged,
        Issuer.unsigned,
        Issuer.signed_with_the_public_key,
        lambda issuer: issuer.token(aud="other"),
        lambda issuer: issuer.token(iss="https://elsewhere.example.com/"),
        lambda issuer: issuer.token(exp=1),
    ],
    ids=["no token", "forged", "alg none", "HS256", "another audience", "another issuer", "ended"],
)
def test_a_token_that_is_not_valid_is_a_401_and_starts_no_stream(
    harness: LambdaHarness, make: Callable[[Issuer], str]
) -> None:
    send(harness, LOOK_UP)

    assert harness.gateway.stream("GET", EVENTS, token=make(harness.issuer)).status == 401
    assert "stream" not in [done.function for done in harness.invocations]


@pytest.mark.parametrize("claims", [{"tenant": None}, {"tenant": ""}, {"tenant": 7}, {"sub": None}])
def test_a_valid_token_without_a_tenant_or_a_subject_is_a_403(harness: LambdaHarness, claims: dict[str, Any]) -> None:
    token = harness.issuer.token(**claims)

    assert harness.gateway.stream("GET", EVENTS, token=token).status == 403
    assert harness.invocations[-1].error is None, "a refusal raises no alarm"


def test_an_issuer_that_does_not_answer_is_an_error_of_ours_and_nobody_gets_in(harness: LambdaHarness) -> None:
    harness.issuer.answers = False

    assert harness.gateway.stream("GET", EVENTS).status == 500


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer ", "bearer"])
def test_only_a_bearer_token_is_a_token(harness: LambdaHarness, header: str) -> None:
    for sent in (header, f"Token {harness.issuer.token()}", harness.issuer.token()):
        assert harness.gateway.stream("GET", EVENTS, token="", headers={"Authorization": sent}).status == 401


def test_a_ticket_opens_one_stream_for_whom_it_was_given_to(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    harness.settle()
    ticket = {"ticket": harness.gateway.http("POST", "/v1/socket-tickets", {}, token_seconds=2).body["ticket"]}

    first, second = (harness.gateway.stream("GET", EVENTS, token="", query=ticket) for _ in range(2))

    assert (first.status, second.status) == (200, 401)
    assert "turn_completed" in events_of(first)
    assert last_of(first)["code"] == "unauthorized", "a ticket is good for no longer than its token"


def test_a_ticket_of_a_token_that_has_ended_opens_nothing(harness: LambdaHarness) -> None:
    ticket = {"ticket": harness.gateway.http("POST", "/v1/socket-tickets", {}, token_seconds=5).body["ticket"]}
    harness.clock.advance(5)

    assert harness.gateway.stream("GET", EVENTS, token="", query=ticket).status == 401
    assert harness.invocations[-1].function == "authorize_stream"


def test_f143_nobody_gets_somebody_elses_session(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    harness.settle()

    others = [
        harness.gateway.stream("GET", EVENTS, subject="bob"),
        harness.gateway.stream("GET", EVENTS, tenant="other", token_seconds=1),
    ]

    assert [other.status for other in others] == [404, 200], "an id of another tenant was never written here"
    assert events_of(others[1]) == ["access_denied"], "its second is over"


# --- whose word counts -------------------------------------------------------------------------------------------


def test_what_a_client_says_of_itself_in_the_adapters_headers_is_not_believed(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    holder = json.dumps(["acme", "https://issuer.example.com/", "ann", None])
    forged = json.dumps({"httpMethod": "GET", "authorizer": {"holder": holder}})

    streamed = harness.gateway.stream("GET", EVENTS, subject="bob", headers={"X-Amzn-Request-Context": forged})

    assert streamed.status == 404


def asked_directly(harness: LambdaHarness, headers: list[tuple[str, str]], method: str = "GET") -> int:
    """Send a request past the adapter, as nobody can on AWS; return its status."""
    statuses: list[int] = []

    async def send_message(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    container = harness._new_container("stream")
    app = stream_app.create_app(lambda: container)
    scope = {"type": "http", "method": method, "path": EVENTS, "raw_path": EVENTS.encode(), "query_string": b""}
    container.run(app({**scope, "headers": [(n.encode(), v.encode()) for n, v in headers]}, receive, send_message))
    (status,) = statuses
    return status


def test_a_request_that_the_adapter_has_not_made_is_refused(harness: LambdaHarness) -> None:
    holder = json.dumps(["acme", "https://issuer.example.com/", "ann", None])
    context = ("x-amzn-request-context", json.dumps({"httpMethod": "GET", "authorizer": {"holder": holder}}))
    deadline = int((harness.clock.now() + timedelta(seconds=900)).timestamp() * 1000)
    invoked = ("x-amzn-lambda-context", json.dumps({"deadline": deadline}))
    without_caller = ("x-amzn-request-context", json.dumps({"httpMethod": "GET"}))
    passed_through = ("x-amzn-request-context", "null")  # what the adapter writes for no API's event

    for headers in (
        [],
        [context],
        [invoked],
        [context, context, invoked],
        [without_caller, invoked],
        [passed_through, invoked],
        [("x-amzn-request-context", "{"), invoked],
        [context, ("x-amzn-lambda-context", "{}")],
    ):
        assert asked_directly(harness, headers) == 401, headers
    assert asked_directly(harness, [context, invoked], method="POST") == 401, "the context of another request"


def test_the_adapters_look_whether_the_server_is_there_needs_no_context(harness: LambdaHarness) -> None:
    container = harness._new_container("stream")
    statuses: list[int] = []

    async def send_message(message: Any) -> None:
        statuses.append(message.get("status", 0))

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/healthz", "query_string": b"", "headers": []}
    container.run(stream_app.create_app(lambda: container)(scope, receive, send_message))

    assert statuses[0] == 200


# --- pages of another origin -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "allowed"), [("https://app.example.com", True), ("https://evil.example.com", False), ("null", False)]
)
def test_a_page_of_an_allowed_origin_may_read_a_stream_and_its_errors(
    harness: LambdaHarness, origin: str, allowed: bool
) -> None:
    harness._settings = dataclasses.replace(harness._settings, allowed_origins="https://app.example.com")
    send(harness, LOOK_UP)

    for streamed in (
        harness.gateway.stream("GET", EVENTS, token_seconds=1, headers={"Origin": origin}),
        harness.gateway.stream("GET", EVENTS, subject="bob", headers={"Origin": origin}),
    ):
        assert (streamed.headers.get("access-control-allow-origin") == origin) is allowed
        assert "access-control-allow-credentials" not in streamed.headers


def test_a_preflight_says_what_a_page_may(harness: LambdaHarness) -> None:
    harness._settings = dataclasses.replace(harness._settings, allowed_origins="https://app.example.com")
    asked = {"Origin": "https://app.example.com", "Access-Control-Request-Method": "POST"}

    def preflight(origin: str) -> dict[str, Any]:
        event = harness.gateway.stream_request("OPTIONS", EVENTS, None, query={}, headers=asked | {"Origin": origin})
        answer = harness.invoke("stream", event).answer
        assert answer is not None
        assert answer["statusCode"] == 200
        return dict(answer["headers"])

    allowed, refused = preflight("https://app.example.com"), preflight("https://evil.example.com")

    assert allowed["access-control-allow-origin"] == "https://app.example.com"
    assert {"authorization", "content-type", "last-event-id"} <= set(
        allowed["access-control-allow-headers"].split(", ")
    )
    assert allowed["access-control-allow-methods"] == "GET, POST"
    assert not any(name.startswith("access-control") for name in refused)
