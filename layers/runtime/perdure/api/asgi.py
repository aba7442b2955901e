"""Between an ASGI server's requests and the API's: for every host that Starlette serves."""

from __future__ import annotations

import asyncio
import logging

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from perdure.api.messages import ApiRequest, ApiResponse, StreamBrokenOffError
from perdure.api.reading import MAX_BODY_BYTES

MAX_DISCARDED_BYTES = 64 * MAX_BODY_BYTES
"""How much of a body that is too large is read and thrown away, so that its sender sees the 413."""


_WRITTEN_IN_VAIN = "socket.send() raised exception."
"""What asyncio's transports, and uvloop's, say."""


async def read_request(request: Request, *, closing: asyncio.Event) -> ApiRequest:
    """Return a request that can be answered with a stream.

    Raises:
        ClientDisconnect: The client went away in the middle of its body.
    """
    raw_path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return ApiRequest(
        method=request.method,
        path=raw_path.decode("latin-1"),
        query=request.scope["query_string"].decode("latin-1"),
        headers={name: decoded(value) for name, value in request.headers.items()},
        body=await _body(request),
        can_stream=True,
        closing=closing,
    )


def split_ticket(query: str) -> tuple[str, str | None]:
    """Return a query without its ticket, and the ticket: a browser's `EventSource` can't send headers."""
    parts = query.split("&")
    tickets = [value for name, _, value in (part.partition("=") for part in parts) if name == "ticket"]
    rest = "&".join(part for part in parts if part.partition("=")[0] != "ticket")
    return rest, tickets[0] if tickets else None


def decoded(value: str) -> str:
    """Return a header's value as UTF-8, which is what our clients send, or as it is."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


async def _body(request: Request) -> bytes:
    """Read the body as far as it may matter. Of one that is too large, the rest is thrown away while it comes."""
    kept = bytearray()
    discarded = 0
    async for piece in request.stream():
        if len(kept) <= MAX_BODY_BYTES:
            kept += piece
        else:
            discarded += len(piece)
            if discarded > MAX_DISCARDED_BYTES:
                break
    return bytes(kept)


def as_sent(response: ApiResponse) -> Response:
    """Return a response as Starlette sends it."""
    headers = dict(response.headers)
    if response.stream is not None:
        return StreamingResponse(response.stream, response.status, headers)
    return Response(response.body, response.status, headers)


def is_a_fault(record: logging.LogRecord) -> bool:
    """Leave out of the logs of uvicorn and asyncio that a client left.

    The first tells of every exception that ends a response, as one that breaks a stream off does; the second of what is
    written into a broken connection before its protocol hears of it, with a line for each piece of a long answer.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, StreamBrokenOffError) and record.msg != _WRITTEN_IN_VAIN
