"""The development server's WebSocket: the protocols of the AWS deployment, in one process (docs/concepts/streams.md).

Each delivery of a connection is a task that reads the session behind its cursor and sends in order, so a slow viewer
costs one page of memory and holds nobody up; one that takes nothing for `SEND_SECONDS` is let go.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from perdure.api.frames import (
    PONG,
    Attach,
    ChatAbort,
    ChatResume,
    ChatSend,
    Detach,
    Ping,
    SocketCommand,
    acknowledged,
    chat_answer,
    error_frame,
    no_active,
    read_frame,
)
from perdure.core.codec import format_time
from perdure.embedded.clock import SystemClock, new_id
from perdure.errors import PerdureError, RequestError, TooManyRequestsError, TransientError
from perdure.operator_events import tell
from perdure.ports import Clock
from perdure.service import Caller, Service
from perdure.streams.chat import ChatAnswer
from perdure.streams.delivery import Attachment, Delivery
from perdure.streams.drive import begun, next_frames
from perdure.streams.parts import frame_texts

logger = logging.getLogger("perdure")

JsonObject = dict[str, Any]

SOCKET_PATH = "/v1/socket"

TICKET_LIFETIME = timedelta(seconds=60)
"""How long a ticket can be used, once (surface §4)."""

MAX_DELIVERIES = 64
"""Deliveries of one connection at a time. Our own choice: more than any page shows."""

MAX_COMMANDS = 16
"""Commands of one connection that are carried out at a time. Our own choice; the rest is refused with 429's code."""

SEND_SECONDS = 30.0
"""How long a viewer may take nothing of what is sent to it. Our own choice: a network that is away for longer comes
back with a new connection."""

POLICY_VIOLATION = 1008
TRY_AGAIN_LATER = 1013
"""Close codes (RFC 6455 and its registry)."""

ACCESS_ENDED = 4401
"""Close code: the token that the connection was opened with has ended. Ours, after HTTP's 401."""


async def refuse(socket: WebSocket) -> None:
    """Refuse a connection before it begins: its client gets a 403."""
    await socket.close(POLICY_VIOLATION)


