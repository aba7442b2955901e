"""The development server's WebSocket: tickets, the guard, and the frames of docs/operations.md (spec DEV-01)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from perdure.embedded.runtime import EmbeddedRuntime
from perdure.embedded.sockets import Sockets
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


# --- what a connection is told ---------------------------------------------------------------------------------------


async def test_a_subscriber_is_told_of_every_commit_of_its_session_and_of_no_other(
    runtime: EmbeddedRuntime, url: str
) -> None:
    before = await at_rest(runtime, "hello")
    await at_rest(runtime, "hello", "s-2")
    async with connected(url) as socket:
        assert await asked(socket, {"type": "subscribe", "session_id": "s-1"}) == {
            "type": "subscribed",
            "session_id": "s-1",
        }
        await at_rest(runtime, "not for you", "s-2")
        after = await at_rest(runtime, "and again")

        versions: list[int] = []
        while not versions or versions[-1] < after:
            frame = await told(socket)
            assert (frame["type"], frame["session_id"]) == ("changed", "s-1")
            versions += [frame["version"]] if "version" in frame else []

    assert sorted(set(versions)) == list(range(before + 1, after + 1))


async def test_progress_of_a_running_step_is_told_with_its_step(runtime: EmbeddedRuntime, url: str, desk: Desk) -> None:
    await at_rest(runtime, "hello")
    async with connected(url) as socket:
        await asked(socket, {"type": "subscribe", "session_id": "s-1"})
        receipt = await runtime.session("s-1").send("think")

        frame = await told(socket)
        while "step_execution_id" not in frame:
            frame = await told(socket)
        desk.gate.set()

    assert frame["type"] == "changed"
    assert frame["turn_id"] == receipt.turn_id
    assert frame["step_execution_id"].startswith("model-")


async def test_whoever_unsubscribed_is_told_no_more_and_may_subscribe_again(runtime: EmbeddedRuntime, url: str) -> None:
    await at_rest(runtime, "hello")
    async with connected(url) as socket:
        for _ in range(2):  # twice is once
            await asked(socket, {"type": "subscribe", "session_id": "s-1"})
        unsubscribed = await asked(socket, {"type": "unsubscribe", "session_id": "s-1"})
        await at_rest(runtime, "unheard")
        assert await asked(socket, {"type": "ping"}) == {"type": "pong"}  # and nothing before it

        await asked(socket, {"type": "subscribe", "session_id": "s-1"})
        last = await at_rest(runtime, "heard")
        assert (await told(socket))["session_id"] == "s-1"

    assert unsubscribed == {"type": "unsubscribed", "session_id": "s-1"}
    assert last > 2


async def test_a_session_that_is_not_there_can_not_be_watched(url: str) -> None:
    async with connected(url) as socket:
        answer = await asked(socket, {"type": "subscribe", "session_id": "s-9"})

        assert (answer["type"], answer["code"]) == ("error", "session_not_found")
        assert await asked(socket, {"type": "ping"}) == {"type": "pong"}


@pytest.mark.parametrize("frame", ["", "{", "[]", '{"type": "shout"}', '{"type": "subscribe"}', b"\x00\x01", "null"])
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
        await asked(socket, {"type": "subscribe", "session_id": "s-1"})
    with pytest.raises(ConnectionClosed):
        await asyncio.wait_for(socket.recv(), 5)
    await socket.close()
