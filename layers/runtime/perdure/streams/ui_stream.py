"""A UI message stream over HTTP: server-sent events of one JSON chunk each, with `[DONE]` behind the last.

A client takes the clean end of a body for the end of the answer. So a host that has to close breaks the connection off
instead, and the client comes back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from perdure.api.messages import StreamBrokenOffError
from perdure.api.sse import KEEP_ALIVE, KEEP_ALIVE_SECONDS, MEDIA_TYPE, PAGE, unless_closing
from perdure.errors import ForbiddenError, NotFoundError, TransientError, UnauthorizedError

if TYPE_CHECKING:
    from perdure.service import Caller, Service
    from perdure.streams.ui_requests import Begun

JsonObject = dict[str, Any]

HEADERS = {
    "content-type": MEDIA_TYPE,
    "cache-control": "no-cache",
    "connection": "keep-alive",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",  # a proxy that buffers would turn a stream into a download
    "x-content-type-options": "nosniff",
}

OPEN = b": stream-open\n\n"
DONE = b"data: [DONE]\n\n"


async def frames(
    service: Service, caller: Caller, begun: Begun, *, closing: asyncio.Event | None
) -> AsyncIterator[bytes]:
    """Yield a stream as it is sent, with a comment whenever nothing happened for a while.

    Raises:
        StreamBrokenOffError: The host closes, or what follows can't be read.
    """
    yield OPEN
    if begun.first:
        yield framed(begun.first)
    async for chunks in chunks_of(service, caller, begun, closing=closing):
        yield framed(chunks) if chunks else KEEP_ALIVE
    yield DONE


async def chunks_of(
    service: Service, caller: Caller, begun: Begun, *, closing: asyncio.Event | None
) -> AsyncIterator[list[JsonObject]]:
    """Yield the chunks of a stream as they come; an empty list when there were none for a while."""
    mapping, cursor, existed = begun.mapping, begun.cursor, False
    while not mapping.ended:
        # What only waits for a person may have been decided already: that is known when nothing follows.
        wait = 0.0 if mapping.may_rest else KEEP_ALIVE_SECONDS
        following = service.feed(caller, begun.session_id, after=cursor, limit=PAGE, wait_seconds=wait)
        try:
            feed = await (following if closing is None else unless_closing(following, closing))
        except (NotFoundError, ForbiddenError, UnauthorizedError) as error:
            yield mapping.lose(error.message)
            return
        except TransientError as error:
            raise StreamBrokenOffError(f"the session can't be read now: {error.message}") from error
        if feed is None:
            raise StreamBrokenOffError("the host closes")
        if existed and not feed.head.exists:
            yield mapping.lose(f"session {begun.session_id!r} is gone: it was purged")
            return
        existed, cursor = feed.head.exists, feed.cursor
        # Items of which nothing is shown, as those of another turn, are silence for the client.
        yield [chunk for item in feed.items for chunk in mapping.take(item)] if feed.items else mapping.rest()


def framed(chunks: Sequence[JsonObject]) -> bytes:
    """Return chunks as server-sent events, in ASCII: some readers break lines at U+2028 and its like."""
    return b"".join(f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n".encode() for chunk in chunks)
