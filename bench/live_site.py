"""The server process of `bench.live`, and ways to it."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from bench.embedded import FOLDER
from bench.live_wire import SocketViewer, quiet, said

JsonObject = dict[str, Any]

CONNECTING = 50
"""Connections that are made at a time."""


class Server:
    """A server process, and its API."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, http: httpx.AsyncClient) -> None:
        self._process = process
        self.url = url
        self.http = http

    async def figures(self) -> JsonObject:
        """Return its memory and CPU time, and when its sessions' last commits were on the disk."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"figures\n")
        figures: JsonObject = json.loads(await self._process.stdout.readline())
        return figures

    async def say(self, session: str, number: int, pause_ms: int, size: int = 0) -> None:
        """Have a turn of so many tokens begin."""
        text = {"text": asking(number, pause_ms, size)}
        sent = await self.http.post(f"/v1/sessions/{session}/inputs", json=text)
        assert sent.status_code == 202, sent.text

    async def viewer(self, *, deflate: bool = True, slow: bool = False) -> SocketViewer:
        """Return an open WebSocket."""
        ticket = (await self.http.post("/v1/socket-tickets")).json()["ticket"]
        viewer = SocketViewer(f"{self.url.replace('http', 'ws')}/v1/socket?ticket={ticket}", deflate=deflate)
        await viewer.open(slow=slow)
        return viewer

    async def attached(self, sessions: Sequence[str], *, deflate: bool = True) -> list[SocketViewer]:
        """Return a viewer for each of these, attached to it."""
        places = asyncio.Semaphore(CONNECTING)

        async def one(session: str) -> SocketViewer:
            async with places:
                viewer = await self.viewer(deflate=deflate)
                viewer.say({"type": "attach", "session_id": session})
                return viewer

        viewers = list(await asyncio.gather(*map(one, sessions)))
        await quiet(viewers, lambda: all(said(viewer, "snapshot") for viewer in viewers))
        for viewer in viewers:
            viewer.frames.clear()
        return viewers


def asking(number: int, pause_ms: int, size: int = 0) -> str:
    """Return the message that makes the model say so many tokens, so far apart and of so many characters."""
    return f"say {number} every {pause_ms} ms of {size}"


@asynccontextmanager
async def a_server() -> AsyncIterator[Server]:
    """A server process on a fresh database, ended when this is left."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".bench-") as folder:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.live_server", folder),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**20,
        )
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            ready = (await process.stdout.readline()).decode().split()
            assert ready[:1] == ["ready"], "the server did not start"
            async with httpx.AsyncClient(base_url=ready[1], timeout=60) as http:
                yield Server(process, ready[1], http)
        finally:
            process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), 20)
            except TimeoutError:
                process.kill()
                await process.wait()
