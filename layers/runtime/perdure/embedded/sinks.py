"""Delivers the events of commits to the application's sinks, from the log and beside everything else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from perdure.embedded.database import Database
from perdure.embedded.queue import Alarm
from perdure.embedded.sink_places import SinkPlaces
from perdure.operator_events import tell
from perdure.ports import Clock, SessionKey, SessionStore
from perdure.sink_delivery import DeliveryFailedError, deliver_next, retry_wait, tell_of_failure
from perdure.sinks import EventSink

MAX_PARALLEL = 8
"""Deliveries to one sink at a time, each of another session. Our own choice."""

MAX_KNOWN = 10_000
"""Sessions that one sink remembers to be behind; more are looked up in the database. Our own choice: some megabytes."""


class SinkPumps:
    """All sinks of one runtime."""

    def __init__(self, sinks: Sequence[EventSink], database: Database, clock: Clock) -> None:
        self._pumps = [_Pump(sink, SinkPlaces(database, sink.name), clock) for sink in sinks]
        self._loop = asyncio.get_running_loop()

    async def start(self, store: SessionStore) -> None:
        """Deliver what an earlier process left, and from now on what is committed."""
        for pump in self._pumps:
            await pump.start(store)

    def committed(self, key: SessionKey) -> None:
        """Take note of a commit; called on any thread, right after it is on the disk."""
        try:
            self._loop.call_soon_threadsafe(self._wake, key)
        except RuntimeError:  # the loop has ended; the next start delivers it
            return

    async def stop(self, grace_seconds: float) -> None:
        """Deliver what is ready, as long as the grace lasts, then let go. The rest waits for the next start."""
        await asyncio.gather(*(pump.stop(grace_seconds) for pump in self._pumps))

    def _wake(self, key: SessionKey) -> None:
        for pump in self._pumps:
            pump.wake(key)


class _Pump:
    """One sink: of each session one delivery at a time, of `MAX_PARALLEL` sessions side by side."""

    def __init__(self, sink: EventSink, places: SinkPlaces, clock: Clock) -> None:
        self._sink = sink
        self._places = places
        self._clock = clock
        self._store: SessionStore
        self._ready: dict[SessionKey, None] = {}
        self._running: dict[SessionKey, asyncio.Task[None]] = {}
        self._again: set[SessionKey] = set()
        self._failures: dict[SessionKey, int] = {}
        self._alarm: Alarm[SessionKey] = Alarm(clock, self._retry)
        self._overflowed = False
        self._looking: asyncio.Task[None] | None = None
        self._closed = True

    async def start(self, store: SessionStore) -> None:
        self._store = store
        self._closed = False
        await self._places.begin()
        await self._look()

    def wake(self, key: SessionKey) -> None:
        """Deliver what a session has. One that waits for its retry keeps waiting."""
        if self._closed:
            return
        if key in self._running:
            self._again.add(key)
        elif key in self._failures:
            return
        elif len(self._ready) >= MAX_KNOWN:
            self._overflowed = True
        else:
            self._ready[key] = None
            self._fill()

    async def stop(self, grace_seconds: float) -> None:
        ends_at = asyncio.get_running_loop().time() + grace_seconds
        self._alarm.close()
        while self._running and (left := ends_at - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(list(self._running.values()), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)  # what follows a delivery begins the next one
        self._closed = True
        left_over = [*self._running.values(), *([self._looking] if self._looking else [])]
        for task in left_over:
            task.cancel()
        await asyncio.gather(*left_over, return_exceptions=True)

    def _fill(self) -> None:
        while self._ready and len(self._running) < MAX_PARALLEL and not self._closed:
            key = next(iter(self._ready))
            del self._ready[key]
            task = asyncio.create_task(self._deliver_all(key), name=f"perdure-sink-{self._sink.name}")
            self._running[key] = task
            task.add_done_callback(partial(self._delivered, key))
        idle = not (self._ready or self._running or self._failures or self._closed)
        if self._overflowed and idle:
            self._overflowed = False
            self._looking = asyncio.create_task(self._look_again())

    def _delivered(self, key: SessionKey, _: asyncio.Task[None]) -> None:
        del self._running[key]
        if key in self._again:
            self._again.discard(key)
            self.wake(key)
        self._fill()

    def _retry(self, key: SessionKey) -> None:
        self._again.discard(key)
        if not self._closed and key not in self._running:
            self._ready[key] = None
            self._fill()

    async def _look(self) -> None:
        """Find the sessions that are behind in the database."""
        behind = await self._places.behind(MAX_KNOWN)
        self._overflowed = self._overflowed or len(behind) == MAX_KNOWN
        for key in behind:
            self.wake(key)

    async def _look_again(self) -> None:
        try:
            await self._look()
        except Exception as error:  # noqa: BLE001 - the next commit, or the next start, looks again
            self._overflowed = True
            tell(
                "outage",
                "it could not be looked up which sessions a sink is behind in",
                error=error,
                sink=self._sink.name,
            )

    async def _deliver_all(self, key: SessionKey) -> None:
        try:
            await self._deliver(key)
        except Exception as error:  # noqa: BLE001 - a sink's failure is nobody else's
            self._failed(key, error)

    async def _deliver(self, key: SessionKey) -> None:
        place, more = await self._places.read(key), True
        while more:
            try:
                behind, more = await deliver_next(self._sink, self._store, key, place, self._clock.now())
            except DeliveryFailedError as error:
                await self._places.write(key, error.place)
                raise
            if behind != place:
                await self._places.write(key, behind)
                place = behind
            self._failures.pop(key, None)

    def _failed(self, key: SessionKey, error: Exception) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        wait = retry_wait(failures)
        tell_of_failure(self._sink, key, failures, wait, error)
        if len(self._failures) > MAX_KNOWN:
            del self._failures[key]
            self._overflowed = True
        else:
            self._alarm.put(self._clock.now() + wait, key)
