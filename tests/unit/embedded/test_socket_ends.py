"""The development server's WebSocket: what is left of a delivery or a connection that ends."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from starlette.websockets import WebSocket

from perdure.embedded.runtime import EmbeddedRuntime
from perdure.embedded.sockets import Sockets
from perdure.service import LOCAL_CALLER
from tests.unit.embedded.clocks import VirtualClock
from tests.unit.embedded.test_sockets import asked, at_rest, connected, desk, runtime, url

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
