"""Notices to an application's sinks: what a queue's message that something was committed leads to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from perdure.aws.messages import NoticeMessage
from perdure.aws.sink_places import DynamoDBSinkPlaces, Held, LostPlaceError
from perdure.errors import ConfigurationError
from perdure.ports import Clock, NewId, SessionKey, SessionStore
from perdure.sink_delivery import (
    ENTRIES_PER_READ,
    DeliveryFailedError,
    Place,
    deliver_next,
    retry_wait,
    tell_of_failure,
)
from perdure.sinks import EventSink, check_sinks

LONGEST_TIMEOUT = timedelta(minutes=4)
"""Longest `timeout` of a sink here: a function has five minutes for what is around it, too (ours)."""

MARGIN = timedelta(seconds=5)
"""Time that is left for what follows a delivery (ours)."""

Send = Callable[[NoticeMessage, datetime | None], Awaitable[None]]
"""Sends a message, which is received not before a time."""


def check_timeouts(sinks: Sequence[EventSink]) -> None:
    """Refuse sinks that can't be delivered to here.

    Raises:
        ConfigurationError: Two share a name, or one may take too long.
    """
    check_sinks(sinks)
    for sink in sinks:
        if sink.timeout > LONGEST_TIMEOUT:
            most = int(LONGEST_TIMEOUT.total_seconds())
            raise ConfigurationError(f"timeout of sink {sink.name!r} is longer than the {most} s that it may be on AWS")


class Notices:
    """Delivers to the sinks of a deployment."""

    def __init__(
        self,
        sinks: Sequence[EventSink],
        places: DynamoDBSinkPlaces,
        store: SessionStore,
        send: Send,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        check_timeouts(sinks)
        self._sinks = sinks
        self._places = places
        self._store = store
        self._send = send
        self._clock = clock
        self._new_id = new_id

    async def deliver(self, message: NoticeMessage, deadline: datetime | None) -> None:
        """Deliver what a session has to those sinks that a message means. A sink's failure is nobody else's.

        Raises:
            PerdureError: Something of ours gave no answer; the same message is to come again.
        """
        meant = [sink for sink in self._sinks if message.sink in (None, sink.name)]
        done = await asyncio.gather(*(self._deliver(sink, message, deadline) for sink in meant), return_exceptions=True)
        for error in done:
            if isinstance(error, BaseException):
                raise error

    async def _deliver(self, sink: EventSink, message: NoticeMessage, deadline: datetime | None) -> None:
        held = await self._places.take(message.key, sink, self._new_id(), retry=message.retry)
        if isinstance(held, datetime):
            await self._send(replace(message, sink=sink.name, retry=None), held)
            return
        while held is not None:
            try:
                held = await self._deliver_all(held, message, deadline)
            except LostPlaceError:
                return

    async def _deliver_all(self, held: Held, message: NoticeMessage, deadline: datetime | None) -> Held | None:
        """Deliver until there is nothing more. None: the place is given up. Else it was woken meanwhile."""
        place = held.place
        try:
            place = place or await self._beginning(held.key, held.sink, message.committed_at)
            more = True
            while more:
                now = self._clock.now()
                if deadline is not None and now + held.sink.timeout + MARGIN > deadline:
                    await self._go_on_elsewhere(held, place, message)
                    return None
                place, more = await deliver_next(held.sink, self._store, held.key, place, now)
                if more:
                    await self._places.keep(held, place)
            wakes = await self._places.release(held, place)
        except LostPlaceError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the same is delivered again
            await self._try_again(
                held, error.place if isinstance(error, DeliveryFailedError) else place, message, error
            )
            return None
        return None if wakes is None else replace(held, place=place, failures=0, wakes=wakes)

    async def _beginning(self, key: SessionKey, sink: EventSink, committed_at: datetime) -> Place:
        """Return where a sink begins in a session in which it never was: not before it was there at all."""
        begins_at = await self._places.begins_at(sink, committed_at)
        first: int | None = None
        while True:
            last = first - 1 if first is not None else None
            log = await self._store.read(key, last=last, limit=ENTRIES_PER_READ, newest=True)
            young = [entry.version for entry in log.entries if entry.at >= begins_at]
            first = min(young) if young else first
            if len(young) < ENTRIES_PER_READ:
                return Place(version=first if first is not None else log.head.version + 1)

    async def _go_on_elsewhere(self, held: Held, place: Place, message: NoticeMessage) -> None:
        """Leave the rest to another invocation: this one has no time for one more delivery."""
        await self._places.leave(held, place, failures=0, retry_at=self._clock.now())
        await self._send(replace(message, sink=held.sink.name, retry=None), None)

    async def _try_again(self, held: Held, place: Place | None, message: NoticeMessage, error: Exception) -> None:
        """Leave a failed delivery for later. The message first: without it the place would wait for nobody."""
        failures = held.failures + 1
        wait = retry_wait(failures)
        tell_of_failure(held.sink, held.key, failures, wait, error)
        retry_at = self._clock.now() + wait
        await self._send(replace(message, sink=held.sink.name, retry=failures), retry_at)
        await self._places.leave(held, place, failures=failures, retry_at=retry_at)
