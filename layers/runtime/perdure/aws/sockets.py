"""The WebSocket API's side of Perdure: who may connect, and what a connection may ask for.

A connection is opened with a ticket and asks for sessions by `{"type": "subscribe", "session_id": …}`. What it gets are
frames that say *that* a session changed; it then reads `events` by cursor over HTTP. Answers are frames too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from perdure.api.messages import TicketIssuer
from perdure.aws import keys
from perdure.aws.bootstrap import Runtime
from perdure.aws.handlers import Handler
from perdure.aws.limits import TICKET_LIFETIME
from perdure.aws.tickets import TicketHolder
from perdure.core.codec import format_time, from_millis, to_millis
from perdure.core.entries import Actor
from perdure.errors import InvalidRequestError, NotFoundError, RequestError, UnauthorizedError
from perdure.ports import SessionKey
from perdure.service import Caller

JsonObject = dict[str, Any]

_SESSION_ID = r"^[A-Za-z0-9._:-]{1,128}$"
_OK: JsonObject = {"statusCode": 200}


class _Frame(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class _Subscribe(_Frame):
    type: Literal["subscribe"]
    session_id: str = Field(pattern=_SESSION_ID)


class _Unsubscribe(_Frame):
    type: Literal["unsubscribe"]
    session_id: str = Field(pattern=_SESSION_ID)


class _Ping(_Frame):
    type: Literal["ping"]


_FRAMES: TypeAdapter[_Subscribe | _Unsubscribe | _Ping] = TypeAdapter(_Subscribe | _Unsubscribe | _Ping)


def authorize_handler(runtime: Callable[[], Runtime]) -> Handler:
    """Return the authorizer of `$connect`: it uses up the ticket and says whose connection this is."""

    def handler(event: JsonObject, _context: Any) -> JsonObject:
        container = runtime()
        ticket = (event.get("queryStringParameters") or {}).get("ticket") or ""
        holder = container.run(container.tickets.redeem(ticket)) if ticket else None
        return _verdict(event["methodArn"], holder)

    return handler


def _verdict(method_arn: str, holder: TicketHolder | None) -> JsonObject:
    """Return an IAM policy. A refusal is an answer and not an error, so that it raises no alarm."""
    statement = {
        "Action": "execute-api:Invoke",
        "Effect": "Allow" if holder else "Deny",
        "Resource": method_arn,
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    if holder is None:
        return {"principalId": "nobody", "policyDocument": policy}
    return {
        # Shown in API Gateway's own logs, hence no name.
        "principalId": keys.sha256(json.dumps([holder.actor.issuer, holder.actor.subject])),
        "policyDocument": policy,
        "context": {"holder": _written(holder)},
    }


def socket_handler(runtime: Callable[[], Runtime]) -> Handler:
    """Return the handler of all routes of the WebSocket API: `$connect`, `$disconnect` and messages."""

    def handler(event: JsonObject, _context: Any) -> JsonObject:
        container = runtime()
        context = event["requestContext"]
        if context["eventType"] == "CONNECT":
            return _OK
        if context["eventType"] == "DISCONNECT":
            container.run(container.subscriptions.drop_connection(context["connectionId"]))
            return _OK
        return {"statusCode": 200, "body": json.dumps(container.run(_answer(container, event)))}

    return handler


async def _answer(container: Runtime, event: JsonObject) -> JsonObject:
    try:
        return await _carry_out(container, event)
    except RequestError as error:
        return {"type": "error", "code": error.code, "message": error.message}


async def _carry_out(container: Runtime, event: JsonObject) -> JsonObject:
    context = event["requestContext"]
    connection_id = str(context["connectionId"])
    frame = _read_frame(event.get("body"))
    if isinstance(frame, _Ping):
        return {"type": "pong"}
    holder = _read(context["authorizer"]["holder"])
    if holder.until is not None and holder.until <= container.clock.now():
        raise UnauthorizedError("the token of this connection has ended: connect again with a new ticket")
    key = SessionKey(tenant=holder.tenant, session_id=frame.session_id)
    if isinstance(frame, _Unsubscribe):
        await container.subscriptions.remove(key, connection_id)
        return {"type": "unsubscribed", "session_id": key.session_id}
    head = await container.store.peek(key)
    if not head.exists or head.owner != holder.actor:
        raise NotFoundError(f"there is no session {key.session_id!r}: subscribe after its first message was accepted")
    await container.subscriptions.add(key, connection_id, until=holder.until)
    return {"type": "subscribed", "session_id": key.session_id}


def _read_frame(body: Any) -> _Subscribe | _Unsubscribe | _Ping:
    try:
        return _FRAMES.validate_json(body or "")
    except ValidationError:
        raise InvalidRequestError(
            "this frame is not understood: send JSON with the type `subscribe` or `unsubscribe` and a `session_id`, "
            "or the type `ping`"
        ) from None


def ticket_issuer(runtime: Callable[[], Runtime]) -> TicketIssuer:
    """Return what answers `POST /v1/socket-tickets`: `{ticket, expires_at}`."""

    async def issue(caller: Caller) -> JsonObject:
        container = runtime()
        ends_at = container.clock.now() + TICKET_LIFETIME
        holder = TicketHolder(tenant=caller.tenant, actor=caller.actor, until=caller.until)
        return {"ticket": await container.tickets.issue(holder), "expires_at": format_time(ends_at)}

    return issue


def _written(holder: TicketHolder) -> str:
    """Return a holder as ASCII JSON: an authorizer's context takes flat text only."""
    until = to_millis(holder.until) if holder.until else None
    return json.dumps([holder.tenant, holder.actor.issuer, holder.actor.subject, until])


def _read(written: str) -> TicketHolder:
    tenant, issuer, subject, until = json.loads(written)
    actor = Actor(issuer=issuer, subject=subject)
    return TicketHolder(tenant=tenant, actor=actor, until=from_millis(until) if until is not None else None)
