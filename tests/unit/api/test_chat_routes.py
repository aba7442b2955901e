"""AI SDK clients: a chat over server-sent events, and the ways back into one that was cut."""

import asyncio
import json
from pathlib import Path

import pytest

from perdure.api.messages import StreamBrokenOffError
from tests.unit.api.builders import JSON, Api, Desk, a_caller, a_runtime, read
from tests.unit.api.ui_clients import (
    JsonObject,
    a_message,
    chatted,
    chunks_of,
    posted,
    refused,
    resumed,
    shown,
    tokens,
    types,
    until,
)

TEXT = {"type": "text", "text": "You said: hello", "state": "done"}


async def test_a_posted_message_streams_its_turn(api: Api) -> None:
    response = await posted(api, a_message("hello"))
    chunks = await chunks_of(response)

    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert shown(chunks) == {"id": "turn-1-assistant", "role": "assistant", "parts": [{"type": "step-start"}, TEXT]}
    assert chunks[-1] == {"type": "finish", "finishReason": "stop"}
    assert not any(value is None for chunk in chunks for value in chunk.values())


async def test_the_same_message_posted_twice_is_one_message_and_streams_the_same_turn(api: Api) -> None:
    first, again = await chatted(api, "hello"), await chatted(api, "hello")

    assert shown(again) == shown(first)
    _, snapshot = await api.get("/v1/sessions/s-1")
    assert [message["message_id"] for message in snapshot["messages"] if message["role"] == "user"] == ["ui-1"]
    assert refused(await posted(api, a_message("something else"))) == (409, "idempotency_mismatch")


async def test_an_id_that_we_could_have_made_still_makes_a_repeated_message_one(api: Api) -> None:
    first, again = await chatted(api, "hello", "message-1-0"), await chatted(api, "hello", "message-1-0")

    assert shown(again) == shown(first)
    _, snapshot = await api.get("/v1/sessions/s-1")
    assert snapshot["state"]["turn_count"] == 1


async def test_files_go_along_by_their_address_and_bytes_are_refused(api: Api) -> None:
    file = {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": "https://files.example.com/a.png"}
    message = a_message("look")
    message["parts"].append(file)
    await chunks_of(await posted(api, message | {"metadata": {"from": "phone"}}))

    _, snapshot = await api.get("/v1/sessions/s-1")
    sent = snapshot["messages"][0]
    reference = {"reference": file["url"], "media_type": "image/png", "name": "a.png"}
    assert sent["parts"] == [{"type": "text", "text": "look"}, {"type": "file", **reference}]
    assert sent["metadata"] == {"from": "phone"}

    message["parts"][-1] = {**file, "url": "data:image/png;base64,AAAA"}
    response = await posted(api, message | {"id": "ui-2"})
    assert refused(response) == (400, "invalid_request")
    assert b"upload the file first" in response.body


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"messages": []}, "`messages` is a list with at least"),
        ({"messages": [{"role": "system", "parts": []}]}, "a user's or an assistant's"),
        ({"messages": [{"role": "user", "parts": "hello"}]}, "the `parts` of a message"),
        ({"messages": [{"role": "user", "parts": [{"type": "data-x", "data": 1}]}]}, "no part of type 'data-x'"),
        ({"messages": [{"role": "user", "parts": [{"type": "text", "text": " "}]}]}, "text is blank"),
        ({"messages": [a_message("hi")], "keepOpen": True}, "unknown field `keepOpen`"),
        ({"messages": [a_message("hi")], "keep_open": "yes"}, "`keep_open`"),
        ({"messages": [a_message("hi")], "trigger": "resume-stream"}, "`trigger`"),
        ({"messages": [a_message("hi")], "delivery": "passive"}, "starts no turn to stream"),
        ({"messages": [a_message("hi")], "agent": "nobody"}, "'nobody' is not part of this deployment"),
        ({"messages": [a_message("hi")], "id": "a/b"}, "a session id has"),
        ({"messages": [{"role": "assistant", "id": "turn-1-assistant", "parts": []}]}, "has no assistant message"),
        ({"messages": [], "trigger": "regenerate-message"}, "nothing to regenerate"),
    ],
)
async def test_what_is_wrong_is_named_before_anything_is_streamed(api: Api, body: JsonObject, says: str) -> None:
    content = json.dumps({"id": "s-1", **body}).encode()
    response = await api.send("POST", "/v1/chat", headers=JSON, body=content, can_stream=True)

    assert response.stream is None
    assert response.status in (400, 404)
    assert says in json.loads(response.body)["error"]["message"]


async def test_a_host_that_cant_stream_says_where_streams_are(api: Api) -> None:
    body = json.dumps({"id": "s-1", "messages": [a_message("hi")]}).encode()

    known = await api.send("POST", "/v1/chat", headers=JSON, body=body, stream_url="https://stream.example.com/live")
    unknown = await api.send("GET", "/v1/chat/s-1/stream")

    assert b"https://stream.example.com/live/v1/chat" in known.body
    assert b"/healthz" in unknown.body
    assert refused(known) == refused(unknown) == (400, "invalid_request")
    _, snapshot = await api.get("/v1/sessions/s-1")
    assert snapshot["state"] is None


