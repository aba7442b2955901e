"""The `stream` function's web server over real sockets, asked as the Lambda Web Adapter asks it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
import uvicorn

from perdure.aws import stream_app
from perdure.aws.clock import SystemClock
from perdure.testing.issuer import ISSUER
from perdure.testing.lambda_harness import LambdaHarness
from tests.handlers.agents import SESSION, send
from tests.handlers.conftest import harness
from tests.handlers.test_streams_on_aws import LOOK_UP, a_chat

__all__ = ["harness"]

pytestmark = pytest.mark.processes

EVENTS = f"{SESSION}/events"


def as_the_adapter(method: str, *, ends_at: datetime, until: datetime | None = None) -> dict[str, str]:
    """Return the headers that the adapter writes, for Ann."""
    millis = int(until.timestamp() * 1000) if until else None
    holder = json.dumps(["acme", ISSUER, "ann", millis])
    return {
        "accept": "text/event-stream",
        "x-amzn-request-context": json.dumps({"httpMethod": method, "authorizer": {"holder": holder}}),
        "x-amzn-lambda-context": json.dumps({"deadline": int(ends_at.timestamp() * 1000)}),
    }


@asynccontextmanager
async def serving(harness: LambdaHarness, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the app as the function does, on a free port."""
    harness._settings = dataclasses.replace(harness._settings, **settings)
    container = harness._new_container("stream")
    container.clock = SystemClock()
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(stream_app.server_config(stream_app.create_app(lambda: container), port=0))
    serving = asyncio.create_task(server.serve([listener]))
    try:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, timeout=20) as http:
            yield http
    finally:
        server.should_exit = True
        await serving
        listener.close()


def now() -> datetime:
    return SystemClock().now()


async def test_the_adapters_question_whether_it_is_there_is_answered(harness: LambdaHarness) -> None:
    async with serving(harness) as http:
        assert (await http.get(stream_app.HEALTH)).json()["status"] == "ok"
        assert (await http.get(EVENTS)).status_code == 401


async def test_events_come_while_the_turn_runs(harness: LambdaHarness) -> None:
    await asyncio.to_thread(send, harness, LOOK_UP)  # functions have loops of their own
    headers = as_the_adapter("GET", ends_at=now() + timedelta(minutes=10))
    seen = b""

    async with serving(harness) as http, http.stream("GET", EVENTS, headers=headers) as response:
        async for piece in response.aiter_raw():
            if not seen:
                await asyncio.to_thread(harness.settle)  # its reader has the first piece already
            seen += piece
            if b"event: turn_completed" in seen:
                break

    assert seen.index(b"event: turn_started") < seen.index(b"event: turn_completed")


async def test_a_stream_of_events_just_ends_before_its_function(harness: LambdaHarness) -> None:
    await asyncio.to_thread(send, harness, LOOK_UP)
    await asyncio.to_thread(harness.settle)
    ends_at = now() + stream_app.ENDS_BEFORE + timedelta(seconds=1)

    async with serving(harness) as http:
        response = await http.get(EVENTS, headers=as_the_adapter("GET", ends_at=ends_at))

    assert "event: turn_completed" in response.text
    assert now() < ends_at


async def test_a_chat_that_outlasts_its_function_is_cut_in_the_middle_of_its_body(harness: LambdaHarness) -> None:
    """A client takes a clean end for the whole answer, so the last chunk of the encoding must not come."""
    headers = as_the_adapter("POST", ends_at=now() + stream_app.ENDS_BEFORE + timedelta(seconds=1))

    async with (
        serving(harness) as http,
        http.stream("POST", "/v1/chat", headers=headers, json=a_chat(LOOK_UP)) as response,
    ):
        pieces = response.aiter_raw()
        assert (await anext(pieces)).startswith(b": stream-open\n\n")
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            await whole(pieces)


async def whole(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def test_a_stream_ends_with_its_token_and_the_connection_is_there_for_the_next(harness: LambdaHarness) -> None:
    await asyncio.to_thread(send, harness, LOOK_UP)  # functions have loops of their own
    moment = now()
    headers = as_the_adapter("GET", ends_at=moment + timedelta(minutes=5), until=moment + timedelta(seconds=1))

    async with serving(harness) as http:
        first = await http.get(EVENTS, headers=headers)
        second = await http.get(EVENTS, headers=headers)

    assert "event: access_denied" in first.text
    assert second.status_code == 401, "its token has ended"
