"""Users of the deployed stack: over HTTP with `perdure.connect`, and over the WebSocket API as a browser would."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar, cast

import httpx
from websockets.asyncio.client import ClientConnection, connect

import perdure
from perdure.client import Client
from perdure.core.cursor import Cursor
from perdure.errors import StoreUnavailableError
from perdure.session import Session
from perdure.testing.processes import again_until_answered, poll_until
from tests.e2e.outside import Outside
from tests.e2e.stack import Stack

JsonObject = dict[str, Any]

T = TypeVar("T")

LOOK_SECONDS = 0.3

ANSWERS = {"attach": ("attached",), "detach": ("detached",), "ping": ("pong",), "command": ("ack",)}
"""What answers a frame that a viewer sends."""

REQUESTS_AT_ONCE = 4
"""Of all users together: the emulator makes a process for each, which on two cores takes longer than any answer."""

_turnstile = asyncio.Semaphore(REQUESTS_AT_ONCE)

PATIENCE_SECONDS = 180.0
"""How long a turn may take on a slow machine that starts its functions cold, and when the sweep has to help."""


async def ended(
    session: Session,
    *,
    turns: int = 1,
    timeout_seconds: float = PATIENCE_SECONDS,
    interval_seconds: float = LOOK_SECONDS,
) -> JsonObject:
    """Wait until so many turns have ended and none runs; return the snapshot."""

    async def look() -> JsonObject | None:
        snapshot = await answered(session.snapshot)
        state = snapshot["state"]
        over = state is not None and "turn_id" not in state and state["turn_count"] >= turns
        return snapshot if over else None

    return cast(
        "JsonObject", await poll_until(look, timeout_seconds=timeout_seconds, interval_seconds=interval_seconds)
    )


async def asked(session: Session, *, timeout_seconds: float = PATIENCE_SECONDS) -> str:
    """Wait until the session asks a person for one approval, and return its id."""

    async def look() -> list[JsonObject]:
        snapshot = await answered(session.snapshot)
        found: list[JsonObject] = snapshot["pending_interrupts"]
        return found

    waiting: list[JsonObject] = await poll_until(look, timeout_seconds=timeout_seconds, interval_seconds=LOOK_SECONDS)
    assert len(waiting) == 1, waiting
    return str(waiting[0]["interrupt_id"])


async def answered(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until an answer comes, as a client does whose server can't be reached: the same request, with its key."""
    return await again_until_answered(ask, timeout_seconds=PATIENCE_SECONDS)


def last_text(snapshot: JsonObject) -> str:
    """Return the text of the latest message."""
    return "".join(part["text"] for part in snapshot["messages"][-1]["parts"] if part["type"] == "text")


class User:
    """One person with a token."""

    def __init__(self, stack: Stack, outside: Outside, token: str) -> None:
        self._stack = stack
        self._outside = outside
        self.token = token

    @contextlib.asynccontextmanager
    async def http(self) -> AsyncIterator[httpx.AsyncClient]:
        """A plain HTTP client at the stack's own address."""
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        async with httpx.AsyncClient(
            base_url=self._stack.outputs["HttpUrl"], headers=headers, transport=self._transport(), timeout=40
        ) as http:
            yield http

    def client(self) -> Client:
        """Return what `perdure.connect` gives."""
        return perdure.connect(self._stack.outputs["HttpUrl"], token=self.token, transport=self._transport())

    @contextlib.asynccontextmanager
    async def session(self, session_id: str, agent: str | None = None) -> AsyncIterator[Session]:
        """One session, by its own client."""
        async with self.client() as client:
            yield client.session(session_id, agent=agent)

    async def ticket(self) -> str:
        """Return a new ticket for the WebSocket API."""
        async with self.http() as http:
            reply = await http.post("/v1/socket-tickets", json={})
            if reply.status_code == 503:
                raise StoreUnavailableError("no ticket could be written")
            assert reply.status_code == 200, reply.text
            return str(reply.json()["ticket"])

    @contextlib.asynccontextmanager
    async def socket(self, ticket: str | None = None) -> AsyncIterator[Socket]:
        """A WebSocket, opened with a ticket."""
        url = f"{self._stack.outputs['SocketUrl']}?ticket={ticket or await answered(self.ticket)}"
        async with connect(
            url, ssl=self._outside.trust(), proxy=self._outside.proxy, open_timeout=PATIENCE_SECONDS
        ) as connection:
            yield Socket(connection)

    def _transport(self) -> httpx.AsyncBaseTransport:
        return _Transport(proxy=self._outside.proxy, verify=self._outside.trust())


