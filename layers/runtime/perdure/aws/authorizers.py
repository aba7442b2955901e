"""Who may open a WebSocket or a stream: the authorizers of the WebSocket API and of the stream API.

What they find out goes to the function behind them in the authorizer's context, and from nowhere else. A refusal is
never kept by API Gateway (TTL 0), and neither is a permission: a ticket opens one connection.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perdure.api.claims import caller_of_claims
from perdure.aws import keys
from perdure.aws.bootstrap import Runtime
from perdure.aws.handlers import Handler
from perdure.aws.holders import written_holder
from perdure.aws.tickets import TicketHolder
from perdure.errors import ForbiddenError, UnauthorizedError

logger = logging.getLogger("perdure")

JsonObject = dict[str, Any]


class NobodyKnownError(Exception):
    """Becomes a 401: API Gateway takes this very message for one, and any other for a failure of ours."""

    def __init__(self) -> None:
        super().__init__("Unauthorized")


def authorize_handler(runtime: Callable[[], Runtime]) -> Handler:
    """Return the authorizer of `$connect`: it uses up the ticket and says whose connection this is.

    A page of an origin that is not allowed is refused before its ticket is touched. Whoever sends no `Origin` is no
    browser, and has no page's user to act for.
    """

    def handler(event: JsonObject, _context: Any) -> JsonObject:
        container = runtime()
        if not _comes_from_an_allowed_page(event, container.settings.origins):
            return _verdict(event["methodArn"], None)
        ticket = (event.get("queryStringParameters") or {}).get("ticket") or ""
        holder = container.run(container.tickets.redeem(ticket)) if ticket else None
        return _verdict(event["methodArn"], holder)

    return handler


def authorize_stream_handler(runtime: Callable[[], Runtime]) -> Handler:
    """Return the authorizer of the stream API: a bearer token in `Authorization`, or else a single-use `?ticket=`.

    A browser's `EventSource` can't send headers, hence the ticket. A token that is not valid is a 401; a valid one
    that names no tenant or no subject is a 403, as at the HTTP API.
    """

    def handler(event: JsonObject, _context: Any) -> JsonObject:
        container = runtime()
        try:
            holder = container.run(_holder_of(event, container))
        except UnauthorizedError as error:
            logger.info("a stream was refused", extra={"reason": error.message})
            raise NobodyKnownError from None
        except ForbiddenError as error:
            logger.info("a stream was refused", extra={"reason": error.message})
            holder = None
        return _verdict(event["methodArn"], holder)

    return handler


async def _holder_of(event: JsonObject, container: Runtime) -> TicketHolder:
    tokens = _values(event, "authorization")
    if tokens:
        scheme, _, token = tokens[0].partition(" ")
        if len(tokens) > 1 or scheme.lower() != "bearer" or not token.strip():
            raise UnauthorizedError("send one `Authorization: Bearer` header")
        claims = await container.tokens.verify(token.strip())
        caller = caller_of_claims(claims, container.settings.tenant_claim)
        return TicketHolder(tenant=caller.tenant, actor=caller.actor, until=caller.until)
    ticket = (event.get("queryStringParameters") or {}).get("ticket")
    if not ticket:
        raise UnauthorizedError("there is neither a token nor a ticket")
    holder = await container.tickets.redeem(ticket)
    if holder is None:
        raise UnauthorizedError("the ticket is unknown, too old or used")
    if holder.until is not None and holder.until <= container.clock.now():
        raise UnauthorizedError("the token that the ticket was given for has ended")
    return holder


def _comes_from_an_allowed_page(event: JsonObject, allowed: Sequence[str]) -> bool:
    return not allowed or all(origin in allowed for origin in _values(event, "origin"))


def _values(event: JsonObject, name: str) -> list[str]:
    """Return all values of a header, whose name keeps the case in which the client sent it."""
    found: Mapping[str, Any] = event.get("multiValueHeaders") or {
        header: [value] for header, value in (event.get("headers") or {}).items()
    }
    return [str(value) for header, values in found.items() if header.lower() == name for value in values or []]


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
        "context": {"holder": written_holder(holder)},
    }
