"""Clients of `bench.live` that do nothing but note when bytes came; what they say is read when the turn is over.

So a client's own work is not in the times, and one process can be a thousand of them.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

JsonObject = dict[str, Any]

STAMP = re.compile(rb"(\d+\.\d{6}) ")
LONGEST_STAMP = 32

SMALL_BUFFER = 4096
"""Receive buffer of a slow viewer, in bytes, so that what it does not take soon stays with the server."""


class Wire(asyncio.Protocol):
    """One connection, and what came over it: `(time, bytes)`."""

    def __init__(self) -> None:
        self.received: list[tuple[float, bytes]] = []
        self.transport: asyncio.Transport
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received.append((time.monotonic(), data))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    async def connect(self, url: str, *, slow: bool = False) -> None:
        """Connect; a slow one has a small buffer."""
        address = urlsplit(url)
        made = socket.socket()
        if slow:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        made.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(made, (str(address.hostname), int(address.port or 80)))
        await loop.create_connection(lambda: self, sock=made)


class SocketViewer(Wire):
    """A WebSocket.

    Attributes:
        frames: What was read of it: `(time, frame)`.
    """

    def __init__(self, url: str, *, deflate: bool = True) -> None:
        super().__init__()
        offered = [ClientPerMessageDeflateFactory()] if deflate else None  # as browsers do
        self._protocol = ClientProtocol(parse_uri(url), extensions=offered, max_size=None)
        self._open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._url = url
        self.frames: list[tuple[float, JsonObject]] = []

    async def open(self, *, slow: bool = False) -> None:
        """Connect and shake hands."""
        await self.connect(self._url.replace("ws://", "http://"), slow=slow)
        self._protocol.send_request(self._protocol.connect())
        self._flush()
        await self._open

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._open.done():
            self.read()
            if self._protocol.state is State.OPEN:
                self._open.set_result(None)
            elif self._protocol.handshake_exc is not None:
                self._open.set_exception(self._protocol.handshake_exc)

    def say(self, frame: JsonObject) -> None:
        """Send a frame."""
        self._protocol.send_text(json.dumps(frame).encode())
        self._flush()

    def read(self) -> None:
        """Read what came, and answer pings."""
        came, self.received = self.received, []
        for at, data in came:
            self._protocol.receive_data(data)
            for event in self._protocol.events_received():
                if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                    self.frames.append((at, json.loads(bytes(event.data))))
        self._flush()

    def events(self) -> Iterator[tuple[float, JsonObject]]:
        """Yield the events of our own protocol's frames, with the time at which each came."""
        for at, frame in self.frames:
            if frame["type"] == "events":
                for event in frame["events"]:
                    yield at, event

    def _flush(self) -> None:
        if out := b"".join(self._protocol.data_to_send()):
            self.transport.write(out)


class HttpViewer(Wire):
    """One HTTP request whose response is a stream."""

    def ask(self, method: str, path: str, body: JsonObject | None = None) -> None:
        """Send the request."""
        content = json.dumps(body).encode() if body is not None else b""
        host, port = self.transport.get_extra_info("peername")[:2]
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {host}:{port}\r\naccept: text/event-stream\r\n"
            f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        self.transport.write(head.encode() + content)


def ages(received: list[tuple[float, bytes]]) -> dict[float, float]:
    """Return how old each token was when it came, by the time of its yield; `received` is text as it was sent."""
    found: dict[float, float] = {}
    rest = b""
    for at, data in received:
        text = rest + data
        seen = 0
        for stamp in STAMP.finditer(text):
            found.setdefault(float(stamp[1]), at - float(stamp[1]))
            seen = stamp.end()
        rest = text[seen:][-LONGEST_STAMP:]  # never the second half of one that was seen
    return found


def said(viewer: SocketViewer, kind: str) -> bool:
    """Whether a viewer was sent a frame of this type."""
    viewer.read()
    return any(frame["type"] == kind for _, frame in viewer.frames)


async def quiet(
    wires: Sequence[Wire], is_done: Callable[[], bool | None], *, seconds: float = 60.0, every: float = 0.2
) -> None:
    """Wait until `is_done`, which is only asked when nothing has come for a while.

    Raises:
        TimeoutError: It never was.
    """
    ends_at = time.monotonic() + seconds
    before = -1
    while time.monotonic() < ends_at:
        await asyncio.sleep(every)
        now = sum(len(wire.received) for wire in wires)
        if now == before and is_done():
            return
        before = now
    raise TimeoutError(f"{len(wires)} viewers did not get all of a turn within {seconds:g} s")
