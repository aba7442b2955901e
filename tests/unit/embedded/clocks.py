"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


async def settled() -> None:
    """Let everything run that can run without the clock."""
    for _ in range(20):
        await asyncio.sleep(0)


class VirtualClock:
    """`Clock` on which sleepers wake in order when `advance` passes their time."""

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

    async def advance(self, seconds: float) -> None:
        """Move the time on, waking whoever's time comes."""
        end = self._now + timedelta(seconds=seconds)
        await settled()
        while self._sleepers and self._sleepers[0][0] <= end:
            self._now, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
            await settled()
        self._now = end
        await settled()
