"""The development server's WebSocket: the protocol of the AWS deployment, in one process (docs/operations.md).

A frame says *that* a session changed; the viewer then reads `events` by its cursor.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from perdure.api.frames import PONG, Ping, Unsubscribe, error_frame, no_session, read_frame
from perdure.core.codec import format_time
from perdure.core.cursor import Cursor
from perdure.embedded.clock import SystemClock, new_id
from perdure.errors import NotFoundError, PerdureError, RequestError
from perdure.ports import Clock
from perdure.service import Caller, Service

JsonObject = dict[str, Any]

SOCKET_PATH = "/v1/socket"

TICKET_LIFETIME = timedelta(seconds=60)
"""How long a ticket can be used, once (surface §4)."""

WAIT_SECONDS = 20.0
"""How long one look for a change waits, in seconds: the longest that the service does (surface §4.1)."""

POLICY_VIOLATION = 1008
TRY_AGAIN_LATER = 1013
"""Close codes (RFC 6455 and its registry)."""


async def refuse(socket: WebSocket) -> None:
    """Refuse a connection before it begins: its client gets a 403."""
    await socket.close(POLICY_VIOLATION)


class Sockets:
    """Issues tickets, in memory, and serves the connections that are opened with them.

    Args:
        new_ticket: Makes tickets that nobody can guess.
    """

    def __init__(self, service: Service, *, clock: Clock | None = None, new_ticket: Callable[[], str] = new_id) -> None:
        self._service = service
        self._clock: Clock = clock or SystemClock()
        self._new_ticket = new_ticket
        self._tickets: dict[str, tuple[Caller, datetime]] = {}

    async def issue(self, caller: Caller) -> JsonObject:
        """Return `{ticket, expires_at}` for a caller: a `TicketIssuer`."""
        now = self._clock.now()
        self._tickets = {ticket: kept for ticket, kept in self._tickets.items() if kept[1] > now}
        ticket = self._new_ticket()
        self._tickets[ticket] = (caller, now + TICKET_LIFETIME)
        return {"ticket": ticket, "expires_at": format_time(now + TICKET_LIFETIME)}

    async def serve(self, socket: WebSocket) -> None:
        """Serve one connection until it ends; without a good ticket it is refused before it begins (403)."""
        caller = self.redeem(socket.query_params.get("ticket", ""))
        if caller is None:
            await refuse(socket)
            return
        await socket.accept()
        await _Connection(socket, self._service, caller).run()

    def redeem(self, ticket: str) -> Caller | None:
        """Use a ticket up and return its holder. None: there is no such ticket, it is too old, or it was used."""
        caller, ends = self._tickets.pop(ticket, (None, None))
        return caller if ends is not None and ends > self._clock.now() else None


class _Connection:
    """One viewer and the sessions that it watches."""

    def __init__(self, socket: WebSocket, service: Service, caller: Caller) -> None:
        self._socket = socket
        self._service = service
        self._caller = caller
        self._watching: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        try:
            while True:
                message = await self._socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                await self._say(await self._answer(message.get("text")))
        except WebSocketDisconnect:
            return
        finally:
            for task in self._watching.values():
                task.cancel()
            await asyncio.gather(*self._watching.values(), return_exceptions=True)

    async def _answer(self, text: str | None) -> JsonObject:
        try:
            return await self._carry_out(text)
        except RequestError as error:
            return error_frame(error)

    async def _carry_out(self, text: str | None) -> JsonObject:
        frame = read_frame(text)
        if isinstance(frame, Ping):
            return PONG
        if isinstance(frame, Unsubscribe):
            if (task := self._watching.pop(frame.session_id, None)) is not None:
                task.cancel()
            return {"type": "unsubscribed", "session_id": frame.session_id}
        await self._subscribe(frame.session_id)
        return {"type": "subscribed", "session_id": frame.session_id}

    async def _subscribe(self, session_id: str) -> None:
        try:
            snapshot = await self._service.snapshot(self._caller, session_id)
        except NotFoundError:
            raise no_session(session_id) from None
        if snapshot["state"] is None:
            raise no_session(session_id)
        if session_id not in self._watching:
            self._watching[session_id] = asyncio.create_task(self._watch(session_id, snapshot["cursor"]))

    async def _watch(self, session_id: str, cursor: str) -> None:
        """Tell of every change from a cursor on. A viewer that can't be told has to connect and read again."""
        try:
            while True:
                page = await self._service.events(self._caller, session_id, after=cursor, wait_seconds=WAIT_SECONDS)
                cursor = page["cursor"]
                for frame in _frames(session_id, page["events"]):
                    await self._say(frame)
        except (PerdureError, WebSocketDisconnect):
            await self._socket.close(TRY_AGAIN_LATER)

    async def _say(self, frame: JsonObject) -> None:
        await self._socket.send_text(json.dumps(frame))


def _frames(session_id: str, events: Sequence[JsonObject]) -> list[JsonObject]:
    """Return one frame for each commit and each running step that some events tell of."""
    frames: dict[object, JsonObject] = {}
    for event in events:
        if "sequence" in event:
            version = Cursor.decode(event["cursor"], session_id).version
            frames[version] = {"type": "changed", "session_id": session_id, "version": version}
        else:
            step = event["step_execution_id"]
            frames[step] = {"type": "changed", "session_id": session_id, "step_execution_id": step}
            if "turn_id" in event:
                frames[step]["turn_id"] = event["turn_id"]
    return list(frames.values())
