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
from perdure.errors import StoreUnavailableError
from perdure.session import Session
from perdure.testing.processes import again_until_answered, poll_until
from tests.e2e.outside import Outside
from tests.e2e.stack import Stack

JsonObject = dict[str, Any]

T = TypeVar("T")

LOOK_SECONDS = 0.3

REQUESTS_AT_ONCE = 6
"""Of all users together: the emulator makes a process for each, which on two cores takes longer than any answer."""

_turnstile = asyncio.Semaphore(REQUESTS_AT_ONCE)

PATIENCE_SECONDS = 180.0
"""How long a turn may take on a slow machine that starts its functions cold, and when the sweep has to help."""


async def ended(session: Session, *, turns: int = 1, timeout_seconds: float = PATIENCE_SECONDS) -> JsonObject:
    """Wait until so many turns have ended and none runs; return the snapshot."""

    async def look() -> JsonObject | None:
        snapshot = await answered(session.snapshot)
        state = snapshot["state"]
        over = state is not None and "turn_id" not in state and state["turn_count"] >= turns
        return snapshot if over else None

    return cast("JsonObject", await poll_until(look, timeout_seconds=timeout_seconds, interval_seconds=LOOK_SECONDS))


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
        url = f"{self._stack.outputs['SocketUrl']}?ticket={ticket or await self.ticket()}"
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
    """What a viewer does with a connection."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.changes: list[JsonObject] = []

    async def ask(self, **frame: Any) -> JsonObject:
        """Send a frame and return its answer; `changed` frames that come before it are kept."""
        await self.connection.send(json.dumps(frame))
        while True:
            reply = await self._receive()
            if reply.get("type") != "changed":
                return reply
            self.changes.append(reply)

    async def subscribe(self, session_id: str) -> None:
        """Subscribe to a session."""
        reply = await self.ask(type="subscribe", session_id=session_id)
        assert reply == {"type": "subscribed", "session_id": session_id}, reply

    async def change(self) -> JsonObject:
        """Return the next `changed` frame."""
        if self.changes:
            return self.changes.pop(0)
        frame = await self._receive()
        assert frame["type"] == "changed", frame
        return frame

    async def _receive(self) -> JsonObject:
        async with asyncio.timeout(PATIENCE_SECONDS):
            frame: JsonObject = json.loads(await self.connection.recv())
            return frame
