"""The API behind an API Gateway HTTP API (payload format 2.0), on Powertools' resolver.

Who calls is taken from the claims that the gateway's JWT authorizer has verified, and from nothing else. An HTTP API
can't stream: events are polled, with `wait_seconds`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from perdure.api.claims import caller_of_claims
from perdure.api.failures import envelope, failure
from perdure.api.handle import handle
from perdure.api.messages import ApiRequest, ApiResponse, JsonObject, TicketIssuer
from perdure.api.routes import ROUTES
from perdure.errors import PerdureError
from perdure.service import Caller, Service

MAX_RESPONSE_BYTES = 5 * 1024 * 1024
"""Largest response body, in bytes. Lambda's limit is 6 MB for the whole answer, in which the body is a JSON string
again (AWS Lambda Developer Guide, "Lambda quotas")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the other APIs of the deployment are. None: there is none."""

    stream_url: str | None = None
    socket_url: str | None = None


Handler = Callable[[JsonObject, Any], JsonObject]
Run = Callable[[Coroutine[Any, Any, ApiResponse]], ApiResponse]


def api_handler(
    service: Callable[[], Service],
    *,
    tenant_claim: str = "tenant",
    tickets: TicketIssuer | None = None,
    run: Run | None = None,
    places: Callable[[], Places] = Places,
) -> Handler:
    """Return the Lambda handler of the API.

    Args:
        service: Returns the service; called at the first request, so that an import connects to nothing.
        tenant_claim: Name of the verified claim that holds the caller's tenant.
        tickets: Issues WebSocket tickets; None: there is no such route.
        run: Runs a coroutine on the event loop of this container; a loop of its own by default.
        places: Says where what this API can't do is done; called with the first request, like `service`.
    """
    runs = run or _own_loop()
    app = APIGatewayHttpResolver()

    def answer(**_path: str) -> Response[str]:
        return _as_lambda(runs(_answer(dict(app.current_event.raw_event), service, tenant_claim, tickets, places)))

    for route in ROUTES:
        app.route(route.path.replace("{", "<").replace("}", ">"), method=[route.method])(answer)
    app.not_found(lambda _error: answer())

    def handler(event: JsonObject, context: Any) -> JsonObject:
        return app.resolve(event, context)

    return handler


async def _answer(
    event: JsonObject,
    service: Callable[[], Service],
    tenant_claim: str,
    tickets: TicketIssuer | None,
    places: Callable[[], Places],
) -> ApiResponse:
    try:
        known = places()
        request = replace(request_of(event), stream_url=known.stream_url, socket_url=known.socket_url)
        if request.method == "OPTIONS":  # a browser asks whether it may; API Gateway adds what the stack allows
            return ApiResponse(status=204, headers={"content-type": "text/plain"})
        caller = caller_of(event, tenant_claim)
        operations = service()
    except PerdureError as error:
        return failure(error)
    response = await handle(request, operations, caller, tickets=tickets)
    if len(response.body) > MAX_RESPONSE_BYTES:
        return envelope(
            413, "too_large", "the answer is larger than Lambda can return: ask for a smaller `limit`", retryable=False
        )
    return response


def request_of(event: JsonObject) -> ApiRequest:
    """Return the request that a gateway event tells of."""
    context = event["requestContext"]
    return ApiRequest(
        method=context["http"]["method"],
        path=_path_of(event["rawPath"], context.get("stage", "$default")),
        query=event.get("rawQueryString", ""),
        headers={name.lower(): value for name, value in event.get("headers", {}).items()},
        body=_body_of(event),
    )


def caller_of(event: JsonObject, tenant_claim: str) -> Caller | None:
    """Return who calls, by verified claims; None when the route has no authorizer.

    Raises:
        ForbiddenError: The token is valid but says no tenant or no subject.
    """
    claims = event["requestContext"].get("authorizer", {}).get("jwt", {}).get("claims")
    if claims is None:
        return None
    return caller_of_claims(claims, tenant_claim)


def _path_of(path: str, stage: str) -> str:
    """Return the path without the stage, which the gateway's own address has and a custom domain has not."""
    prefix = f"/{stage}/"
    return path.removeprefix(f"/{stage}") if stage != "$default" and path.startswith(prefix) else path


def _body_of(event: JsonObject) -> bytes:
    body = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return str(body).encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(body)
    except binascii.Error:
        return b"\xff"  # never happens; answered like any other body that is not UTF-8


def _as_lambda(response: ApiResponse) -> Response[str]:
    headers = {name: value for name, value in response.headers.items() if name != "content-type"}
    return Response(
        status_code=response.status,
        content_type=response.headers["content-type"],
        body=response.body.decode(),
        headers=headers,
    )


def _own_loop() -> Run:
    """Return what runs coroutines on one loop that is kept as long as the container."""
    runner: list[asyncio.Runner] = []

    def run(work: Coroutine[Any, Any, ApiResponse]) -> ApiResponse:
        if not runner:
            runner.append(asyncio.Runner())
        return runner[0].run(work)

    return run
