"""The stream API on the deployment: who gets in, what comes, and how a stream ends."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure.access import Operation, Principal, SessionFacts
from perdure.api import sse
from perdure.aws import stream_app
from perdure.aws.bootstrap import Runtime
from perdure.testing.gateway import STREAM_URL, Streamed
from perdure.testing.lambda_harness import TIMEOUTS, LambdaHarness
from tests.handlers.agents import SESSION, send, snapshot
from tests.unit.api.test_sse import parsed

EVENTS = f"{SESSION}/events"
LOOK_UP = "Where is order 7?"


class GoingOn:
    """The clock of a function that waits while everything else goes on: queues are emptied whenever it sleeps."""

    def __init__(self, harness: LambdaHarness) -> None:
        self._harness = harness
        self.meanwhile: Callable[[], object] = lambda: None

    def now(self) -> Any:
        return self._harness.clock.now()

    async def sleep(self, seconds: float) -> None:
        await self._harness.clock.sleep(seconds)
        await asyncio.get_running_loop().run_in_executor(None, self._go_on)

    def _go_on(self) -> None:
        outer, self._harness.running = self._harness.running, None  # what follows is AWS's doing, not the function's
        try:
            self.meanwhile()
            self._harness.settle(timedelta(0))
        finally:
            self._harness.running = outer


@pytest.fixture
def going_on(harness: LambdaHarness, monkeypatch: pytest.MonkeyPatch) -> GoingOn:
    clock = GoingOn(harness)
    own = harness._clock_of
    monkeypatch.setattr(harness, "_clock_of", lambda function: clock if function == "stream" else own(function))
    return clock


def events_of(streamed: Streamed) -> list[str]:
    return [event["event"] for event in parsed(b"".join(streamed.pieces))]


def last_of(streamed: Streamed) -> dict[str, Any]:
    return dict(json.loads(parsed(b"".join(streamed.pieces))[-1]["data"]))


# --- where it is -------------------------------------------------------------------------------------------------


def test_the_http_api_says_where_streams_and_sockets_are(harness: LambdaHarness) -> None:
    health = harness.gateway.http("GET", "/healthz").body

    assert (health["stream_url"], health["socket_url"]) == (STREAM_URL, harness._settings.socket_url)
    assert health["socket_url"].startswith("wss://")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/chat", {"id": "case-42", "messages": []}),
        ("GET", "/v1/chat/case-42/stream", None),
        ("POST", "/v1/ag-ui", {"threadId": "case-42", "runId": "r", "messages": []}),
    ],
)
def test_the_http_api_refuses_a_stream_with_the_address_where_it_is_to_be_had(
    harness: LambdaHarness, method: str, path: str, body: Any
) -> None:
    reply = harness.gateway.http(method, path, body)

    assert reply.status == 400
    assert f"open it at {STREAM_URL}{path}" in reply.body["error"]["message"]
    assert snapshot(harness)["state"] is None


# --- what comes --------------------------------------------------------------------------------------------------


def test_a_stream_follows_a_turn_from_the_message_to_its_end(harness: LambdaHarness, going_on: GoingOn) -> None:
    send(harness, LOOK_UP)

    streamed = harness.gateway.stream("GET", EVENTS, token_seconds=20)

    shown = events_of(streamed)
    assert shown.index("turn_started") < shown.index("tool_call_finished") < shown.index("turn_completed")
    durable = [json.loads(event["data"]) for event in parsed(b"".join(streamed.pieces))]
    sequences = [event["sequence"] for event in durable if "sequence" in event]
    assert sequences == list(range(1, len(sequences) + 1))


def test_a_stream_goes_on_behind_the_last_event_that_its_reader_saw(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    harness.settle()
    whole = harness.gateway.http("GET", EVENTS).body["events"]
    seen = {"Last-Event-ID": whole[2]["cursor"]}

    streamed = harness.gateway.stream("GET", EVENTS, token_seconds=1, headers=seen)

    assert [json.loads(e["data"]) for e in parsed(b"".join(streamed.pieces))][:-1] == whole[3:]


def test_a_quiet_stream_is_never_silent_for_longer_than_proxies_bear(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    harness.settle()
    seen = {"after": harness.gateway.http("GET", EVENTS).body["cursor"]}

    streamed = harness.gateway.stream("GET", EVENTS, token_seconds=50, query=seen)

    assert streamed.pieces.count(sse.KEEP_ALIVE) == 3


def chunks_of(streamed: Streamed) -> list[Any]:
    """Return the chunks of an AI SDK stream, or the events of an AG-UI run; `[DONE]` as it is."""
    data = [line.removeprefix("data: ") for line in streamed.text.splitlines() if line.startswith("data: ")]
    return [text if text == "[DONE]" else json.loads(text) for text in data]


def a_chat(text: str) -> dict[str, Any]:
    return {
        "id": "case-42",
        "trigger": "submit-message",
        "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}],
    }


def test_a_chat_is_sent_and_streamed_to_its_end(harness: LambdaHarness, going_on: GoingOn) -> None:
    streamed = harness.gateway.stream("POST", "/v1/chat", a_chat(LOOK_UP))

    chunks = chunks_of(streamed)
    assert (streamed.status, streamed.broken) == (200, False)
    assert streamed.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert [chunks[0]["type"], chunks[-2]["type"], chunks[-1]] == ["start", "finish", "[DONE]"]
    assert {"tool-input-available", "tool-output-available", "text-delta"} <= {c["type"] for c in chunks[:-1]}
    assert snapshot(harness)["state"]["status"] == "waiting_for_user_message"


def test_a_chat_in_which_nothing_runs_has_nothing_to_resume(harness: LambdaHarness, going_on: GoingOn) -> None:
    harness.gateway.stream("POST", "/v1/chat", a_chat(LOOK_UP))

    again = harness.gateway.stream("GET", "/v1/chat/case-42/stream")

    assert (again.status, again.pieces) == (204, ())


def test_an_ag_ui_run_is_streamed_to_its_end(harness: LambdaHarness, going_on: GoingOn) -> None:
    message = {"id": "m1", "role": "user", "content": LOOK_UP}
    body = {"threadId": "case-42", "runId": "run-1", "messages": [message]}

    streamed = harness.gateway.stream("POST", "/v1/ag-ui", body)

    kinds = [event["type"] for event in chunks_of(streamed)]
    assert (kinds[0], kinds[-1], streamed.broken) == ("RUN_STARTED", "RUN_FINISHED", False)


# --- how a stream ends -------------------------------------------------------------------------------------------


def test_a_stream_ends_before_its_function_does_and_its_reader_goes_on_with_the_next(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    harness.settle()
    harness._settings = dataclasses.replace(harness._settings, stream_seconds=60)
    began_at = harness.clock.now()

    streamed = harness.gateway.stream("GET", EVENTS)

    assert harness.clock.now() - began_at == timedelta(seconds=60) - stream_app.ENDS_BEFORE
    assert (streamed.broken, events_of(streamed)[-1]) == (False, "turn_completed")


def test_f108_a_chat_that_outlasts_its_function_is_broken_off_and_not_ended(harness: LambdaHarness) -> None:
    """Its client takes a clean end for the end of the answer. The turn goes on, and can be come back to."""
    harness._settings = dataclasses.replace(harness._settings, stream_seconds=60)

    streamed = harness.gateway.stream("POST", "/v1/chat", a_chat(LOOK_UP))  # nothing else goes on meanwhile

    assert streamed.broken
    assert "[DONE]" not in chunks_of(streamed)
    harness.settle()
    assert snapshot(harness)["state"]["status"] == "waiting_for_user_message"


def test_f114_a_chat_whose_token_ends_says_so(harness: LambdaHarness) -> None:
    streamed = harness.gateway.stream("POST", "/v1/chat", a_chat(LOOK_UP), token_seconds=20)

    error = next(chunk for chunk in chunks_of(streamed) if chunk["type"] == "error")
    assert "token has ended" in error["errorText"]


def test_a_function_ends_in_its_own_time_however_long_a_stream_may_be(harness: LambdaHarness) -> None:
    context = {"httpMethod": "GET", "authorizer": {"holder": json.dumps(["acme", "i", "ann", None])}}
    now = harness.clock.now()
    for seconds, longest, left in ((900, 900, 885), (900, 60, 45), (40, 900, 25)):
        deadline = {"deadline": int((now + timedelta(seconds=seconds)).timestamp() * 1000)}
        invocation = stream_app.Invocation.of(a_request(context, deadline), longest=timedelta(seconds=longest))
        assert invocation.left(now) == timedelta(seconds=left)
        assert invocation.breaks_after(now) == timedelta(seconds=left + 10)


def a_request(context: dict[str, Any], invoked: dict[str, Any]) -> Any:
    from starlette.requests import Request

    said = {"x-amzn-request-context": context, "x-amzn-lambda-context": invoked}
    headers = [(name.encode(), json.dumps(content).encode()) for name, content in said.items()]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": headers})


def test_a_request_that_comes_when_no_time_is_left_may_be_sent_again(harness: LambdaHarness) -> None:
    harness._settings = dataclasses.replace(harness._settings, stream_seconds=15)

    streamed = harness.gateway.stream("GET", EVENTS)

    assert streamed.status == 503
    assert json.loads(streamed.text)["error"]["retryable"] is True


def test_the_harness_gives_a_stream_what_the_gateway_does() -> None:
    assert TIMEOUTS["stream"] == 900


def test_f114_nothing_comes_after_the_token_has_ended(harness: LambdaHarness, going_on: GoingOn) -> None:
    send(harness, LOOK_UP)
    harness.settle()
    seen = {"after": harness.gateway.http("GET", EVENTS).body["cursor"]}
    ends = harness.clock.now() + timedelta(seconds=30)
    told: list[Any] = []

    def a_message_after_the_end() -> None:
        if harness.clock.now() >= ends and not told:
            told.append(send(harness, "And order 8?"))

    going_on.meanwhile = a_message_after_the_end
    streamed = harness.gateway.stream("GET", EVENTS, token_seconds=30, query=seen)

    assert harness.clock.now() - ends <= timedelta(seconds=1)
    assert (events_of(streamed), streamed.broken) == (["access_denied"], False)


def test_api_05_a_reader_whose_access_is_taken_away_hears_so_within_a_minute(
    harness: LambdaHarness, going_on: GoingOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = {"bob"}

    def authorize(who: Principal, operation: Operation, _: SessionFacts) -> bool | None:
        return True if operation == "read" and who.actor.subject in readers else None

    monkeypatch.setattr(Runtime, "authorize", property(lambda _: authorize))
    send(harness, LOOK_UP)
    harness.settle()
    revoked_at = harness.clock.now() + timedelta(seconds=100)

    def revoke() -> None:
        if harness.clock.now() >= revoked_at:
            readers.clear()

    going_on.meanwhile = revoke
    streamed = harness.gateway.stream("GET", EVENTS, subject="bob")

    assert harness.clock.now() - revoked_at < timedelta(seconds=60)
    assert (last_of(streamed)["code"], streamed.broken) == ("session_not_found", False)
    assert harness.gateway.stream("GET", EVENTS, subject="bob").status == 404
