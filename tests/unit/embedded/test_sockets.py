"""The development server's WebSocket: tickets, the guard, and the frames of docs/operations.md (spec DEV-01)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from perdure.core.cursor import Cursor
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.embedded.sockets import ACCESS_ENDED, MAX_COMMANDS, Sockets
from perdure.service import LOCAL_CALLER
from tests.unit.api.builders import Desk, a_runtime, a_server
from tests.unit.embedded.clocks import VirtualClock


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def runtime(tmp_path: Path, desk: Desk) -> AsyncIterator[EmbeddedRuntime]:
    async with a_runtime(tmp_path, desk) as runtime:
        yield runtime


@pytest.fixture
async def url(runtime: EmbeddedRuntime) -> AsyncIterator[str]:
    async with a_server(runtime.service) as url:
        yield url


async def a_ticket(url: str) -> str:
    async with httpx.AsyncClient(base_url=url) as http:
        response = await http.post("/v1/socket-tickets")
    assert response.status_code == 200
    return str(response.json()["ticket"])


def address(url: str, ticket: str, path: str = "/v1/socket") -> str:
    return f"{url.replace('http', 'ws', 1)}{path}?ticket={ticket}"


@asynccontextmanager
async def connected(url: str, **more: Any) -> AsyncIterator[ClientConnection]:
    async with connect(address(url, await a_ticket(url)), proxy=None, **more) as socket:
        yield socket


async def told(socket: ClientConnection) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(await asyncio.wait_for(socket.recv(), 10))
    return frame


async def asked(socket: ClientConnection, frame: Any) -> dict[str, Any]:
    await socket.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))
    return await told(socket)


async def refusal(where: str, **more: Any) -> int:
    with pytest.raises(InvalidStatus) as caught:
        async with connect(where, proxy=None, **more):
            pass
    return caught.value.response.status_code


async def at_rest(runtime: EmbeddedRuntime, text: str, session_id: str = "s-1") -> int:
    """Send a message, wait for the end of its turn, and return the session's version."""
    session = runtime.session(session_id)
    receipt = await session.send(text)
    async for _ in session.events(after=receipt.cursor):
        pass
    return int((await session.snapshot())["state"]["version"])


# --- who may connect --------------------------------------------------------------------------------------------------


async def test_a_ticket_opens_one_connection(url: str) -> None:
    ticket = await a_ticket(url)

    async with connect(address(url, ticket), proxy=None) as socket:
        assert await asked(socket, {"type": "ping"}) == {"type": "pong"}
        assert await refusal(address(url, ticket)) == 403
    assert await refusal(address(url, ticket)) == 403


async def test_a_ticket_opens_one_event_stream_as_on_aws(runtime: EmbeddedRuntime, url: str) -> None:
    await at_rest(runtime, "hello")
    stream = f"/v1/sessions/s-1/events?ticket={await a_ticket(url)}"

    async with httpx.AsyncClient(base_url=url, headers={"accept": "text/event-stream"}) as http:
        async with http.stream("GET", stream) as response:
            assert "turn_started" in await anext(piece async for piece in response.aiter_text() if "data:" in piece)
        again = await http.get(stream)
        elsewhere = await http.get("/v1/sessions/s-1", params={"ticket": await a_ticket(url)})

    assert (again.status_code, again.json()["error"]["code"]) == (401, "unauthorized")
    assert elsewhere.status_code == 400


@pytest.mark.parametrize("ticket", ["", "nonsense", "é"])
async def test_without_a_ticket_nobody_connects(url: str, ticket: str) -> None:
    assert await refusal(address(url, ticket)) == 403


async def test_there_is_no_other_socket(url: str) -> None:
    assert await refusal(address(url, await a_ticket(url), "/v1/other")) == 403


@pytest.mark.parametrize(
    "headers", [{"origin": "http://evil.example.com"}, {"origin": "null"}, {"host": "evil.example.com"}]
)
async def test_a_page_of_somebody_else_can_not_connect_and_uses_no_ticket_up(url: str, headers: dict[str, str]) -> None:
    ticket = await a_ticket(url)

    async with connect(address(url, ticket), proxy=None) as _:
        other = await a_ticket(url)
    assert await _upgrade(url, other, headers) == 403

    assert await _upgrade(url, other, {"origin": url}) == 101


async def _upgrade(url: str, ticket: str, headers: dict[str, str]) -> int:
    """Ask for an upgrade with any header, `Host` too, and return the status."""
    host = url.removeprefix("http://")
    lines = {
        "host": host,
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-version": "13",
    } | headers
    reader, writer = await asyncio.open_connection(*host.split(":"))
    request = f"GET /v1/socket?ticket={ticket} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
    writer.write(f"{request}\r\n".encode())
    status = await asyncio.wait_for(reader.readline(), 10)
    writer.close()
    return int(status.split()[1])