# --- coming back --------------------------------------------------------------------------------


async def test_nothing_to_resume_is_204(api: Api) -> None:
    never = await resumed(api)
    await chatted(api, "hello")

    assert (never.status, never.body) == (204, b"")
    assert (await resumed(api)).status == 204


async def test_f079_whoever_comes_back_in_the_middle_gets_the_whole_message_from_its_start(
    api: Api, desk: Desk
) -> None:
    response = await posted(api, a_message("think of me"))
    assert response.stream is not None
    cut = await until(response.stream, "start-step")
    await response.stream.aclose()  # type: ignore[attr-defined]
    again = await resumed(api)
    desk.gate.set()

    chunks = await chunks_of(again)

    assert types(chunks)[0] == "start"
    assert shown(chunks) == shown(await chunks_of(await resumed(api, x_resume_token=tokens(cut)[-1])))
    assert [part.get("text") for part in shown(chunks)["parts"]] == [None, "You said: think of me"]


async def test_f033_leaving_stops_nothing_and_a_stop_ends_every_stream_of_the_turn(api: Api, desk: Desk) -> None:
    left = await posted(api, a_message("think"))
    assert left.stream is not None
    await until(left.stream, "start-step")
    await left.stream.aclose()  # type: ignore[attr-defined]
    stays = await resumed(api)

    _, snapshot = await api.get("/v1/sessions/s-1")
    assert snapshot["state"]["status"] == "running_model"
    await api.post("/v1/sessions/s-1/stop", {})
    chunks = await chunks_of(stays)

    assert chunks[-1] == {"type": "finish", "finishReason": "interrupted"}
    assert not desk.gate.is_set()
    assert (await resumed(api)).status == 204


async def test_a_token_gives_a_turn_again_that_has_ended_meanwhile(api: Api) -> None:
    first = await chatted(api, "hello")
    await chatted(api, "and more", "ui-2")

    again = await chunks_of(await resumed(api, x_resume_token=tokens(first)[-1]))

    assert shown(again) == shown(first)


@pytest.mark.parametrize("token", ["", "x", "bm90IG91cnM", "A" * 70_000, "…"])
async def test_a_token_that_is_bad_or_of_another_session_restarts_the_running_turn(
    api: Api, desk: Desk, token: str
) -> None:
    elsewhere = tokens(await chatted(api, "hello", "ui-9", chat="s-2"))[-1]
    running = await posted(api, a_message("think"))
    assert running.stream is not None
    await until(running.stream, "start-step")

    streams = [await resumed(api, query="?exact=true", x_resume_token=bad) for bad in (token, elsewhere)]
    desk.gate.set()

    for stream in streams:
        chunks = await chunks_of(stream)
        assert types(chunks)[:2] == ["start", "start-step"]
        assert shown(chunks)["parts"][1]["text"] == "You said: think"


async def test_a_client_that_asks_for_it_goes_on_in_the_step_it_is_in(api: Api, desk: Desk) -> None:
    running = await posted(api, a_message("think"))
    assert running.stream is not None
    cut = await until(running.stream, "start-step")
    by_token = await resumed(api, query="?exact=true", x_resume_token=tokens(cut)[-1])
    by_count = await resumed(api, query="?exact=true&steps=1", x_resume_token=tokens(cut)[-1])
    empty = [await resumed(api, query=f"?exact=true&steps={n}", x_resume_token=tokens(cut)[-1]) for n in (0, -1)]
    desk.gate.set()

    for stream in (by_token, by_count):
        chunks = await chunks_of(stream)
        assert types(chunks)[0] == "reset-step"
        assert shown(chunks, shown(cut))["parts"] == [{"type": "step-start"}, {**TEXT, "text": "You said: think"}]
    for stream in empty:
        assert types(await chunks_of(stream))[0] == "start"


async def test_a_host_that_closes_breaks_the_stream_off_instead_of_ending_it(api: Api) -> None:
    closing = asyncio.Event()
    response = await posted(api, a_message("think"), closing=closing)
    assert response.stream is not None
    await until(response.stream, "start-step")
    closing.set()

    with pytest.raises(StreamBrokenOffError, match="closes"):
        await anext(response.stream)


async def test_a_session_of_somebody_else_is_not_there(tmp_path: Path) -> None:
    async with a_runtime(tmp_path) as runtime:
        ann, bob = Api(runtime.service, a_caller("ann")), Api(runtime.service, a_caller("bob"))
        chunks = await chatted(ann, "refund order 7")

        assert refused(await resumed(bob, x_resume_token=tokens(chunks)[-1])) == (404, "session_not_found")
        assert refused(await posted(bob, a_message("hi"))) == (404, "session_not_found")
        assert read(await bob.send("GET", "/v1/sessions/s-1?format=ui"))[0] == 404
