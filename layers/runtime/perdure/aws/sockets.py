"""The WebSocket API's side of Perdure: who may connect, and what a connection may ask for.

A connection is opened with a ticket and asks for sessions by `{"type": "subscribe", "session_id": …}`. What it gets are
frames that say *that* a session changed; it then reads `events` by cursor over HTTP. Answers are frames too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from perdure.access import check_access
from perdure.api.frames import PONG, Ping, Unsubscribe, error_frame, no_session, read_frame
from perdure.api.messages import TicketIssuer
from perdure.aws.bootstrap import Runtime
from perdure.aws.handlers import Handler
from perdure.aws.holders import read_holder
from perdure.aws.limits import TICKET_LIFETIME
from perdure.aws.tickets import TicketHolder
from perdure.core.codec import format_time
from perdure.errors import RequestError, TransientError, UnauthorizedError
from perdure.ports import SessionKey
from perdure.service import Caller

logger = logging.getLogger("perdure")

JsonObject = dict[str, Any]

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
        return {"statusCode": 200, "body": json.dumps(container.run(_answer(container, event)))}

    return handler


async def _leave(container: Runtime, connection_id: str) -> None:
    """Drop a connection's subscriptions. Nobody asks again: what is left goes at the first post, or with its TTL."""
    try:
        await container.subscriptions.drop_connection(connection_id)
    except TransientError as error:
        logger.warning("the subscriptions of a closed connection were left behind", extra={"error": error.code})


async def _answer(container: Runtime, event: JsonObject) -> JsonObject:
    try:
        return await _carry_out(container, event)
    except (RequestError, TransientError) as error:  # after a transient one the viewer asks again
        return error_frame(error)


async def _carry_out(container: Runtime, event: JsonObject) -> JsonObject:
    context = event["requestContext"]
    connection_id = str(context["connectionId"])
    frame = read_frame(event.get("body"))
    if isinstance(frame, Ping):
        return PONG
    holder = read_holder(context["authorizer"]["holder"])
    if holder.until is not None and holder.until <= container.clock.now():
        raise UnauthorizedError("the token of this connection has ended: connect again with a new ticket")
    key = SessionKey(tenant=holder.tenant, session_id=frame.session_id)
    if isinstance(frame, Unsubscribe):
        await container.subscriptions.remove(key, connection_id)
        return {"type": "unsubscribed", "session_id": key.session_id}
    head = await container.store.peek(key)
    if not head.exists:
        raise no_session(key.session_id)
    caller = Caller(tenant=holder.tenant, actor=holder.actor, until=holder.until)
    check_access(container.authorize, caller, key, head, "read")
    await container.subscriptions.add(key, connection_id, until=holder.until)
    return {"type": "subscribed", "session_id": key.session_id}


def ticket_issuer(runtime: Callable[[], Runtime]) -> TicketIssuer:
    """Return what answers `POST /v1/socket-tickets`: `{ticket, expires_at}`."""

    async def issue(caller: Caller) -> JsonObject:
        container = runtime()
        ends_at = container.clock.now() + TICKET_LIFETIME
        holder = TicketHolder(tenant=caller.tenant, actor=caller.actor, until=caller.until)
        return {"ticket": await container.tickets.issue(holder), "expires_at": format_time(ends_at)}

    return issue