async def test_a_ticket_is_good_for_a_minute(runtime: EmbeddedRuntime) -> None:
    clock = VirtualClock()
    sockets = Sockets(runtime.service, clock=clock)
    fresh, late = [(await sockets.issue(LOCAL_CALLER)) for _ in range(2)]
    assert fresh["expires_at"] == "2026-11-30T12:01:00.000Z"

    await clock.advance(59.9)
    assert sockets.redeem(fresh["ticket"]) == LOCAL_CALLER
    await clock.advance(0.1)

    assert sockets.redeem(late["ticket"]) is None


# --- what a connection is sent ---------------------------------------------------------------------------------------


async def attached(socket: ClientConnection, session_id: str = "s-1", **more: Any) -> dict[str, Any]:
    return await asked(socket, {"type": "attach", "session_id": session_id, **more})


async def events_until(socket: ClientConnection, kind: str) -> list[dict[str, Any]]:
    """Return the events that a connection is sent, up to the first of a type."""
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] != kind:
        frame = await told(socket)
        assert frame["type"] == "events", frame
        events += frame["events"]
    return events


async def test_a_viewer_gets_what_it_missed_and_then_what_happens_and_of_no_other_session(
    runtime: EmbeddedRuntime, url: str
) -> None:
    await at_rest(runtime, "hello")
    await at_rest(runtime, "hello", "s-2")
    start = Cursor().encode("s-1")
    async with connected(url) as socket:
        answer = await attached(socket, after=start)
        missed = await events_until(socket, "turn_completed")
        await at_rest(runtime, "not for you", "s-2")
        await at_rest(runtime, "and again")
        new = await events_until(socket, "turn_completed")
        last = new[-1]["cursor"]

    kept = (await runtime.service.events(LOCAL_CALLER, "s-1"))["events"]
    assert answer == {"type": "attached", "session_id": "s-1", "cursor": start}
    durable = [event for event in missed + new if "sequence" in event]
    assert durable == [event | {"cursor": shown["cursor"]} for event, shown in zip(kept, durable, strict=True)]
    assert (await runtime.service.events(LOCAL_CALLER, "s-1", after=last))["events"] == []


async def test_without_a_place_the_session_comes_first(runtime: EmbeddedRuntime, url: str) -> None:
    await at_rest(runtime, "hello")
    async with connected(url) as socket:
        answer = await attached(socket)
        first = await told(socket)
        await at_rest(runtime, "again")
        events = await events_until(socket, "turn_completed")

    assert (first["type"], len(first["snapshot"]["messages"])) == ("snapshot", 2)
    assert answer["cursor"] == first["snapshot"]["cursor"]
    assert events[0]["type"] in ("message_queued", "turn_started")


async def test_live_events_come_numbered_while_their_step_runs(runtime: EmbeddedRuntime, url: str, desk: Desk) -> None:
    await at_rest(runtime, "hello")
    async with connected(url) as socket:
        await attached(socket, after=(await runtime.session("s-1").snapshot())["cursor"])
        receipt = await runtime.session("s-1").send("think")
        events = await events_until(socket, "model_started")
        desk.gate.set()

    live = [event for event in events if "sequence" not in event]
    assert [event["progress_sequence"] for event in live] == list(range(1, len(live) + 1))
    assert live[-1]["turn_id"] == receipt.turn_id


async def test_whoever_detached_is_sent_no_more_and_may_attach_again(runtime: EmbeddedRuntime, url: str) -> None:
    await at_rest(runtime, "hello")
    async with connected(url) as socket:
        for _ in range(2):  # twice is once
            place = (await attached(socket, after=(await runtime.session("s-1").snapshot())["cursor"]))["cursor"]
        detached = await asked(socket, {"type": "detach", "session_id": "s-1"})
        await at_rest(runtime, "unheard")
        assert await asked(socket, {"type": "ping"}) == {"type": "pong"}  # and nothing before it

        await attached(socket, after=place)
        events = await events_until(socket, "turn_completed")

    assert detached == {"type": "detached", "session_id": "s-1"}
    assert next(event["type"] for event in events if "sequence" in event) == "turn_started"


async def test_a_place_of_another_session_is_refused(runtime: EmbeddedRuntime, url: str) -> None:
    await at_rest(runtime, "hello")
    async with connected(url) as socket:
        for place in (Cursor().encode("s-2"), "nonsense"):
            answer = await attached(socket, after=place)
            assert (answer["type"], answer["code"]) == ("error", "invalid_cursor")


