"""`perdure.connect`: what goes over the wire, and which error a response becomes."""

import json
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import perdure
from perdure import errors
from perdure.client import Client, error_of


class Wire:
    """Answers requests from a list and keeps what came in."""

    def __init__(self, *replies: httpx.Response | Exception) -> None:
        self.requests: list[httpx.Request] = []
        self._replies = list(replies)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def client(self, url: str = "https://api.example.com", token: str | None = None) -> Client:
        return perdure.connect(url, token=token, transport=httpx.MockTransport(self))


RECEIPT = {"message_id": "m", "delivered_as": "queue", "duplicate": False, "cursor": "c", "something_new": 1}


async def test_a_send_is_one_post_of_what_was_given_with_a_token_and_a_key() -> None:
    wire = Wire(httpx.Response(202, json=RECEIPT))

    await wire.client("https://api.example.com/stage/", token="t-1").session("s:1").send("hé\u2028")

    (request,) = wire.requests
    assert (request.method, str(request.url)) == ("POST", "https://api.example.com/stage/v1/sessions/s:1/inputs")
    assert json.loads(request.content) == {"text": "hé\u2028"}
    assert request.headers["authorization"] == "Bearer t-1"
    assert request.headers["content-type"] == "application/json"
    assert 16 <= len(request.headers["idempotency-key"]) <= 256


@pytest.mark.parametrize(
    "command",
    [
        lambda session: session.send("hi"),
        lambda session: session.resolve("i-1", approved=True),
        lambda session: session.answer("i-1", "yes"),
        lambda session: session.stop(),
    ],
)
async def test_every_command_has_a_key_of_its_own_and_goes_out_once(command: Callable[[Any], Any]) -> None:
    """Spec API-08."""
    wire = Wire(httpx.ReadTimeout("late"), httpx.ConnectError("refused"))
    session = wire.client().session("s-1")
    keys = []

    for _ in range(2):
        with pytest.raises(errors.StoreUnavailableError) as caught:
            await command(session)
        keys.append(caught.value.idempotency_key)

    assert [request.headers["idempotency-key"] for request in wire.requests] == keys
    assert len(set(keys)) == 2


async def test_reads_carry_only_what_was_asked() -> None:
    wire = Wire(httpx.Response(200, json={"messages": []}), httpx.Response(200, json={"sessions": []}))
    client = wire.client()

    await client.session("s-1").messages(before=7, limit=3)
    await client.sessions()

    assert [request.url.raw_path for request in wire.requests] == [
        b"/v1/sessions/s-1/messages?before=7&limit=3",
        b"/v1/sessions?limit=50",
    ]
    assert "authorization" not in wire.requests[0].headers


@pytest.mark.parametrize("key", ["a\nb", " a", "a ", "a\x00", "a\x7f"])
async def test_a_key_that_http_would_change_is_refused_before_anything_is_sent(key: str) -> None:
    wire = Wire()

    with pytest.raises(errors.InvalidRequestError):
        await wire.client().session("s-1").send("hi", idempotency_key=key)

    assert wire.requests == []


@pytest.mark.parametrize("metadata", [{"x": float("nan")}, {"x": object()}])
async def test_what_is_no_json_is_refused_before_anything_is_sent(metadata: dict[str, Any]) -> None:
    wire = Wire()

    with pytest.raises(errors.InvalidRequestError):
        await wire.client().session("s-1").send("hi", metadata=metadata)

    assert wire.requests == []


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_cursor", errors.InvalidRequestError),
        (401, "unauthorized", errors.UnauthorizedError),
        (403, "forbidden_origin", errors.ForbiddenError),
        (404, "interrupt_not_found", errors.NotFoundError),
        (409, "not_pending", errors.RequestConflictError),
        (409, "stale_session", errors.StaleSessionError),
        (413, "too_large", errors.TooLargeError),
        (415, "unsupported_media_type", errors.UnsupportedMediaTypeError),
        (429, "too_many_requests", errors.TooManyRequestsError),
        (500, "internal", errors.PerdureError),
        (503, "store_unavailable", errors.StoreUnavailableError),
    ],
)
def test_an_error_has_the_class_that_it_has_in_one_process(status: int, code: str, kind: type) -> None:
    error = error_of(status, {"error": {"code": code, "message": "what, which, what next", "retryable": False}})

    assert type(error) is kind
    assert (error.code, error.message) == (code, "what, which, what next")


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (httpx.Response(401, json={"message": "Unauthorized"}), errors.UnauthorizedError),
        (httpx.Response(404, text="<html>"), errors.NotFoundError),
        (httpx.Response(502, text="<html>bad gateway"), errors.StoreUnavailableError),
        (httpx.Response(504, json={"message": "Endpoint request timed out"}), errors.StoreUnavailableError),
        (httpx.Response(500, json={"message": "Internal Server Error"}), errors.StoreUnavailableError),
        (httpx.Response(200, text="<html>a login page"), errors.StoreUnavailableError),
        (httpx.Response(202, json=[1]), errors.StoreUnavailableError),
        (httpx.Response(302, headers={"location": "https://elsewhere.example.com"}), errors.StoreUnavailableError),
        (httpx.Response(400, json={"error": "bad"}), errors.InvalidRequestError),
        (httpx.Response(400, content=b"[" * 100_000), errors.InvalidRequestError),
    ],
)
async def test_an_answer_of_somebody_else_is_judged_by_its_status(response: httpx.Response, kind: type) -> None:
    with pytest.raises(errors.PerdureError) as caught:
        await Wire(response).client().session("s-1").send("hi")

    assert type(caught.value) is kind


@pytest.mark.parametrize("url", ["", "localhost:8787", "ftp://host", "http://[::1", "https://a b:x/"])
def test_an_address_that_is_none_is_a_configuration_error(url: str) -> None:
    with pytest.raises(errors.ConfigurationError) as caught:
        perdure.connect(url)

    assert repr(url) in caught.value.message


def test_without_httpx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)

    with pytest.raises(errors.ConfigurationError) as caught:
        perdure.connect("http://localhost:8787")

    assert "perdure[http]" in caught.value.message