class Sockets:
    """Issues tickets, in memory, and serves the connections that are opened with them.

    Args:
        new_ticket: Makes tickets that nobody can guess.
        send_seconds: As `SEND_SECONDS`.
    """

    def __init__(
        self,
        service: Service,
        *,
        clock: Clock | None = None,
        new_ticket: Callable[[], str] = new_id,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        self._service = service
        self._clock: Clock = clock or SystemClock()
        self._new_ticket = new_ticket
        self._send_seconds = send_seconds
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
        await _Connection(socket, self._service, caller, self._clock, self._send_seconds).run()

    def redeem(self, ticket: str) -> Caller | None:
        """Use a ticket up and return its holder. None: there is no such ticket, it is too old, or it was used."""
        caller, ends = self._tickets.pop(ticket, (None, None))
        return caller if ends is not None and ends > self._clock.now() else None


class _Connection:
    """One viewer, its deliveries and its commands."""

    def __init__(self, socket: WebSocket, service: Service, caller: Caller, clock: Clock, send_seconds: float) -> None:
        self._socket = socket
        self._service = service
        self._caller = caller
        self._clock = clock
        self._send_seconds = send_seconds
        self._sending = asyncio.Lock()
        self._deliveries: dict[str, asyncio.Task[None]] = {}
        self._answers: dict[str, ChatAnswer] = {}
        self._commands: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()

    async def run(self) -> None:
        """Serve it until its viewer leaves, or is let go: then the server ends it, whatever its buffers hold."""
        own = [asyncio.create_task(self._listen()), asyncio.create_task(self._closed.wait())]
        ending = [asyncio.create_task(self._end_with_token())] if self._caller.until is not None else []
        try:
            await asyncio.wait(own, return_when=asyncio.FIRST_COMPLETED)
        finally:
            tasks = [*own, *ending, *self._deliveries.values(), *self._commands]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            await self._guarded(self._answered(text, self._carry_out(text)))

    async def _carry_out(self, text: str | None) -> None:
        frame = read_frame(text)
        if isinstance(frame, Ping):
            await self._say(PONG)
        elif isinstance(frame, SocketCommand):
            self._aside(text, self._acknowledge(frame))
        elif isinstance(frame, Attach):
            attachment = Attachment(frame.session_id, frame.after)
            await begun(self._service, self._caller, attachment)
            await self._deliver(f"session {frame.session_id}", attachment)
        elif isinstance(frame, Detach):
            await self._end(f"session {frame.session_id}")
            await self._say({"type": "detached", "session_id": frame.session_id})
        elif isinstance(frame, ChatAbort):
            await self._end(f"request {frame.request_id}")
        else:
            self._aside(text, self._chat(frame))

    def _aside(self, text: str | None, work: Coroutine[Any, Any, None]) -> None:
        if len(self._commands) >= MAX_COMMANDS:
            work.close()
            raise TooManyRequestsError(
                f"this connection has {MAX_COMMANDS} commands under way: send the next when one was answered"
            )
        task = asyncio.create_task(self._guarded(self._answered(text, work)))
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (PerdureError, WebSocketDisconnect, TimeoutError):
            await self._close(TRY_AGAIN_LATER)
        except Exception as error:  # noqa: BLE001 - the edge: it is told, and this connection alone ends
            tell("fault", "a frame could not be carried out", error=error)
            await self._close(TRY_AGAIN_LATER)

    async def _answered(self, text: str | None, work: Coroutine[Any, Any, None]) -> None:
        """Say why a frame could not be carried out, to whoever sent it; after a transient failure it may come again."""
        try:
            await work
        except (RequestError, TransientError) as error:
            await self._say(error_frame(error, text))

    async def _acknowledge(self, command: SocketCommand) -> None:
        await self._say(await acknowledged(command, self._service, self._caller))

    async def _chat(self, frame: ChatSend | ChatResume) -> None:
        answer = await chat_answer(frame, self._service, self._caller)
        if answer is None:
            await self._say(no_active(frame))
        else:
            await self._deliver(f"request {frame.request_id}", answer)

    async def _deliver(self, name: str, delivery: Delivery) -> None:
        """Begin a delivery; an earlier one of the same name ends."""
        while name in self._deliveries:  # another may begin while one ends
            await self._end(name)
        if len(self._deliveries) >= MAX_DELIVERIES:
            raise TooManyRequestsError(f"this connection has {MAX_DELIVERIES} deliveries: detach from one first")
        self._deliveries[name] = asyncio.create_task(self._pump(name, delivery))
        if isinstance(delivery, ChatAnswer):
            self._answers[name] = delivery

    async def _end(self, name: str) -> None:
        """End a delivery; behind this nothing more comes of it."""
        self._answers.pop(name, None)
        if (task := self._deliveries.pop(name, None)) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _pump(self, name: str, delivery: Delivery) -> None:
        """Send what follows, in order, until it ends. A viewer that can't be told has to connect and read again."""
        try:
            while not delivery.ended:
                for frame in await next_frames(self._service, self._caller, delivery):
                    await self._say(frame)
        except RequestError as error:
            for frame in delivery.refused(error.code, error.message):
                await self._say(frame)
        except (PerdureError, WebSocketDisconnect, TimeoutError):
            await self._close(TRY_AGAIN_LATER)
        except Exception as error:  # noqa: BLE001 - as above
            tell("fault", "a delivery failed", error=error, session_id=delivery.session_id)
            await self._close(TRY_AGAIN_LATER)
        if self._deliveries.get(name) is asyncio.current_task():
            del self._deliveries[name]
            self._answers.pop(name, None)

    async def _say(self, frame: JsonObject) -> None:
        """Send one frame; its parts follow each other, and nobody else's come between.

        Raises:
            TimeoutError: The viewer takes nothing.
            WebSocketDisconnect: The connection is closed.
        """
        async with self._sending:
            for text in frame_texts(frame):
                if self._socket.application_state != WebSocketState.CONNECTED:
                    raise WebSocketDisconnect  # we closed it meanwhile
                async with asyncio.timeout(self._send_seconds):
                    await self._socket.send_text(text)

    async def _end_with_token(self) -> None:
        assert self._caller.until is not None
        left = (self._caller.until - self._clock.now()).total_seconds()
        await self._clock.sleep(max(left, 0))
        code, message = "unauthorized", "the token has ended"
        # AI SDK's client takes a frame that is about no request of its own for a broken protocol.
        last = [frame for answer in self._answers.values() for frame in answer.refused(code, message)]
        for name in list(self._answers):
            await self._end(name)
        with contextlib.suppress(TimeoutError, WebSocketDisconnect):  # it ends also for a viewer that takes nothing
            for frame in last or [{"type": "access_denied", "code": code, "message": message}]:
                await self._say(frame)
        await self._close(ACCESS_ENDED)

    async def _close(self, code: int) -> None:
        try:
            async with asyncio.timeout(1):
                await self._socket.close(code)
        except (RuntimeError, TimeoutError, WebSocketDisconnect):
            logger.info("a viewer was let go", extra={"close_code": code})
        self._closed.set()
