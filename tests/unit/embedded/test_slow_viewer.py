"""A viewer of the development server's WebSocket that takes nothing of what it asked for."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from pathlib import Path

from websockets.asyncio.client import connect

from perdure.embedded.sockets import Sockets
from tests.unit.api.builders import Desk, a_runtime, a_server
from tests.unit.embedded.test_sockets import a_ticket, address, at_rest, attached


async def test_a_viewer_that_takes_nothing_is_let_go_and_harms_nobody(tmp_path: Path) -> None:
    async with a_runtime(tmp_path, Desk()) as runtime:
        for _ in range(8):
            await at_rest(runtime, "x" * 250_000)
        end = (await runtime.session("s-1").snapshot())["cursor"]
        sockets = Sockets(runtime.service, send_seconds=0.2)
        let_go = word_of("a viewer was let go")
        async with a_server(runtime.service, sockets=sockets) as url:
            ticket, other = await a_ticket(url), await a_ticket(url)
            host, port = url.removeprefix("http://").split(":")
            slow = socket_of_4_kb()
            await asyncio.get_running_loop().sock_connect(slow, (host, int(port)))
            reader, writer = await asyncio.open_connection(sock=slow)
            upgrade = f"GET /v1/socket?ticket={ticket} HTTP/1.1\r\nhost: {host}:{port}\r\nupgrade: websocket\r\n"
            writer.write(
                f"{upgrade}connection: Upgrade\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                "sec-websocket-version: 13\r\n\r\n".encode()
            )
            await reader.readuntil(b"\r\n\r\n")
            for number in range(6):  # 2 MB each, which nobody reads
                asking = {"type": "command", "request_id": str(number), "operation": "get_session", "session_id": "s-1"}
                frame = json.dumps(asking).encode()
                writer.write(b"\x81" + bytes([0x80 | len(frame)]) + b"\0\0\0\0" + frame)
            async with connect(address(url, other), proxy=None) as socket:
                assert (await attached(socket, after=end))["type"] == "attached"
            async with asyncio.timeout(20):
                await let_go.wait()
                widen(slow)
                while await reader.read(1 << 20):  # what was under way, and then the end
                    pass
            writer.close()


def word_of(message: str) -> asyncio.Event:
    """Return what is set when our log says something."""
    said = asyncio.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == message:
                said.set()

    logger = logging.getLogger("perdure")
    logger.setLevel(logging.INFO)
    logger.addHandler(Listener())
    return said


def widen(slow: socket.socket) -> None:
    """Let a client's socket take much at a time."""
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)


def socket_of_4_kb() -> socket.socket:
    """Return a client's socket that takes little at a time."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.setblocking(False)
    return made