class _Transport(httpx.AsyncHTTPTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        async with _turnstile:
            return await super().handle_async_request(request)


class Socket:
    """What a viewer does with a connection. Frames are read when somebody expects them, parts put together.

    Attributes:
        parts: How many `part` frames came.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.parts = 0
        self._kept: list[JsonObject] = []
        self._unfinished: dict[str, dict[int, str]] = {}

    async def send(self, **frame: Any) -> None:
        """Send a frame."""
        await self.connection.send(json.dumps(frame))

    async def ask(self, **frame: Any) -> JsonObject:
        """Send a frame of our own protocol and return what answers it, an `error` included."""
        await self.send(**frame)
        return await self.expect(*ANSWERS.get(frame["type"], ()), "error")

    async def expect(self, *types: str) -> JsonObject:
        """Return the next frame of one of these types; those of others are kept for who expects them."""
        for place, frame in enumerate(self._kept):
            if frame.get("type") in types:
                return self._kept.pop(place)
        while True:
            frame = await self._receive()
            if frame.get("type") in types:
                return frame
            assert frame.get("type") not in ("error", "access_denied"), frame
            self._kept.append(frame)

    def heard(self, *types: str) -> list[JsonObject]:
        """Return the frames of these types that came and nobody has expected yet; the next will be behind them."""
        found = [frame for frame in self._kept if frame.get("type") in types]
        self._kept = [frame for frame in self._kept if frame.get("type") not in types]
        return found

    async def _receive(self) -> JsonObject:
        while True:
            async with asyncio.timeout(PATIENCE_SECONDS):
                frame: JsonObject = json.loads(await self.connection.recv())
            if frame.get("type") != "part":
                return frame
            self.parts += 1
            known = self._unfinished.setdefault(frame["part_id"], {})
            known[frame["index"]] = frame["data"]
            if len(known) == frame["count"]:
                texts = self._unfinished.pop(frame["part_id"])
                whole: JsonObject = json.loads("".join(texts[index] for index in range(len(texts))))
                return whole


class Viewer:
    """Watches a session over connections that come and go, and goes on from its cursor with each."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.cursor = Cursor().encode(session_id)
        self.events: list[JsonObject] = []

    async def attach(self, socket: Socket) -> None:
        """Have what follows sent to this connection."""
        reply = await socket.ask(type="attach", session_id=self.session_id, after=self.cursor)
        assert reply == {"type": "attached", "session_id": self.session_id, "cursor": self.cursor}, reply

    async def watch(self, socket: Socket, until: str) -> None:
        """Take what comes until an event of this type did."""
        seen = len(self.events)
        while not any(event["type"] == until for event in self.events[seen:]):
            self.take(await socket.expect("events"))

    def take(self, frame: JsonObject) -> None:
        """Take one `events` frame."""
        assert frame["session_id"] == self.session_id, frame
        self.events += frame["events"]
        self.cursor = frame["cursor"]

    @property
    def durable(self) -> list[JsonObject]:
        """The events on record that came, in the order in which they came."""
        return [event for event in self.events if "sequence" in event]

    @property
    def sequences(self) -> list[int]:
        """Their numbers."""
        return [event["sequence"] for event in self.durable]
