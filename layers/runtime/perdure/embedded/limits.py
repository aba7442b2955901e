"""Bounds what one session and one client may have going on at a time, so that a flood harms only who sends it.

A request that is one too many is answered at once with 429 `too_many_requests` and a `Retry-After`, before its body is
read: nothing has changed. The numbers are our own choice: far above what a console, a chat and a few scripts do, and
low enough that what is waiting for its turn fits into memory (a body is at most 1 MiB).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.api.failures import envelope

Kind = Literal["command", "read", "wait"]
"""What a request keeps busy: a commit, a read, or nothing but a connection (event streams and long polls)."""

RETRY_AFTER_SECONDS = 1
"""What `Retry-After` says. A command takes milliseconds, so a second later there is room."""

UNCOUNTED = frozenset({"/healthz"})
"""Asked by whoever watches over the server, who must not be told of somebody's flood."""

STREAMS = ("/v1/chat", "/v1/ag-ui")
"""What is answered by streams alone, whatever a client accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many requests of each kind may be open at a time.

    Attributes:
        session: Of one session, whoever asks.
        client: Of one client, that is one network address, over all sessions.
    """

    session: Mapping[Kind, int] = field(default_factory=lambda: {"command": 16, "read": 32, "wait": 32})
    client: Mapping[Kind, int] = field(default_factory=lambda: {"command": 512, "read": 512, "wait": 2048})


class OpenRequests:
    """Counts open requests, and lets no more in than the limits allow. Wraps an ASGI app."""

    def __init__(self, app: ASGIApp, *, limits: Limits | None = None) -> None:
        self._app = app
        self._limits = limits or Limits()
        self._open: Counter[tuple[str, str, Kind]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in UNCOUNTED:
            await self._app(scope, receive, send)
            return
        kind = _kind(scope)
        places = self._places(scope, kind)
        full = next((place for place, limit in places.items() if self._open[place] >= limit), None)
        if full is not None:
            await _refusal(full[0], kind, places[full])(scope, receive, send)
            return
        self._open.update(places.keys())
        try:
            await self._app(scope, receive, send)
        finally:
            for place in places:
                self._open[place] -= 1
                if not self._open[place]:
                    del self._open[place]

    def _places(self, scope: Scope, kind: Kind) -> dict[tuple[str, str, Kind], int]:
        """Return where a request counts, and how many may be open there."""
        client = str((scope.get("client") or ("unknown",))[0])
        places = {("client", client, kind): self._limits.client[kind]}
        segments = scope["path"].split("/")  # decoded, so another spelling of an id is the same session
        if segments[1:3] in (["v1", "sessions"], ["v1", "chat"]) and len(segments) > 3:
            places["session", segments[3], kind] = self._limits.session[kind]
        return places


def _kind(scope: Scope) -> Kind:
    if scope["path"].startswith(STREAMS):
        return "wait"
    if scope["method"] not in ("GET", "HEAD"):
        return "command"
    waits = b"wait_seconds=" in scope["query_string"]
    return "wait" if waits or "text/event-stream" in Headers(scope=scope).get("accept", "") else "read"


def _refusal(whose: str, kind: Kind, limit: int) -> Response:
    what = {"command": "commands", "read": "reads", "wait": "event streams and long polls"}[kind]
    message = (
        f"{limit} {what} of this {whose} are open, and no more are taken at a time: let one end, then send it again"
    )
    refused = envelope(429, "too_many_requests", message, retryable=True)
    headers = {**refused.headers, "retry-after": str(RETRY_AFTER_SECONDS)}
    return Response(refused.body, refused.status, headers)
