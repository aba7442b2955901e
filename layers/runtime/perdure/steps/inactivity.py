"""A model that says nothing for too long is given up, on the runtime's clock (spec MODEL-17)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from perdure.errors import ModelCallError
from perdure.ports import Clock

T = TypeVar("T")


class Activity:
    """When something came last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.now()

    def seen(self) -> None:
        """Something came: the silence begins anew."""
        self._last = self._clock.now()

    async def silence(self, limit: timedelta) -> None:
        """Return once nothing has come for this long."""
        while (left := (self._last + limit - self._clock.now()).total_seconds()) > 0:
            await self._clock.sleep(left)


async def unless_silent(work: Coroutine[Any, Any, T], activity: Activity, limit: timedelta | None) -> T:
    """Run a provider call until it ends, or until nothing has come for longer than the limit; then cancel it.

    A cancellation from outside, such as a stop, goes to the work and comes out as what it is.

    Raises:
        ModelCallError: `timeout`, retryable: the silence was too long. The work has ended by then.
    """
    if limit is None:
        return await work
    activity.seen()
    working = asyncio.ensure_future(work)
    silent = asyncio.ensure_future(activity.silence(limit))
    try:
        await asyncio.wait({working, silent}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
    finally:
        silent.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working, silent})
        if not working.cancelled():
            working.exception()  # seen: what its cleanup raised never replaces how it ended
    raise ModelCallError(
        f"the model sent nothing for {limit.total_seconds():g} seconds: the same request may succeed later",
        kind="timeout",
        retryable=True,
    )
