"""What the suites of `StepQueue` and `Timers` look through: what came out, on a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

from perdure.ports import SessionKey, StepQueue, Timers
from perdure.testing.conformance.builders import NOON


class HandClock:
    """A clock that moves only by `advance_to`, and wakes those who sleep on the way in their order."""

    def __init__(self) -> None:
        self._now = NOON
        self._sleepers: list[tuple[datetime, int, asyncio.Future[None]]] = []
        self._order = count()

    def now(self) -> datetime:
        return self._now

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + timedelta(seconds=seconds), next(self._order), woken))
        await woken

    def jump_to(self, moment: datetime) -> None:
        self._now = max(self._now, moment)

    async def advance_to(self, moment: datetime) -> None:
        await _let_others_run()
        while self._sleepers and self._sleepers[0][0] <= moment:
            wakes_at, _, sleeper = heapq.heappop(self._sleepers)
            self.jump_to(wakes_at)
            if not sleeper.done():
                sleeper.set_result(None)
            await _let_others_run()
        self.jump_to(moment)


@dataclass(frozen=True, slots=True)
class Came:
    """A step or a timer that came out: when, of which session, and its ids."""

    at: datetime
    key: SessionKey
    name: str
    number: int
    kind: str = ""


class Delivery(ABC):
    """One adapter set's queue and timers, and what came out of them: whoever brings a queue derives from it.

    Attributes:
        queue: The queue, on `clock`.
        timers: The timers, on `clock`.
        clock: The only source of time.
        steps: What came out of the queue so far.
        fired: The timers that fired so far.
    """

    queue: StepQueue
    timers: Timers

    def __init__(self) -> None:
        self.clock = HandClock()
        self.steps: list[Came] = []
        self.fired: list[Came] = []

    @abstractmethod
    async def until(self, moment: datetime) -> None:
        """Let time pass, and have what is due come out."""

    async def after(self, delay: timedelta) -> None:
        await self.until(self.clock.now() + delay)


OpenDelivery = Callable[[], AbstractAsyncContextManager[Delivery]]
"""Opens an empty queue without timers for one test, and closes it when it is left."""


async def _let_others_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
