"""Notices to an application's sinks: what a queue's message that something was committed leads to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from perdure.aws.messages import NoticeMessage
from perdure.aws.sink_places import DynamoDBSinkPlaces, Held, LostPlaceError
from perdure.errors import ConfigurationError, StoreUnavailableError
from perdure.ports import Clock, NewId, SessionKey, SessionStore
from perdure.sink_delivery import (
    ENTRIES_PER_READ,
    DeliveryFailedError,
    Place,
    deliver_next,
    is_given_up,
    retry_wait,
    tell_of_failure,
)
from perdure.sinks import EventSink, check_sinks

LONGEST_TIMEOUT = timedelta(minutes=4)
"""Longest `timeout` of a sink here: a function has five minutes for what is around it, too (ours)."""

MARGIN = timedelta(seconds=5)
"""Time that is left for what follows a delivery (ours)."""

UNKNOWN_FOR = timedelta(minutes=15)
"""How long a message waits for a sink that is not there: while a stack changes, old and new functions run (ours)."""

SESSIONS_UNTIL_REST = 5
REST = timedelta(minutes=5)
"""A sink that took nothing of so many sessions in a row is left alone for so long by the process that saw it, so that
one that hangs does not take the time of the others (ours)."""

Send = Callable[[NoticeMessage, datetime | None], Awaitable[None]]
"""Sends a message, which is received not before a time."""


class RestingError(Exception):
    """A sink is left alone for a while, because it took nothing of other sessions."""


def check_deployed(sinks: Sequence[EventSink]) -> None:
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
        check_deployed(sinks)
        self._sinks = {sink.name: sink for sink in sinks}
        self._places = places
        self._store = store
        self._send = send
        self._clock = clock
        self._new_id = new_id
        self._failing: dict[str, set[SessionKey]] = {}
        self._rests_until: dict[str, datetime] = {}

    async def deliver(self, message: NoticeMessage, deadline: datetime | None) -> None:
        """Deliver what a session has to the sink that a message means.

        Raises:
            PerdureError: Something of ours gave no answer; the same message is to come again.
        """
        sink = self._sinks.get(message.sink)
        if sink is None:
            if self._clock.now() - message.told_at < UNKNOWN_FOR:
                raise StoreUnavailableError(f"there is no sink {message.sink!r} in this deployment, or not yet")
            return
        held = await self._places.take(message.key, sink, self._new_id(), retry=message.retry)
        if isinstance(held, datetime):
            await self._send(self._again(message), held)
            return
        while held is not None:
            try:
                held = await self._deliver_all(held, message, deadline)
            except LostPlaceError:
                return

    async def _deliver_all(self, held: Held, message: NoticeMessage, deadline: datetime | None) -> Held | None:
        """Deliver until there is nothing more. None: the place is given up. Else it was woken meanwhile."""
        place, sink = held.place, held.sink
        try:
            # Strongly consistent, so that what follows reads nothing older, and with it the change that was told of.
            await self._store.load(held.key)
            place = place or replace(
                await self._beginning(held.key, sink, message.told_at), failing_since=held.failing_since
            )
            more = True
            while more:
                if self._has_no_time(sink, deadline):
                    await self._go_on_elsewhere(held, place, message)
                    return None
                behind, more = await self._deliver_next(held, place)
                if more:
                    await self._places.keep(held, behind)
                    held = replace(held, failures=0, died=False)
                place = behind
            wakes = await self._places.release(held, place)
        except LostPlaceError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the same is delivered again
            await self._try_again(held, place, message, error)
            return None
        return None if wakes is None else replace(held, place=place, failures=0, died=False, wakes=wakes)

    async def _deliver_next(self, held: Held, place: Place) -> tuple[Place, bool]:
        sink, now = held.sink, self._clock.now()
        if now < self._rests_until.get(sink.name, now):
            raise RestingError
        over = is_given_up(sink, place, now)
        # Of what has failed as little as can be: it may be too much for the memory that there is.
        entries = 1 if held.died or (held.failures and not over) else ENTRIES_PER_READ
        tries = not (held.died and over)
        done = await deliver_next(sink, self._store, held.key, place, now, entries=entries, tries=tries)
        self._failing.pop(sink.name, None)
        return done

    async def _beginning(self, key: SessionKey, sink: EventSink, told_at: datetime) -> Place:
        """Return where a sink begins in a session in which it never was: not before it was there at all."""
        begins_at = await self._places.begins_at(sink, told_at)
        first: int | None = None
        while True:
            last = first - 1 if first is not None else None
            log = await self._store.read(key, last=last, limit=ENTRIES_PER_READ, newest=True)
            young = [entry.version for entry in log.entries if entry.at >= begins_at]
            first = min(young) if young else first
            if len(young) < ENTRIES_PER_READ:
                return Place(version=first if first is not None else log.head.version + 1)

    def _has_no_time(self, sink: EventSink, deadline: datetime | None) -> bool:
        return deadline is not None and self._clock.now() + sink.timeout + MARGIN > deadline

    async def _go_on_elsewhere(self, held: Held, place: Place, message: NoticeMessage) -> None:
        """Leave the rest to another invocation: this one has no time for one more delivery."""
        await self._places.leave(held, place, failures=0, retry_at=self._clock.now())
        await self._send(self._again(message), None)

    async def _try_again(self, held: Held, place: Place | None, message: NoticeMessage, error: Exception) -> None:
        """Leave a failed delivery for later. The message first: without it the place would wait for nobody."""
        if isinstance(error, DeliveryFailedError):
            place = error.place
            self._note_failure(held.sink, held.key)
        failures = held.failures + 1
        wait = retry_wait(failures)
        tell_of_failure(held.sink, held.key, failures, wait, error)
        retry_at = self._clock.now() + wait
        await self._send(self._again(message, retry=failures), retry_at)
        await self._places.leave(held, place, failures=failures, retry_at=retry_at)

    def _note_failure(self, sink: EventSink, key: SessionKey) -> None:
        failing = self._failing.setdefault(sink.name, set())
        failing.add(key)
        if len(failing) >= SESSIONS_UNTIL_REST:
            self._rests_until[sink.name] = self._clock.now() + REST

    def _again(self, message: NoticeMessage, retry: int | None = None) -> NoticeMessage:
        return message.again(self._clock.now(), retry)
