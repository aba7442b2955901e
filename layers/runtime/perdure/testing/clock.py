"""A clock for tests: time stands still until a test moves it, or jumps ahead whenever nothing else can happen.

`virtual_time.LoopClock` is the other virtual clock. It belongs to event loops of its own kind, so that `asyncio`'s own
timeouts obey it and several loops (Lambda containers) share it. This one works on the loop that a test already runs
on, and lets that test move the time from within; neither could do the other's part without giving up its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)

LONGEST_RUN = timedelta(days=1)
"""Virtual time after which `VirtualClock.run` gives up. Our own choice: longer than any retry, lease or deadline."""


class StuckError(AssertionError):
    """Nothing can happen any more: everybody waits, and nobody for the clock."""


class VirtualClock:
    """The `Clock` port in virtual time, on any of asyncio's own event loops.

    Sleepers wake in the order of their times. Work in threads takes no virtual time; whoever hands work to a thread
    says so with `working`, and the time stands still meanwhile.
    """

    def __init__(self, start: datetime = NOON) -> None:
        self._now = start
        self._sleepers: list[tuple[datetime, int, asyncio.Future[None]]] = []
        self._order = count()
        self._working = 0
        self._idle = asyncio.Event()

    def now(self) -> datetime:
        """Return the virtual time in UTC."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Return once the time has been moved on by this many seconds; for zero and less, at once."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + timedelta(seconds=seconds), next(self._order), woken))
        await woken

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Say that an answer from outside the event loop is awaited here: no time passes until it came."""
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            if not self._working:
                self._idle.set()

    async def settle(self) -> None:
        """Let everything run that can run without time passing."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)
            if self._working:
                self._idle.clear()
                await self._idle.wait()
            elif not loop._ready:  # type: ignore[attr-defined]  # no public name tells that a loop has nothing to do
                return

    async def advance(self, seconds: float) -> None:
        """Move the time on by this many seconds, waking on the way whoever's time comes."""
        end = self._now + timedelta(seconds=seconds)
        await self.settle()
        while (next_one := self._next()) is not None and next_one <= end:
            await self._wake_next()
        self._now = end
        await self.settle()

    async def skip(self) -> bool:
        """Jump to the next sleeper, however far it is. False: nobody sleeps, so no time has passed."""
        await self.settle()
        if self._next() is None:
            return False
        await self._wake_next()
        return True

    async def run(self, work: Coroutine[Any, Any, T], *, within: timedelta = LONGEST_RUN) -> T:
        """Run some work to its end and return its result; whenever nothing else can happen, jump to the next sleeper.

        Raises:
            StuckError: The work waits for something that is not the clock, or is not done in time.
        """
        give_up_at = self._now + within
        task = asyncio.ensure_future(work)
        try:
            await self.settle()
            while not task.done():
                next_one = self._next()
                if next_one is None:
                    raise StuckError(f"everybody waits, and nobody for the clock: {task.get_coro()}")
                if next_one > give_up_at:
                    raise StuckError(f"not done after {within} of virtual time: {task.get_coro()}")
                await self._wake_next()
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    def _next(self) -> datetime | None:
        """Return when the next sleeper wakes; one that was cancelled meanwhile does not count."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    async def _wake_next(self) -> None:
        self._now, _, woken = heapq.heappop(self._sleepers)
        woken.set_result(None)
        await self.settle()
