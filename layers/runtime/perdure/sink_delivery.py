"""One delivery to a sink: the next events of one session, as its log has them, from where the sink stands.

Both adapter sets deliver by it. What they do themselves is to keep the place, and to come again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from perdure.agents.execution import run_body
from perdure.operator_events import tell
from perdure.ports import SessionKey, SessionStore
from perdure.sinks import Batch, EventSink, Notice, next_batch, redacted

ENTRIES_PER_READ = 50
"""Entries that are read at a time for a sink. Our own choice."""

FIRST_RETRY = timedelta(seconds=1)
LAST_RETRY = timedelta(minutes=5)
"""Waits before a failed delivery is tried again; they double from the first to the last. Our own choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The next event: `index` of the entry `version`. `failing_since`: the delivery from here has failed since then."""

    version: int = 1
    index: int = 0
    failing_since: datetime | None = None


class DeliveryFailedError(Exception):
    """A sink did not take its events; its cause says why.

    Attributes:
        place: Where the sink stands, and since when it has failed there.
    """

    def __init__(self, place: Place) -> None:
        super().__init__("a sink did not take its events")
        self.place = place


async def deliver_next(
    sink: EventSink, store: SessionStore, key: SessionKey, place: Place, now: datetime
) -> tuple[Place, bool]:
    """Deliver one notice from a place on, or drop it when it was tried for as long as the sink gives it.

    Returns:
        The place behind it, and whether there was more behind that when the session was read.

    Raises:
        DeliveryFailedError: The same is to be delivered again.
        PerdureError: From the store: it could not be looked what there is.
    """
    log = await store.read(key, first=place.version, limit=ENTRIES_PER_READ)
    if place.version > log.head.version:
        return place, False
    first = log.entries[0].version if log.entries else log.head.version + 1
    if first > place.version:  # deleted by retention before the sink had it
        _tell_of_dropped(sink, key, first - place.version)
        place = Place(version=first)
    batch = next_batch(sink, key.session_id, log.entries, place.version, place.index)
    if batch.wanted:
        await _deliver_or_drop(sink, key, place, batch, now)
    return Place(version=batch.version, index=batch.index), batch.version <= log.head.version


async def _deliver_or_drop(sink: EventSink, key: SessionKey, place: Place, batch: Batch, now: datetime) -> None:
    try:
        events = redacted(sink, batch.wanted)
        if events:
            notice = Notice(tenant=key.tenant, session_id=key.session_id, events=events)
            async with asyncio.timeout(sink.timeout.total_seconds()):
                await run_body(sink.deliver, {}, notice)
    except Exception as error:
        since = place.failing_since or now
        if now - since < sink.give_up_after:
            raise DeliveryFailedError(replace(place, failing_since=since)) from error
        _tell_of_dropped(sink, key, len(batch.wanted))


def retry_wait(failures: int) -> timedelta:
    """Return how long to wait after so many failures in a row, 1 or more."""
    return min(FIRST_RETRY * (1 << min(failures - 1, 30)), LAST_RETRY)


def tell_of_failure(sink: EventSink, key: SessionKey, failures: int, wait: timedelta, error: Exception) -> None:
    """Tell the operators of a delivery that comes again, and why."""
    tell(
        "sink_failing",
        "a sink did not take its events; they come again",
        error=error.__cause__ if isinstance(error, DeliveryFailedError) else error,
        session_id=key.session_id,
        sink=sink.name,
        count=failures,
        seconds=wait.total_seconds(),
    )


def _tell_of_dropped(sink: EventSink, key: SessionKey, count: int) -> None:
    sentence = "events were dropped that a sink did not take in time, or that were deleted before it could"
    tell("sink_dropped", sentence, session_id=key.session_id, sink=sink.name, count=count)
