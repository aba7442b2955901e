"""The `stream` function: server-sent events, AI SDK and AG-UI behind a REST API that passes answers on as they come.

A managed Python runtime can't send an answer piece by piece. So this is a web server, and the Lambda Web Adapter, an
extension in the same container, hands it each invocation as a request to 127.0.0.1. The adapter writes what API Gateway
and Lambda say about the invocation into two headers, over whatever a client has sent under these names
(docs/decisions/0011). The server answers one request at a time, as a container does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from perdure.api import ApiResponse, handle
from perdure.api.asgi import as_sent, decoded, is_a_fault, read_request, split_ticket
from perdure.api.failures import failure
from perdure.api.messages import StreamBrokenOffError
from perdure.aws.bootstrap import Runtime
from perdure.aws.holders import read_holder
from perdure.core.codec import from_millis
from perdure.errors import PerdureError, StoreUnavailableError, UnauthorizedError
from perdure.service import Caller, Service

if TYPE_CHECKING:
    import uvicorn

JsonObject = dict[str, Any]

REQUEST_CONTEXT, LAMBDA_CONTEXT = "x-amzn-request-context", "x-amzn-lambda-context"
"""Headers that the adapter writes: what API Gateway knows of the request, and what Lambda knows of the invocation."""

HEALTH = "/healthz"
"""What the adapter asks for until the server is there, without either header."""

PORT_VARIABLE, DEFAULT_PORT = "AWS_LWA_PORT", 8080
"""Where the adapter expects the server (its documentation)."""

ENDS_BEFORE = timedelta(seconds=15)
"""A stream is told to end this long before its function would be killed, so that its reader understands it (ours)."""

BREAKS_BEFORE = timedelta(seconds=5)
"""A stream that still goes on is broken off then: its reader takes too long (ours)."""

KEPT_ALIVE_SECONDS = 65
"""How long the adapter may keep a connection for its next request; it closes its own after 4 s."""

METHODS = "GET, POST"
REQUEST_HEADERS = "authorization, content-type, idempotency-key, last-event-id, user-agent, x-resume-token"
RESPONSE_HEADERS = "x-vercel-ai-ui-message-stream"
PREFLIGHT_SECONDS = 3600


def create_app(runtime: Callable[[], Runtime]) -> Starlette:
    """Return the app: every route of the API that streams, for whom the authorizer has let in."""
    app = Starlette()
    app.router.default = _Endpoint(runtime)  # no pattern, which would not take a path with a line break
    return app


def serve(app: Starlette) -> None:
    """Serve the adapter until the container ends."""
    import uvicorn

    logging.getLogger("uvicorn.error").addFilter(is_a_fault)
    uvicorn.Server(server_config(app, port=int(os.environ.get(PORT_VARIABLE, DEFAULT_PORT)))).run()


def server_config(app: Starlette, *, port: int) -> uvicorn.Config:
    """Return how the app is served: to this container alone, and without a word about addresses, which hold tickets."""
    import uvicorn

    return uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_keep_alive=KEPT_ALIVE_SECONDS,
    )


class _Endpoint:
    """The one place that all requests come to."""

    def __init__(self, runtime: Callable[[], Runtime]) -> None:
        self._runtime = runtime

    @cached_property
    def _service(self) -> Service:
        return Service(self._runtime().deps, authorize=self._runtime().authorize)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        with contextlib.suppress(ClientDisconnect):
            if request.method == "OPTIONS":
                await as_sent(self._preflight(request))(scope, receive, send)
                return
            if scope["path"] == HEALTH:
                read = await read_request(request, closing=asyncio.Event())
                await as_sent(await handle(read, self._service, None))(scope, receive, send)
                return
            await self._stream(request, scope, receive, send)

    async def _stream(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        runtime = self._runtime()
        try:
            invocation = Invocation.of(request, longest=timedelta(seconds=runtime.settings.stream_seconds))
            left = invocation.left(runtime.clock.now())
        except PerdureError as error:
            await as_sent(self._shared(request, failure(error)))(scope, receive, send)
            return
        closing = asyncio.Event()
        timer = asyncio.get_running_loop().call_later(left.total_seconds(), closing.set)
        try:
            async with asyncio.timeout(invocation.breaks_after(runtime.clock.now()).total_seconds()):
                read = await read_request(request, closing=closing)
                read = replace(read, query=split_ticket(read.query)[0])  # the authorizer has used it up
                response = await handle(read, self._service, invocation.caller)
                await as_sent(self._shared(request, response))(scope, receive, send)
        except TimeoutError as error:
            raise StreamBrokenOffError("its reader takes too long") from error
        finally:
            timer.cancel()

    def _preflight(self, request: Request) -> ApiResponse:
        """Answer a browser that asks whether a page may. With a body: not every version of the adapter ends without."""
        headers = {
            "access-control-allow-methods": METHODS,
            "access-control-allow-headers": REQUEST_HEADERS,
            "access-control-max-age": str(PREFLIGHT_SECONDS),
        }
        allowed = self._allowed(request)
        return ApiResponse(
            status=200,
            headers={"content-type": "text/plain", **(allowed | headers if allowed else {})},
            body=b"yes" if allowed else b"no",
        )

    def _shared(self, request: Request, response: ApiResponse) -> ApiResponse:
        """Let a page of an allowed origin read the response."""
        allowed = self._allowed(request)
        if not allowed:
            return response
        more = allowed | {"access-control-expose-headers": RESPONSE_HEADERS}
        return replace(response, headers={**response.headers, **more})

    def _allowed(self, request: Request) -> dict[str, str]:
        origin = request.headers.get("origin")
        if origin is None or origin not in self._runtime().settings.origins:
            return {}
        return {"access-control-allow-origin": origin, "vary": "origin"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """Whose stream it is, and when its function would be killed."""

    caller: Caller
    ends_at: datetime
    longest: timedelta

    @classmethod
    def of(cls, request: Request, *, longest: timedelta) -> Invocation:
        """Read what the adapter says about a request.

        Args:
            longest: How long a request may take, its margins included.

        Raises:
            UnauthorizedError: Not the adapter has sent it, or no authorizer has let it pass.
        """
        context, invoked = (_written(request, name) for name in (REQUEST_CONTEXT, LAMBDA_CONTEXT))
        try:
            if context["httpMethod"] != request.method:
                raise ValueError("it is about another request")
            holder = read_holder(context["authorizer"]["holder"])
            ends_at = from_millis(int(invoked["deadline"]))
        except (KeyError, TypeError, ValueError, OverflowError):
            raise UnauthorizedError("no authorizer has let this request pass") from None
        caller = Caller(tenant=holder.tenant, actor=holder.actor, until=holder.until)
        return cls(caller=caller, ends_at=ends_at, longest=longest)

    def left(self, now: datetime) -> timedelta:
        """Return how long a stream that begins now may go on.

        Raises:
            StoreUnavailableError: No time is left: the container was too long in starting.
        """
        left = min(self.ends_at - now, self.longest) - ENDS_BEFORE
        if left <= timedelta(0):
            raise StoreUnavailableError("there was no time left to answer: try again")
        return left

    def breaks_after(self, now: datetime) -> timedelta:
        """Return after how long a stream is broken off that has not ended by itself: with its function or its token."""
        by_function = min(self.ends_at - now, self.longest) - BREAKS_BEFORE
        if self.caller.until is None:
            return by_function
        return min(by_function, max(self.caller.until - now, timedelta(0)) + BREAKS_BEFORE)


def _written(request: Request, name: str) -> JsonObject:
    """Return what one of the adapter's headers says. It writes each once, over what was there."""
    values = request.headers.getlist(name)
    try:
        content = json.loads(decoded(values[0])) if len(values) == 1 else None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise UnauthorizedError("this server is for the Lambda Web Adapter alone")
    return content
