"""Driving a delivery: reading what follows its cursor, and the frames of it."""

from __future__ import annotations

from typing import Any

from perdure.errors import NotFoundError
from perdure.service import Caller, Service
from perdure.streams.delivery import Delivery

JsonObject = dict[str, Any]

WAIT_SECONDS = 20.0
"""How long one look for something new waits, in seconds: the longest that the service does (surface §4.1)."""


async def next_frames(service: Service, caller: Caller, delivery: Delivery) -> list[JsonObject]:
    """Return the frames of what follows, waiting for it; none when nothing came for a while.

    Access is asked for with every look. A viewer who may see the session no more gets a last frame that says so.

    Raises:
        NotFoundError: They may not; `delivery.refused` has the frame for it.
    """
    frames = delivery.opened()
    if frames:
        return frames
    if delivery.cursor is None:
        return delivery.take_snapshot(await service.snapshot(caller, delivery.session_id))
    feed = await service.feed(
        caller,
        delivery.session_id,
        after=delivery.cursor,
        messages=delivery.messages,
        wait_seconds=WAIT_SECONDS,
    )
    return delivery.take(feed)


async def begun(service: Service, caller: Caller, delivery: Delivery) -> None:
    """Check that a delivery can begin: its session is there, and its cursor is one of this session's.

    Raises:
        NotFoundError: `session_not_found`.
        InvalidRequestError: `invalid_cursor`.
    """
    feed = await service.feed(caller, delivery.session_id, after=delivery.cursor, messages=False, limit=1)
    if not feed.head.version:
        raise NotFoundError(
            f"there is no session {delivery.session_id!r}: attach after its first message was accepted",
            code="session_not_found",
        )
