"""The development server: the HTTP API and the console page, for the one user of this machine.

A client that leaves never stops a turn (spec STOP-15).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from perdure.api import ApiRequest, ApiResponse, handle
from perdure.api.asgi import as_sent, is_a_fault, read_request, split_ticket
from perdure.api.failures import failure
from perdure.embedded.guard import LocalOnly
from perdure.embedded.limits import Limits, OpenRequests
from perdure.embedded.pages import page_response, read_pages
from perdure.embedded.sockets import SOCKET_PATH, Sockets, refuse
from perdure.errors import ConfigurationError, UnauthorizedError
from perdure.service import LOCAL_CALLER, Service
from perdure.streams.parts import MAX_FRAME_BYTES

DRAIN_SECONDS = 10
"""How long a closing server waits for answers that are being sent, in seconds; then it cuts them."""


def create_app(
    service: Service,
    *,
    host: str = "127.0.0.1",
    sockets: Sockets | None = None,
    limits: Limits | None = None,
) -> Starlette:
    """Return the app: every route of the API, the WebSocket at `/v1/socket`, and the console page at `/`.

    Args:
        host: What the server binds to; a request's `Host` may name it besides the loopback names.
        sockets: Serves the WebSocket; one on the system's clock by default.
        limits: How many requests may be open at a time; None: those of `Limits`.
    """
    endpoint = _Endpoint(service, sockets or Sockets(service), read_pages(host=host))
    app = Starlette(middleware=[Middleware(LocalOnly, host=host), Middleware(OpenRequests, limits=limits)])
    app.router.default = endpoint  # no pattern, which would not take a path with a line break
    app.state.closing = endpoint.closing
    return app


async def serve(
    app: Starlette,
    host: str = "127.0.0.1",
    port: int = 8787,
    *,
    announce: Callable[[str], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or `stop`, then let running answers end and return. An app is served once.

    Event streams and long polls end at once; their clients come back with their cursor.

    Args:
        port: 0 takes a free one.
        announce: Gets `ready http://host:port` when the server listens; standard output by default.

    Raises:
        ConfigurationError: The address can't be used; the message says why.
    """
    listener = _listen(host, port)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="websockets-sansio",
        ws_max_size=MAX_FRAME_BYTES,
        lifespan="off",
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(is_a_fault)
    shown = f"[{host}]" if ":" in host else host
    ready = f"ready http://{shown}:{listener.getsockname()[1]}"
    with listener:
        server = _Server(config, app.state.closing, lambda: (announce or _print)(ready))
        async with _stopped_by(stop, server):
            await server.serve([listener])


_EVENTS = re.compile("/v1/sessions/[^/]+/events")


class _Endpoint:
    """The one place that all requests come to: a page's file, the WebSocket, or the API."""

    def __init__(self, service: Service, sockets: Sockets, pages: Mapping[str, tuple[bytes, str]]) -> None:
        self._service = service
        self._sockets = sockets
        self._pages = pages
        self.closing = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            socket = WebSocket(scope, receive, send)
            await (self._sockets.serve(socket) if scope["path"] == SOCKET_PATH else refuse(socket))
            return
        request = Request(scope, receive)
        if request.method in ("GET", "HEAD") and scope["path"] in self._pages:
            await page_response(*self._pages[scope["path"]])(scope, receive, send)
            return
        with contextlib.suppress(ClientDisconnect):
            read = await read_request(request, closing=self.closing)
            await as_sent(await self._answer(read))(scope, receive, send)

    async def _answer(self, request: ApiRequest) -> ApiResponse:
        """Answer a request. A ticket with an event stream is used up, as on AWS, so that a page is written once."""
        query, ticket = split_ticket(request.query)
        if ticket is not None and _EVENTS.fullmatch(request.path):
            if self._sockets.redeem(ticket) is None:
                return failure(UnauthorizedError("the ticket is unknown, too old or used"))
            request = replace(request, query=query)
        return await handle(request, self._service, LOCAL_CALLER, tickets=self._sockets.issue)


class _Server(uvicorn.Server):
    """uvicorn, but event streams end when it closes, and a signal ends serving instead of the process.

    The process has a worker to drain after the last request, so uvicorn must not raise the signal again.
    """

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._closing = closing
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing.set()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handled = (signal.SIGTERM, signal.SIGINT)
        try:
            for number in handled:
                loop.add_signal_handler(number, self.handle_exit, number, None)
        except (NotImplementedError, RuntimeError, ValueError):
            yield  # not the main thread, or a platform without signals: whoever runs us ends us
            return
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def _stopped_by(stop: asyncio.Event | None, server: _Server) -> AsyncIterator[None]:
    async def watch() -> None:
        if stop is not None:
            await stop.wait()
            server.should_exit = True

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65_535:  # the system would take the rest of a division
        raise ConfigurationError(f"{host!r} port {port} is no address to listen at: ports go from 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"{host!r} port {port} is no address to listen at: {error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"can't listen at {host} port {port}: {error.strerror}; choose another port, or 0 for a free one"
        ) from error
    listener.setblocking(False)
    return listener


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
