"""The development server's WebSocket: what is left of a delivery or a connection that ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from starlette.websockets import WebSocket
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from perdure.embedded.clock import SystemClock
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.embedded.sockets import ACCESS_ENDED, Sockets
from perdure.service import LOCAL_CALLER
from tests.unit.api.builders import a_server
from tests.unit.embedded.clocks import VirtualClock
from tests.unit.embedded.test_sockets import address, asked, at_rest, connected, desk, runtime, told, url

__all__ = ["desk", "runtime", "url"]


async def test_deliveries_that_replace_each_other_leave_nothing_behind(runtime: EmbeddedRuntime, url: str) -> None:
    """One request id on many frames at once, attached and left again and again, and a viewer that goes in between."""
    await at_rest(runtime, "hello")
    await runtime.session("s-1").send("think")
    before = asyncio.all_tasks()
    resume = json.dumps({"type": "resume", "requestId": "same", "id": "s-1"})
    attach, detach = (json.dumps({"type": kind, "session_id": "s-1"}) for kind in ("attach", "detach"))
    for last in (attach, detach):
        async with connected(url, max_queue=None) as socket:
            for _ in range(20):
                for frame in (resume, resume, resume, attach, detach, last):
                    await socket.send(frame)
            while (await asked(socket, {"type": "ping"})) != {"type": "pong"}:
                pass
    async with asyncio.timeout(5):
        while left := [t for t in asyncio.all_tasks() - before if "_Connection" in repr(t)]:
            await asyncio.wait(left)


async def test_a_chat_is_told_of_the_end_of_the_token_by_a_frame_of_its_own(runtime: EmbeddedRuntime) -> None:
    await at_rest(runtime, "hello")
    await runtime.session("s-1").send("think")
    clock = VirtualClock()
    sockets = Sockets(runtime.service, clock=clock)
    until = SystemClock().now() + timedelta(hours=1)  # for the service it has not ended when the connection does
    ticket = (await sockets.issue(replace(LOCAL_CALLER, until=until)))["ticket"]
    async with a_server(runtime.service, sockets=sockets) as at, connect(address(at, ticket), proxy=None) as socket:
        resume = {"type": "resume", "requestId": "r-1", "id": "s-1"}
        assert (await asked(socket, resume))["type"] == "start"
        await clock.advance((until - clock.now()).total_seconds())
        frames: list[dict[str, Any]] = []
        with contextlib.suppress(ConnectionClosed):
            while True:
                frames.append(await told(socket))

    assert all(frame["requestId"] == "r-1" for frame in frames), "any other fails all that the client has"
    assert (frames[-1]["type"], frames[-1]["errorText"]) == ("error", "the token has ended")
    assert socket.close_code == ACCESS_ENDED


async def test_a_connection_ends_with_its_token_also_if_its_viewer_takes_nothing(runtime: EmbeddedRuntime) -> None:
    clock = VirtualClock()
    sockets = Sockets(runtime.service, clock=clock, send_seconds=0.05)
    until = clock.now() + timedelta(minutes=5)
    ticket = (await sockets.issue(replace(LOCAL_CALLER, until=until)))["ticket"]
    accepted, never = asyncio.Event(), asyncio.Event()
    said: list[str] = []

    async def receive() -> dict[str, Any]:
        if not said:
            return {"type": "websocket.connect"}
        await never.wait()
        raise AssertionError

    async def send(message: Any) -> None:
        said.append(message["type"])
        accepted.set()
        if message["type"] == "websocket.send":
            await never.wait()

    scope = {"type": "websocket", "path": "/v1/socket", "query_string": f"ticket={ticket}".encode(), "headers": []}
    serving = asyncio.create_task(sockets.serve(WebSocket(scope, receive, send)))
    await accepted.wait()
    await clock.advance(301)
    await asyncio.wait_for(serving, 5)

    assert said == ["websocket.accept", "websocket.send", "websocket.close"]
