"""AI SDK clients: a chat over server-sent events, its approvals, and the ways back into it."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from perdure.api import ApiResponse
from perdure.streams.ui_chunks import EVENT, TOKEN
from perdure.streams.ui_reducer import MessageReducer
from tests.unit.api.builders import JSON, Api, Desk, code

JsonObject = dict[str, Any]


def a_message(text: str, message_id: str = "ui-1", **more: Any) -> JsonObject:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}], **more}


async def posted(api: Api, *messages: JsonObject, chat: str = "s-1", **more: Any) -> ApiResponse:
    body = json.dumps({"id": chat, "messages": messages, "trigger": "submit-message", **more}).encode()
    return await api.send("POST", "/v1/chat", headers=JSON, body=body, can_stream=True)


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


async def test_a_posted_message_streams_its_turn(api: Api) -> None:
    response = await posted(api, a_message("hello"))
    chunks = await chunks_of(response)

    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    text = {"type": "text", "text": "You said: hello", "state": "done"}
    assert shown(chunks) == {"id": "turn-1-assistant", "role": "assistant", "parts": [{"type": "step-start"}, text]}
    assert chunks[-1] == {"type": "finish", "finishReason": "stop"}
    assert not any(value is None for chunk in chunks for value in chunk.values())


async def test_the_same_message_posted_twice_is_one_message_and_streams_the_same_turn(api: Api) -> None:
    first = await chunks_of(await posted(api, a_message("hello")))
    again = await chunks_of(await posted(api, a_message("hello")))

    assert shown(again) == shown(first)
    _, snapshot = await api.get("/v1/sessions/s-1")
    assert [message["message_id"] for message in snapshot["messages"] if message["role"] == "user"] == ["ui-1"]
    assert code_of(await posted(api, a_message("something else"))) == (409, "idempotency_mismatch")


async def test_an_approval_ends_the_stream_and_the_decision_goes_on_with_the_same_message(api: Api, desk: Desk) -> None:
    asked = await chunks_of(await posted(api, a_message("refund order 7")))
    message = shown(asked)

    assert chunks_end(asked) == ["tool-input-available", "tool-approval-request", "finish-step", "finish"]
    assert asked[-1]["finishReason"] == "tool-calls"
    chunks = await chunks_of(await posted(api, decided(message, approved=True), messageId=message["id"]))

    assert types(chunks)[0] == "reset-step"
    whole = shown(chunks, message)
    assert whole == shown(await chunks_of(await resumed(api, x_resume_token=tokens(asked)[-1])))
    _, _, refund, _, answer = whole["parts"]
    assert (refund["state"], refund["output"]) == ("output-available", "order 7 is refunded")
    assert refund["approval"] == {"id": refund["toolCallId"], "approved": True}
    assert answer["text"] == "You said: refund order 7"
    assert desk.refunds == ["7"]


def chunks_end(chunks: Sequence[JsonObject]) -> list[str]:
    return types(chunks)[-4:]


def code_of(response: ApiResponse) -> tuple[int, str]:
    assert response.stream is None
    return code((response.status, json.loads(response.body)))
