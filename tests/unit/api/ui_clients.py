"""What an AI SDK client sends to the chat routes, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from perdure.api import ApiResponse
from perdure.streams.ui_chunks import TOKEN
from perdure.streams.ui_events import EVENT
from perdure.streams.ui_reducer import MessageReducer
from tests.unit.api.builders import JSON, Api, code

JsonObject = dict[str, Any]


def a_message(text: str, message_id: str = "ui-1", **more: Any) -> JsonObject:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}], **more}


async def posted(
    api: Api, *messages: JsonObject, chat: str = "s-1", closing: asyncio.Event | None = None, **more: Any
) -> ApiResponse:
    body = json.dumps({"id": chat, "messages": messages, "trigger": "submit-message", **more}).encode()
    return await api.send("POST", "/v1/chat", headers=JSON, body=body, can_stream=True, closing=closing)


async def resumed(api: Api, chat: str = "s-1", query: str = "", **headers: str) -> ApiResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await api.send("GET", f"/v1/chat/{chat}/stream{query}", headers=named, can_stream=True)


async def chunks_of(response: ApiResponse) -> list[JsonObject]:
    """Read a stream to its end."""
    assert response.status == 200, response.body
    assert response.stream is not None
    chunks, ended = parsed(b"".join([piece async for piece in response.stream]))
    assert ended, "a stream that is whole ends with [DONE]"
    return chunks


def parsed(frames: bytes) -> tuple[list[JsonObject], bool]:
    blocks = [block for block in frames.decode().split("\n\n") if block and not block.startswith(":")]
    assert all(block.startswith("data: ") and "\n" not in block for block in blocks)
    data = [block.removeprefix("data: ") for block in blocks]
    ended = bool(data) and data[-1] == "[DONE]"
    return [json.loads(text) for text in (data[:-1] if ended else data)], ended


async def until(stream: AsyncIterator[bytes], kind: str) -> list[JsonObject]:
    """Read a stream until a chunk of a type has come."""
    chunks: list[JsonObject] = []
    while not any(chunk["type"] == kind for chunk in chunks):
        chunks += parsed(await anext(stream))[0]
    return chunks


def shown(chunks: Sequence[JsonObject], message: JsonObject | None = None) -> JsonObject:
    """Return the message that a client has."""
    return MessageReducer(json.loads(json.dumps(message)) if message else None).take_all(chunks)


def types(chunks: Sequence[JsonObject]) -> list[str]:
    return [chunk["type"] for chunk in chunks if chunk["type"] not in (EVENT, TOKEN)]


def tokens(chunks: Sequence[JsonObject]) -> list[str]:
    return [chunk["data"]["token"] for chunk in chunks if chunk["type"] == TOKEN]


def decided(message: JsonObject, *, approved: bool, **more: Any) -> JsonObject:
    """Return an assistant's message in which every approval that was asked for is answered."""
    answered = json.loads(json.dumps(message))
    for part in answered["parts"]:
        if part.get("state") == "approval-requested":
            part |= {"state": "approval-responded"}
            part["approval"] |= {"approved": approved, **more}
    return answered


async def chatted(api: Api, text: str, message_id: str = "ui-1", **more: Any) -> list[JsonObject]:
    """Send a message and read its stream to the end."""
    return await chunks_of(await posted(api, a_message(text, message_id), **more))


def told(chunks: Sequence[JsonObject], kind: str) -> list[JsonObject]:
    """Return the payloads of the events of a type that a page's `onData` gets."""
    events = [chunk["data"] for chunk in chunks if chunk["type"] == EVENT]
    return [event["payload"] for event in events if event["type"] == kind]


def refused(response: ApiResponse) -> tuple[int, str]:
    assert response.stream is None
    return code((response.status, json.loads(response.body)))
