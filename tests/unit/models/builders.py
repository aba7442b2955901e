"""Builders of requests and of providers made of fixed bytes."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from perdure.core.history import CallItem, ModelItem, ToolResultItem, UserItem
from perdure.errors import ModelCallError
from perdure.models import (
    ModelRequest,
    ModelResponse,
    ModelSettings,
    OpenAIChatModel,
    StreamActivity,
    ToolArgumentsDelta,
    ToolDefinition,
)

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BASE_URL = "http://provider.test/v1"


class StoppedClock:
    """A clock that stands still, and counts what it was asked to sleep."""

    def __init__(self, now: datetime = NOON) -> None:
        self._now = now
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def a_request(*messages, text="hello", tools=(), settings=None, **fields) -> ModelRequest:
    messages = messages or (UserItem(text=text),)
    return ModelRequest(messages=messages, tools=tools, settings=ModelSettings.of(settings), **fields)


def a_tool(name="lookup", parameters=None) -> ToolDefinition:
    return ToolDefinition(name=name, description="Looks it up.", parameters=parameters or {"type": "object"})


def a_call(call_id="call-1-0", name="lookup", arguments=None, **fields) -> CallItem:
    return CallItem(call_id=call_id, tool_name=name, arguments={} if arguments is None else arguments, **fields)


def a_result(call_id="call-1-0", output="found", name="lookup", status="succeeded") -> ToolResultItem:
    return ToolResultItem(call_id=call_id, tool_name=name, status=status, output=output)


def an_output(*calls, text="", provider=None, item=None, reasoning="") -> ModelItem:
    opaque = None if provider is None else {"provider": provider, "api": provider, "item": item}
    return ModelItem(text=text, reasoning=reasoning, calls=calls, provider=opaque)


def sse(*payloads, done=True) -> bytes:
    """Return the bytes of a stream with these events."""
    texts = [p if isinstance(p, str) else json.dumps(p) for p in payloads] + (["[DONE]"] if done else [])
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def chunk(delta=None, finish=None, **fields) -> dict:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **fields}


def a_model(answer: "bytes | httpx.Response | Callable", **fields) -> OpenAIChatModel:
    """Return a client whose provider always answers like this. A function is httpx's own mock handler."""

    def handler(request: httpx.Request) -> httpx.Response:
        if callable(answer):
            return answer(request)
        if isinstance(answer, bytes):
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=answer)
        return answer

    given: dict[str, Any] = {"base_url": BASE_URL, "clock": StoppedClock(), "transport": httpx.MockTransport(handler)}
    return OpenAIChatModel("stub-1", **(given | fields))


async def collect(model, request=None) -> list[Any]:
    """Return what a call gives, without the word that it is still alive and the drafts of its calls."""
    async with aclosing(model.stream(request or a_request())) as stream:
        return [item async for item in stream if not isinstance(item, StreamActivity | ToolArgumentsDelta)]


async def respond(model, request=None) -> ModelResponse:
    return (await collect(model, request))[-1]


async def failure_of(model, request=None) -> ModelCallError:
    with pytest.raises(ModelCallError) as caught:
        await collect(model, request)
    return caught.value


class Body(httpx.AsyncByteStream):
    """A body that comes piece by piece and then, if told so, falls silent or breaks. Knows whether it was closed."""

    def __init__(
        self, *pieces: bytes, silent: bool = False, error: Exception | None = None, closing: Exception | None = None
    ) -> None:
        self._pieces = pieces
        self._closing = closing
        self._silent = silent
        self._error = error
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._silent:
            await asyncio.Event().wait()
        if self._error:
            raise self._error

    async def aclose(self) -> None:
        self.closed = True
        if self._closing:
            raise self._closing

    def response(self) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=self)
