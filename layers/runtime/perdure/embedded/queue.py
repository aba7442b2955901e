"""Steps and timers of this process, in memory. At the next start both are rebuilt from the heads."""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Generic, TypeVar

from perdure.core.expected import Dispatch, Timer
from perdure.ports import Clock, SessionKey

T = TypeVar("T")


class Alarm(Generic[T]):
    """Hands things over when their time has come. One task sleeps on the clock until the earliest of them.

    Args:
        early: When the clock was set back, hand over at once what was put before, rather than wait that much longer.
    """

    def __init__(self, clock: Clock, due: Callable[[T], None], *, early: bool = False) -> None:
        self._clock = clock
        self._due = due
        self._early = early
        self._latest = clock.now()
        self._heap: list[tuple[datetime, int, T]] = []
        self._order = count()
        self._task: asyncio.Task[None] | None = None

    def put(self, at: datetime, thing: T) -> None:
        self._latest = self._clock.now()
        heapq.heappush(self._heap, (at, next(self._order), thing))
        if self._heap[0][2] is thing or self._task is None:
            self.close()
            self._task = asyncio.get_running_loop().create_task(self._run(), name="perdure-alarm")

    def __len__(self) -> int:
        return len(self._heap)

    def keep(self, wanted: Callable[[T], bool]) -> None:
        """Forget the things that are not wanted any more, and what was put more than once."""
        self._heap = list({put[2]: put for put in self._heap if wanted(put[2])}.values())
        heapq.heapify(self._heap)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while self._heap:
            now = self._clock.now()
            wait = (self._heap[0][0] - now).total_seconds()
            if wait > 0 and not (self._early and now + _SET_BACK < self._latest):
                await self._clock.sleep(min(wait, _LONGEST_SLEEP))
            else:
                self._due(heapq.heappop(self._heap)[2])
        self._task = None


_LONGEST_SLEEP = 3600.0
"""Seconds between two looks at the clock: a machine that slept or whose clock was set is off by this at most."""


_SET_BACK = timedelta(seconds=5)
"""A clock that went back further than this was set; less is how clocks are kept right. Our own choice."""


_CANCELLED = 500
"""Cancelled timers that are kept at least until they are forgotten, all at once. Our own choice."""


class EmbeddedQueue:
    """`StepQueue`: what is ready goes out one step per session in turn, so that a busy session can't starve others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: OrderedDict[SessionKey, deque[Dispatch]] = OrderedDict()
        self._some_ready = asyncio.Event()
        self._delayed: Alarm[tuple[SessionKey, Dispatch]] = Alarm(clock, self._is_ready, early=True)

    async def send(self, key: SessionKey, dispatch: Dispatch) -> None:
        """See `StepQueue.send`."""
        if dispatch.not_before is not None and dispatch.not_before > self._clock.now():
            self._delayed.put(dispatch.not_before, (key, dispatch))
        else:
            self._is_ready((key, dispatch))

    async def next(self) -> tuple[SessionKey, Dispatch]:
        """Wait for a step that may run and take it. Several may wait; each step goes to one of them."""
        while not self._ready:
            self._some_ready.clear()
            await self._some_ready.wait()
        key, dispatches = next(iter(self._ready.items()))
        dispatch = dispatches.popleft()
        if dispatches:
            self._ready.move_to_end(key)
        else:
            del self._ready[key]
        return key, dispatch

    def close(self) -> None:
        """Forget what waits for its time."""
        self._delayed.close()

    def _is_ready(self, message: tuple[SessionKey, Dispatch]) -> None:
        key, dispatch = message
        self._ready.setdefault(key, deque()).append(dispatch)
        self._some_ready.set()


class EmbeddedTimers:
    """`Timers`: a timer fires once its time has come, and is forgotten then; setting it again fires it again."""

    def __init__(self, clock: Clock) -> None:
        self._set: set[tuple[SessionKey, Timer]] = set()
        self._fired: deque[tuple[SessionKey, Timer]] = deque()
        self._some_fired = asyncio.Event()
        self._alarm: Alarm[tuple[SessionKey, Timer]] = Alarm(clock, self._is_due)

    async def set(self, key: SessionKey, timer: Timer) -> None:
        """See `Timers.set`."""
        if (key, timer) not in self._set:
            self._set.add((key, timer))
            self._alarm.put(timer.due_at, (key, timer))

    async def cancel(self, key: SessionKey, timer: Timer) -> None:
        """See `Timers.cancel`. A timer that has fired already is still handed out."""
        self._set.discard((key, timer))
        if len(self._alarm) > 2 * len(self._set) + _CANCELLED:  # deadlines may be days away
            self._alarm.keep(self._set.__contains__)

    async def next(self) -> tuple[SessionKey, Timer]:
        """Wait for a timer that is due and take it."""
        while not self._fired:
            self._some_fired.clear()
            await self._some_fired.wait()
        return self._fired.popleft()

    def close(self) -> None:
        """Forget all timers that have not fired."""
        self._alarm.close()

    def _is_due(self, armed: tuple[SessionKey, Timer]) -> None:
        if armed in self._set:  # it was not cancelled
            self._set.discard(armed)
            self._fired.append(armed)
            self._some_fired.set()
