"""The deployed WebSocket API: events in order through every cut, commands, and AI SDK's chat on the same connection."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from perdure.session import Session
from perdure.testing.processes import poll_until
from tests.e2e.outside import SLOWLY
from tests.e2e.people import Socket, Viewer, ended, last_text
from tests.e2e.world import World

JsonObject = dict[str, Any]

OF_ONE_MODEL_STEP = ["model_started", "usage_recorded", "model_finished"]
OF_ONE_TOOL_STEP = ["tool_call_deferred", "tool_call_started", "tool_call_finished"]
DURABLE_OF_T1 = ["turn_started", *OF_ONE_MODEL_STEP, *OF_ONE_TOOL_STEP, *OF_ONE_MODEL_STEP, "turn_completed"]
LOOK_UP = 'call lookup_order {"order_id": "7"}'
TOKEN_SECONDS = 45


async def on_record(session: Session) -> list[JsonObject]:
    """Return the events of a session as its HTTP route has them."""
    page = await session.event_page()
    return [event for event in page["events"] if "sequence" in event]


def text_of(events: list[JsonObject]) -> str:
    return "".join(event["payload"]["text"] for event in events if event["type"] == "text_delta")


def subscriptions(world: World, word: str) -> list[str]:
    """Return what the table has of connections that watch a session with this word in its id, both ways."""
    rows = world.stack.client("dynamodb").scan(
        TableName=world.stack.outputs["SessionsTableName"],
        FilterExpression="begins_with(sk, :sub) OR begins_with(pk, :connection)",
        ConsistentRead=True,
        ExpressionAttributeValues={":sub": {"S": "SUB#"}, ":connection": {"S": "#connection#"}},
    )["Items"]
    return [row["sk"]["S"] for row in rows if word in row["pk"]["S"] + row["sk"]["S"]]


# --- events ------------------------------------------------------------------------------------------------------


async def test_a_viewer_is_sent_what_there_is_and_then_what_happens_in_order(world: World) -> None:
    user = world.user()
    viewer = Viewer("watched")
    async with user.session("watched") as session, user.socket() as socket:
        await session.send("hello")
        await ended(session)
        await viewer.attach(socket)
        await viewer.watch(socket, "turn_completed")
        backlog = len(viewer.events)
        await session.send(LOOK_UP)
        await viewer.watch(socket, "turn_completed")
        recorded = await on_record(session)

    assert viewer.durable == recorded
    assert viewer.sequences == list(range(1, len(recorded) + 1))
    assert [event["type"] for event in viewer.events[backlog:] if "sequence" in event] == DURABLE_OF_T1


async def test_a_viewer_whose_connection_drops_goes_on_where_it_was(world: World) -> None:
    user = world.user()
    viewer = Viewer("dropped")
    async with user.session("dropped") as session:
        async with user.socket() as socket:
            await session.send(SLOWLY)
            await viewer.attach(socket)
            await viewer.watch(socket, "text_delta")
            socket.connection.transport.abort()
        before = len(viewer.events)
        async with user.socket() as socket:
            await viewer.attach(socket)
            await viewer.watch(socket, "turn_completed")
        recorded = await on_record(session)

    assert before < len(viewer.events)
    assert viewer.durable == recorded
    assert viewer.sequences == list(range(1, len(recorded) + 1))
    text = text_of(viewer.events)
    assert "piece 00" in text
    assert text.count("piece 01") == 1, "progress that was sent is not sent again"


async def test_a_viewer_that_detaches_hears_no_more_until_it_attaches_again(world: World) -> None:
    user = world.user()
    viewer = Viewer("detached")
    async with user.session("detached") as session, user.socket() as socket:
        await session.send("hello")
        await viewer.attach(socket)
        await viewer.watch(socket, "turn_completed")
        assert (await socket.ask(type="detach", session_id="detached"))["session_id"] == "detached"
        await session.send("hello again")
        await ended(session, turns=2)
        await socket.ask(type="ping")
        assert socket.heard("events") == []
        await viewer.attach(socket)
        await viewer.watch(socket, "turn_completed")
        recorded = await on_record(session)

    assert viewer.durable == recorded
    assert viewer.sequences == list(range(1, len(recorded) + 1))


@contextmanager
def no_frame_comes_through(world: World) -> Iterator[None]:
    """Have every post to a connection fail meanwhile."""
    refused = {"code": "ForbiddenException", "status": 403}
    world.emulator.inject({"service": "apigatewaymanagementapi", "error": refused})
    try:
        yield
    finally:
        world.emulator.inject()


async def test_a_ping_sends_what_was_missed(world: World) -> None:
    user = world.user()
    viewer = Viewer("missed")
    async with user.session("missed") as session, user.socket() as socket:
        await session.send("hello")
        await viewer.attach(socket)
        await viewer.watch(socket, "turn_completed")
        seen = list(viewer.events)
        with no_frame_comes_through(world):
            await session.send(LOOK_UP)
            await ended(session, turns=2)
        in_vain = socket.heard("events")
        assert await socket.ask(type="ping") == {"type": "pong"}
        await viewer.watch(socket, "turn_completed")
        recorded = await on_record(session)

    assert in_vain == []
    assert viewer.durable == recorded
    assert len(viewer.events) > len(seen)


async def test_a_connection_that_is_closed_leaves_no_subscription_behind(world: World) -> None:
    user = world.user()
    async with user.session("leaving") as session:
        await session.send("hello")
        await ended(session)
        async with user.socket() as socket:
            await Viewer("leaving").attach(socket)
            assert len(subscriptions(world, "leaving")) == 2
            socket.connection.transport.abort()
        await poll_until(lambda: subscriptions(world, "leaving") == [], timeout_seconds=30, interval_seconds=0.2)


async def test_a_session_that_is_larger_than_a_frame_comes_in_parts(world: World) -> None:
    user = world.user()
    async with user.session("large-frames") as session, user.socket() as socket:
        await session.send('call read_archive {"kilobytes": 60}')
        snapshot = await ended(session)
        attached = await socket.ask(type="attach", session_id="large-frames")
        shown = await socket.expect("snapshot")
        parts = socket.parts
        ack = await socket.ask(type="command", request_id="r1", operation="get_session", session_id="large-frames")

    assert parts > 2
    assert socket.parts > parts, "the answer of a command too"
    assert shown["snapshot"]["messages"] == snapshot["messages"]
    assert shown["snapshot"]["cursor"] == attached["cursor"]
    assert (ack["request_id"], ack["status"]) == ("r1", 200)
    assert ack["body"]["messages"] == snapshot["messages"]


# --- commands ----------------------------------------------------------------------------------------------------


async def test_a_command_is_carried_out_once_and_acknowledged(world: World) -> None:
    user = world.user()
    command: JsonObject = {"type": "command", "operation": "send_input", "session_id": "commanded"}
    command |= {"body": {"text": "hello by frame"}, "idempotency_key": "once"}
    async with user.session("commanded") as session, user.socket() as socket:
        first = await socket.ask(**command, request_id="r1")
        again = await socket.ask(**command, request_id="r2")
        snapshot = await ended(session)
        nowhere: JsonObject = {"operation": "get_turn", "session_id": "commanded", "path": {"turn_id": "turn-9"}}
        missing = await socket.ask(type="command", request_id="r3", **nowhere)

    assert (first["request_id"], first["status"]) == ("r1", 202)
    assert (again["request_id"], again["status"], again["body"]["duplicate"]) == ("r2", 202, True)
    assert (missing["request_id"], missing["status"]) == ("r3", 404)
    assert snapshot["state"]["turn_count"] == 1
    assert "You said: hello by frame" in last_text(snapshot)


# --- AI SDK ------------------------------------------------------------------------------------------------------


async def chat(socket: Socket, request_id: str, session_id: str, text: str) -> list[JsonObject]:
    """Send a message as `WebSocketChatTransport` does, and return the frames that answer it."""
    message = {"id": f"m-{request_id}", "role": "user", "parts": [{"type": "text", "text": text}]}
    await socket.send(type="send", requestId=request_id, id=session_id, trigger="submit-message", messages=[message])
    frames: list[JsonObject] = []
    while not frames or frames[-1]["type"] != "end":
        frames.append(await socket.expect("start", "chunk", "end"))
    return frames


@pytest.mark.parametrize("text", [pytest.param(LOOK_UP, id="with a tool"), pytest.param(SLOWLY, id="slowly")])
async def test_a_chat_is_answered_in_chunks_with_contiguous_numbers(world: World, text: str) -> None:
    user = world.user()
    session_id = f"chat-{len(text)}"
    async with user.session(session_id) as session, user.socket() as socket:
        frames = await chat(socket, "r1", session_id, text)
        await socket.send(type="resume", requestId="r2", id=session_id)
        nothing = await socket.expect("no-active", "start")
        snapshot = await ended(session)

    first, *numbered, last = frames
    chunks = [frame["chunk"] for frame in numbered]
    assert (first, last) == ({"type": "start", "requestId": "r1"}, {"type": "end", "requestId": "r1"})
    assert [(frame["requestId"], frame["sequence"]) for frame in numbered] == [("r1", n) for n in range(len(numbered))]
    assert chunks[0]["type"] == "start"
    assert [chunk["finishReason"] for chunk in chunks if chunk["type"] == "finish"] == ["stop"]
    assert last_text(snapshot) == "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")
    assert nothing == {"type": "no-active", "requestId": "r2"}


# --- access ------------------------------------------------------------------------------------------------------


async def test_a_ticket_opens_one_connection_and_none_opens_none(world: World) -> None:
    user = world.user()
    ticket = await user.ticket()

    async with user.socket(ticket) as socket:
        assert await socket.ask(type="ping") == {"type": "pong"}
    for refused in (ticket, "never-issued"):
        with pytest.raises(InvalidStatus) as raised:
            async with user.socket(refused):
                pass
        assert raised.value.response.status_code in (401, 403)


async def test_a_stranger_is_told_that_there_is_no_such_session(world: World) -> None:
    stranger = world.user(subject="bert")

    async with world.user().session("annas-own") as session, stranger.socket() as socket:
        await session.send("hello")
        refused = await socket.ask(type="attach", session_id="annas-own")
        request = {"request_id": "r1", "operation": "send_input", "session_id": "annas-own", "body": {"text": "hello"}}
        commanded = await socket.ask(type="command", **request)
        await socket.send(type="resume", requestId="r2", id="annas-own")
        resumed = await socket.expect("no-active", "start", "error")
        unknown = await socket.ask(type="dance")

    assert (refused["type"], refused["code"]) == ("error", "session_not_found")
    assert (commanded["status"], commanded["body"]["error"]["code"]) == (404, "session_not_found")
    assert (resumed["type"], resumed["requestId"], resumed["code"]) == ("error", "r2", "session_not_found")
    assert (unknown["type"], unknown["code"]) == ("error", "invalid_request")


async def test_a_connection_ends_with_its_token(world: World) -> None:
    ends_at = int(time.time()) + TOKEN_SECONDS
    short = world.user(exp=ends_at)
    viewer = Viewer("short-lived")
    async with world.user().session("short-lived") as session, short.socket() as socket:
        await session.send("hello")
        await viewer.attach(socket)
        await viewer.watch(socket, "turn_completed")
        seen = list(viewer.events)
        await poll_until(lambda: time.time() > ends_at, timeout_seconds=TOKEN_SECONDS + 5, interval_seconds=0.2)
        await session.send("hello again")
        denied = await socket.expect("access_denied")
        with pytest.raises(ConnectionClosed):
            await socket.expect("events")

    assert (denied["session_id"], denied["code"]) == ("short-lived", "unauthorized")
    assert viewer.events == seen