async def test_what_is_larger_than_a_frame_comes_in_parts(runtime: EmbeddedRuntime, url: str) -> None:
    text = '\x01é"' * 20_000
    await at_rest(runtime, text)
    async with connected(url, max_size=32 * 1024) as socket:
        await attached(socket)
        parts = [await told(socket)]
        while len(parts) < parts[0]["count"]:
            parts.append(await told(socket))

    assert [part["index"] for part in parts] == list(range(parts[0]["count"]))
    whole = json.loads("".join(part["data"] for part in parts))
    assert whole["snapshot"]["messages"][0]["parts"] == [{"type": "text", "text": text}]


async def test_a_command_is_acknowledged_as_over_http_and_holds_nobody_up(runtime: EmbeddedRuntime, url: str) -> None:
    command = {"type": "command", "request_id": "r1", "operation": "send_input", "session_id": "s-1"}
    async with connected(url) as socket:
        sent = await asked(socket, command | {"body": {"text": "hello"}, "idempotency_key": "k"})
        again = await asked(socket, command | {"body": {"text": "hello"}, "idempotency_key": "k"})
        waits = {"type": "command", "request_id": "r2", "operation": "list_events", "session_id": "s-9"}
        await socket.send(json.dumps(waits | {"query": {"wait_seconds": 20}}))
        assert await asked(socket, {"type": "ping"}) == {"type": "pong"}, "a wait does not hold the connection up"

    assert (sent["type"], sent["request_id"], sent["status"]) == ("ack", "r1", 202)
    assert again["body"] == sent["body"] | {"duplicate": True}


async def test_a_connection_has_so_many_commands_under_way_and_no_more(runtime: EmbeddedRuntime, url: str) -> None:
    waits = {"type": "command", "operation": "list_events", "session_id": "s-9", "query": {"wait_seconds": 20}}
    async with connected(url) as socket:
        for number in range(MAX_COMMANDS):
            await socket.send(json.dumps(waits | {"request_id": f"r{number}"}))
        answer = await asked(socket, waits | {"request_id": "one too many"})

    assert (answer["type"], answer["code"], answer["request_id"]) == ("error", "too_many_requests", "one too many")


async def test_a_connection_ends_with_its_token(runtime: EmbeddedRuntime) -> None:
    await at_rest(runtime, "hello")
    clock = VirtualClock()
    sockets = Sockets(runtime.service, clock=clock)
    until = clock.now() + timedelta(minutes=5)
    ticket = (await sockets.issue(replace(LOCAL_CALLER, until=until)))["ticket"]
    async with a_server(runtime.service, sockets=sockets) as url, connect(address(url, ticket), proxy=None) as socket:
        assert await asked(socket, {"type": "ping"}) == {"type": "pong"}
        await clock.advance(301)
        last = await told(socket)
        with pytest.raises(ConnectionClosed) as closed:
            await told(socket)

    assert (last["type"], last["code"]) == ("access_denied", "unauthorized")
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == ACCESS_ENDED


async def test_a_session_that_is_not_there_can_not_be_watched(url: str) -> None:
    async with connected(url) as socket:
        answer = await asked(socket, {"type": "attach", "session_id": "s-9"})

        assert (answer["type"], answer["code"]) == ("error", "session_not_found")
        assert answer["session_id"] == "s-9", "so that whoever waits for it knows"
        assert await asked(socket, {"type": "ping"}) == {"type": "pong"}


@pytest.mark.parametrize("frame", ["", "{", "[]", '{"type": "shout"}', '{"type": "attach"}', b"\x00\x01", "null"])
async def test_a_frame_that_is_not_understood_is_answered_and_the_connection_stays(
    url: str, frame: str | bytes
) -> None:
    async with connected(url) as socket:
        answer = await asked(socket, frame)

        assert (answer["type"], answer["code"]) == ("error", "invalid_request")
        assert await asked(socket, {"type": "ping"}) == {"type": "pong"}


async def test_a_frame_that_is_too_large_ends_the_connection(url: str) -> None:
    async with connected(url) as socket:
        with pytest.raises(ConnectionClosed):
            await asked(socket, "x" * 33 * 1024)


async def test_a_server_that_closes_ends_its_connections_at_once(runtime: EmbeddedRuntime) -> None:
    await at_rest(runtime, "hello")
    async with a_server(runtime.service) as url:
        socket = await connect(address(url, await a_ticket(url)), proxy=None)
        await asked(socket, {"type": "attach", "session_id": "s-1"})
    await asyncio.wait_for(socket.recv(), 5)  # the session
    with pytest.raises(ConnectionClosed):
        await asyncio.wait_for(socket.recv(), 5)
    await socket.close()
