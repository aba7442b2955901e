"""One delivery to a sink: the next events of one session, as its log has them, from where the sink stands.

Both adapter sets deliver by it. What they do themselves is to keep the place, and to come again.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from perdure.agents.execution import run_body
from perdure.operator_events import tell
from perdure.ports import SessionKey, SessionStore
from perdure.sinks import Batch, EventSink, Notice, next_batch, redacted

ENTRIES_PER_READ = 50
"""Entries that are read at a time for a sink. Our own choice."""

FIRST_RETRY = timedelta(seconds=1)
LAST_RETRY = timedelta(minutes=5)
"""Waits before a failed delivery is tried again; they double from the first to the last. Our own choice."""

MAX_THREADS = 16
"""Threads that plain functions of one sink may be in; one that hangs is never let go. Our own choice: twice as many as
deliver side by side in one process."""

_threads: Counter[int] = Counter()
_counting = threading.Lock()
"""Threads by the sink whose function runs there, told by its identity, because a name is one runtime's."""


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


def is_given_up(sink: EventSink, place: Place, now: datetime) -> bool:
    """Whether what is next at a place was tried for as long as the sink gives it."""
    return place.failing_since is not None and now - place.failing_since >= sink.give_up_after


async def deliver_next(
    sink: EventSink,
    store: SessionStore,
    key: SessionKey,
    place: Place,
    now: datetime,
    *,
    entries: int = ENTRIES_PER_READ,
    tries: bool = True,
) -> tuple[Place, bool]:
    """Deliver one notice from a place on, or drop what was tried for as long as the sink gives it.

    Args:
        entries: How many are read at most.
        tries: False: drop what `is_given_up` without another try, because tries end the process.

    Returns:
        The place behind it, and whether there was more behind that when the session was read.

    Raises:
        DeliveryFailedError: The same is to be delivered again.
        PerdureError: From the store: it could not be looked what there is.
    """
    log = await store.read(key, first=place.version, limit=entries)
    if place.version > log.head.version:
        return place, False
    first = log.entries[0].version if log.entries else log.head.version + 1
    if first > place.version:  # deleted by retention before the sink had it
        _tell_of_dropped(sink, key, first - place.version)
        place = Place(version=first)
    batch = next_batch(sink, key.session_id, log.entries, place.version, place.index)
    try:
        if not tries:
            raise RuntimeError("its tries have ended the process")
        await _deliver(sink, key, batch)
    except Exception as error:
        since = place.failing_since or now
        failing = replace(place, failing_since=since)
        if not is_given_up(sink, failing, now):
            raise DeliveryFailedError(failing) from error
        tried = [entry for entry in log.entries if entry.at <= since] or log.entries[:1]  # younger ones have time left
        batch = next_batch(sink, key.session_id, tried, place.version, place.index)
        _tell_of_dropped(sink, key, len(batch.wanted))
    return Place(version=batch.version, index=batch.index), batch.version <= log.head.version


async def _deliver(sink: EventSink, key: SessionKey, batch: Batch) -> None:
    if batch.wanted:
        await _within(sink.timeout, _redact_and_deliver(sink, key, batch))


async def _redact_and_deliver(sink: EventSink, key: SessionKey, batch: Batch) -> None:
    # In a thread of its own, because nothing else bounds the time that it takes.
    events = redacted(sink, batch.wanted) if sink.redact is None else await _call(sink, redacted, sink, batch.wanted)
    if events:
        await _call(sink, sink.deliver, Notice(tenant=key.tenant, session_id=key.session_id, events=events))


async def _call(sink: EventSink, function: Callable[..., Any], *values: Any) -> Any:
    """Call a function of a sink, in a thread if it is a plain one and not too many of them hang in theirs."""
    if inspect.iscoroutinefunction(function):
        return await run_body(function, {}, *values)
    if _threads[id(sink)] >= MAX_THREADS:
        raise RuntimeError(f"{MAX_THREADS} deliveries to sink {sink.name} hang in threads: it gets no more of them")
    return await run_body(_counted, {}, sink, function, *values)


def _counted(sink: EventSink, function: Callable[..., Any], *values: Any) -> Any:
    with _counting:
        _threads[id(sink)] += 1
    try:
        return function(*values)
    finally:
        with _counting:
            _threads[id(sink)] -= 1
            if not _threads[id(sink)]:
                del _threads[id(sink)]


async def _within(time: timedelta, work: Coroutine[None, None, None]) -> None:
    """Await some work for so long, and let go of it then, even if it does not end when it is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=time.total_seconds())
    finally:
        if not task.done():
            task.add_done_callback(_heard)
            task.cancel()
    if not task.done():
        raise TimeoutError
    task.result()


def _heard(task: asyncio.Task[None]) -> None:
    """Take note of how something ended that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


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
