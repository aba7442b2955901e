"""The WebSocket API's side of Perdure: who may connect, and what a connection may ask for.

A connection is opened with a ticket. `ping` and `command` are answered as their route's response; everything else only
changes what the connection is sent, by the pumps of its subscriptions (docs/concepts/streams.md).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

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
from perdure.api.messages import TicketIssuer
from perdure.aws import keys
from perdure.aws.bootstrap import Runtime
from perdure.aws.handlers import Handler
from perdure.aws.holders import read_holder
from perdure.aws.limits import TICKET_LIFETIME
from perdure.aws.subscriptions import Subscription
from perdure.aws.tickets import TicketHolder
from perdure.core.codec import format_time
from perdure.core.cursor import Cursor
from perdure.core.expected import awaited_steps
from perdure.errors import RequestError, TooManyRequestsError, TransientError, UnauthorizedError
from perdure.ports import SessionKey
from perdure.service import Caller
from perdure.streams.delivery import Attachment, Delivery
from perdure.streams.drive import begun
from perdure.streams.parts import frame_texts

logger = logging.getLogger("perdure")

JsonObject = dict[str, Any]

MAX_SUBSCRIPTIONS = 64
"""Subscriptions of one connection at a time. Our own choice: more than any page shows."""

_OK: JsonObject = {"statusCode": 200}


def socket_handler(runtime: Callable[[], Runtime]) -> Handler:
    """Return the handler of all routes of the WebSocket API: `$connect`, `$disconnect` and messages."""

    def handler(event: JsonObject, _context: Any) -> JsonObject:
        container = runtime()
        context = event["requestContext"]
        if context["eventType"] == "CONNECT":
            return _OK
        if context["eventType"] == "DISCONNECT":
            container.run(_leave(container, context["connectionId"]))
            return _OK
        body = container.run(_answer(container, event))
        return {"statusCode": 200, "body": body} if body is not None else _OK

    return handler


async def _leave(container: Runtime, connection_id: str) -> None:
    """Drop a connection's subscriptions. Nobody asks again: what is left goes at the first post, or with its TTL."""
    try:
        await container.subscriptions.drop_connection(connection_id)
    except TransientError as error:
        logger.warning("the subscriptions of a closed connection were left behind", extra={"error": error.code})


async def _answer(container: Runtime, event: JsonObject) -> str | None:
    """Carry a frame out, and return the text that its route answers with, if it has one.

    Only `$default` has a response. What is too large for one frame is posted in parts.
    """
    connection_id = str(event["requestContext"]["connectionId"])
    frame: JsonObject | None
    try:
        frame = await _Frames(container, connection_id, event).carry_out()
    except UnauthorizedError as error:
        await container.pump.post(connection_id, error_frame(error, event.get("body")))
        await container.pump.close(connection_id)
        return None
    except (RequestError, TransientError) as error:  # after a transient one the viewer asks again
        frame = error_frame(error, event.get("body"))
    if frame is None:
        return None
    texts = frame_texts(frame)
    if event["requestContext"]["routeKey"] == "$default" and len(texts) == 1:
        return texts[0]
    await container.pump.post(connection_id, frame)
    return None


class _Frames:
    """What one frame of a connection asks for."""

    def __init__(self, container: Runtime, connection_id: str, event: JsonObject) -> None:
        self._container = container
        self._connection_id = connection_id
        self._text = event.get("body")
        self._holder = read_holder(event["requestContext"]["authorizer"]["holder"])

    async def carry_out(self) -> JsonObject | None:
        """Return the frame that answers; None: what there is to say comes from a pump."""
        until = self._holder.until
        if until is not None and until <= self._container.clock.now():
            raise UnauthorizedError("the token of this connection has ended: connect again with a new ticket")
        frame = read_frame(self._text)
        if isinstance(frame, Ping):
            await self._look_again()
            return PONG
        if isinstance(frame, SocketCommand):
            return await acknowledged(frame, self._container.service, self._caller)
        if isinstance(frame, Attach):
            attachment = Attachment(frame.session_id, frame.after)
            await begun(self._container.service, self._caller, attachment)
            await self._subscribe(attachment)
        elif isinstance(frame, Detach):
            await self._container.subscriptions.remove(self._key(frame.session_id), self._connection_id)
            return {"type": "detached", "session_id": frame.session_id}
        elif isinstance(frame, ChatAbort):
            await self._abort(_name_of(frame.request_id))
        else:
            return await self._chat(frame)
        return None

    async def _chat(self, frame: ChatSend | ChatResume) -> JsonObject | None:
        answer = await chat_answer(frame, self._container.service, self._caller)
        if answer is None:
            return no_active(frame)
        await self._subscribe(answer, _name_of(frame.request_id))
        return None

    async def _abort(self, name: str) -> None:
        subscriptions = self._container.subscriptions
        for key, known in await subscriptions.of_connection(self._connection_id):
            if known == name:
                await subscriptions.remove(key, self._connection_id, name)

    async def _subscribe(self, delivery: Delivery, name: str = "") -> None:
        """Keep a delivery, and send what there is so far."""
        subscriptions = self._container.subscriptions
        key = self._key(delivery.session_id)
        others = [one for one in await subscriptions.of_connection(self._connection_id) if one != (key, name)]
        if len(others) >= MAX_SUBSCRIPTIONS:
            raise TooManyRequestsError(f"this connection has {MAX_SUBSCRIPTIONS} subscriptions: detach from one first")
        made = await subscriptions.add(
            key, self._connection_id, self._holder, kind=delivery.kind, state=delivery.state(), name=name
        )
        await self._container.pump.deliver(made)

    async def _look_again(self) -> None:
        """Send what a viewer was not sent: a word to its pump may have been lost with the process that had it."""
        subscriptions = self._container.subscriptions
        named = await subscriptions.of_connection(self._connection_id)
        found = await asyncio.gather(*(subscriptions.read(key, self._connection_id, name) for key, name in named))
        await asyncio.gather(*(self._catch_up(one) for one in found if one is not None))

    async def _catch_up(self, subscription: Subscription) -> None:
        head = await self._container.store.peek(subscription.key)
        cursor, opened = subscription.state["cursor"], subscription.state["opened"]
        if cursor is not None and opened and not awaited_steps(head):
            place = Cursor.decode(cursor, subscription.key.session_id)
            if place.version > head.version:
                return
        await self._container.pump.deliver(subscription)

    @property
    def _caller(self) -> Caller:
        return Caller(tenant=self._holder.tenant, actor=self._holder.actor, until=self._holder.until)

    def _key(self, session_id: str) -> SessionKey:
        return SessionKey(tenant=self._holder.tenant, session_id=session_id)


def _name_of(request_id: str) -> str:
    return keys.sha256(request_id)[:24]


def ticket_issuer(runtime: Callable[[], Runtime]) -> TicketIssuer:
    """Return what answers `POST /v1/socket-tickets`: `{ticket, expires_at}`."""

    async def issue(caller: Caller) -> JsonObject:
        container = runtime()
        ends_at = container.clock.now() + TICKET_LIFETIME
        holder = TicketHolder(tenant=caller.tenant, actor=caller.actor, until=caller.until)
        return {"ticket": await container.tickets.issue(holder), "expires_at": format_time(ends_at)}

    return issue
