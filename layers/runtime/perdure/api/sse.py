"""Events as server-sent events: `id` is the cursor, `event` the type, `data` the event's JSON.

The stream pulls one page at a time, and the next one only when the client has taken the last: a slow client costs
one page of memory and loses nothing. It ends only when the client leaves, the server closes, or the caller may not
read the session any more (spec EVT-02, UI-06, API-05).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from typing import TYPE_CHECKING, TypeVar

from perdure.api.messages import JsonObject
from perdure.errors import ForbiddenError, NotFoundError, PerdureError, TransientError, UnauthorizedError

if TYPE_CHECKING:
    from perdure.service import Caller, Service

MEDIA_TYPE = "text/event-stream"

HEADERS = {
    "content-type": MEDIA_TYPE,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-accel-buffering": "no",  # a proxy that buffers would turn a stream into a download
}

KEEP_ALIVE_SECONDS = 15.0
"""Longest silence, in seconds: proxies cut at 30 to 60 (field case F084 asks for at most 25)."""

RECONNECT_MS = 1000
"""How long a browser waits before it comes back after a cut, in milliseconds."""

PAGE = 500
"""Events that are read at a time."""

OPEN = f"retry: {RECONNECT_MS}\n: open\n\n".encode()
KEEP_ALIVE = b": keep-alive\n\n"

ResultT = TypeVar("ResultT")


async def stream(
    service: Service, caller: Caller, session_id: str, page: JsonObject, *, closing: asyncio.Event | None
) -> AsyncIterator[bytes]:
    """Yield the events of `page` and all that follow, with a comment whenever nothing happened for a while."""
    yield OPEN
    while True:
        if page["events"]:
            yield b"".join(frame(event) for event in page["events"])
        # A comment has no id: it never moves the place to which a client returns.
        following = service.events(
            caller, session_id, after=page["cursor"], limit=PAGE, wait_seconds=KEEP_ALIVE_SECONDS
        )
        try:
            after = await (following if closing is None else unless_closing(following, closing))
        except TransientError:
            return  # the client comes back with its last id
        except (NotFoundError, ForbiddenError, UnauthorizedError) as error:
            yield denied(session_id, error)
            return
        if after is None:
            return
        page = after
        if not page["events"]:
            yield KEEP_ALIVE


def frame(event: JsonObject) -> bytes:
    """Return one event as a server-sent event.

    The JSON is ASCII, because many readers also break lines at U+0085, U+2028 and the like.
    """
    data = json.dumps(event, separators=(",", ":"))
    return f"id: {event['cursor']}\nevent: {event['type']}\ndata: {data}\n\n".encode()


def denied(session_id: str, error: PerdureError) -> bytes:
    """Return the last event of a stream whose caller may not read on. It has no id: no place of the client moves."""
    content = {"type": "access_denied", "session_id": session_id, "code": error.code, "message": error.message}
    return f"event: access_denied\ndata: {json.dumps(content, separators=(',', ':'))}\n\n".encode()


def snapshot_event(snapshot: JsonObject) -> JsonObject:
    """Return a snapshot as what a stream begins with; the events behind its cursor follow."""
    return {"type": "snapshot", "cursor": snapshot["cursor"], "snapshot": snapshot}


async def unless_closing(running: Awaitable[ResultT], closing: asyncio.Event) -> ResultT | None:
    """Return a result, or None and stop waiting for it when the host closes first."""
    work = asyncio.ensure_future(running)
    closed = asyncio.ensure_future(closing.wait())
    try:
        await asyncio.wait({work, closed}, return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else None
    finally:
        for task in (work, closed):
            task.cancel()
        await asyncio.gather(work, closed, return_exceptions=True)
