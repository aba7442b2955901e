"""What goes in and comes out of `handle`: requests and responses without a web framework."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from perdure.service import Caller

JsonObject = dict[str, Any]

JSON_HEADERS = {
    "content-type": "application/json",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request as its host received it.

    Attributes:
        path: Still percent-encoded where the host knows it so, without the query.
        query: The raw query string, without the `?`.
        headers: Names in lower case.
        body: At most `MAX_BODY_BYTES` + 1 bytes are looked at; a host may stop reading there.
        can_stream: Whether the host can send a response piece by piece.
        stream_url: Base address of the host that can; None: this one, or there is none.
        socket_url: Address of the WebSocket; None: on this host, if there is one.
        closing: Set when the host wants to end: whoever waits for events stops waiting.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    can_stream: bool = False
    stream_url: str | None = None
    socket_url: str | None = None
    closing: asyncio.Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """One response: a whole `body`, or a `stream` of pieces when the request could be streamed."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None


class StreamBrokenOffError(Exception):
    """Ends a stream in its middle: the host has to break the connection off, so that the client knows it was cut."""


class TicketIssuer(Protocol):
    """Issues single-use tickets for the WebSocket. Only hosts that have one offer the route."""

    async def __call__(self, caller: Caller) -> JsonObject:
        """Return `{ticket, expires_at}` for this caller."""
        ...


def json_response(status: int, value: Any) -> ApiResponse:
    """Return a JSON response."""
    return ApiResponse(status=status, headers=JSON_HEADERS, body=json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """Return a value as UTF-8 JSON; text that UTF-8 can't hold is escaped instead of failing."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()
