"""Time that moves only when nothing else can happen: a clock, and an event loop that keeps to it.

A test with this loop never waits. Where the loop would sleep until the next timer, the clock jumps there instead; while
a thread works (a boto3 call, a `def` tool) the clock stands still. So leases expire, retries back off and long polls
time out in the right order, at once, and the same way in every run.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any

TOOL_THREAD = "perdure-tool"
"""Name of the threads that `def` tools run in; the loop does not start them, so it looks for them."""

_REAL_WAIT_SECONDS = 0.05
"""Longest wait for a thread before the loop looks again; a thread that ends wakes the loop by itself."""


class LoopClock:
    """The `Clock` port in virtual time. Shared by all loops of a test."""

    def __init__(self, start: datetime = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)) -> None:
        self._start = start
        self.seconds = 0.0

    def now(self) -> datetime:
        """Return the virtual time in UTC, in whole milliseconds, as the product's clocks do."""
        return self._start + timedelta(milliseconds=int(self.seconds * 1000 + 1e-6))

    async def sleep(self, seconds: float) -> None:
        """Return after this many virtual seconds."""
        await asyncio.sleep(seconds)

    def advance(self, seconds: float) -> None:
        """Move on. Time never goes back."""
        self.seconds += max(0.0, seconds)

    def advance_to(self, moment: datetime) -> None:
        """Move on to a moment, or stay if it has passed."""
        self.advance((moment - self.now()).total_seconds())


class SkewedClock:
    """The clock of a host that is ahead of the others, or behind them when `skew` is negative."""

    def __init__(self, clock: LoopClock, skew: timedelta) -> None:
        self._clock = clock
        self._skew = skew

    def now(self) -> datetime:
        return self._clock.now() + self._skew

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on a virtual clock.

    Args:
        threads: Where blocking calls run, whichever pool they ask for; None: where they ask for.
    """

    def __init__(self, clock: LoopClock, threads: Executor | None = None) -> None:
        self._clock = clock
        self._threads = threads
        self._in_threads = 0
        super().__init__(self._new_selector())

    def _new_selector(self) -> selectors.BaseSelector:
        return _JumpingSelector(self._clock, self._has_threads)

    def time(self) -> float:
        return self._clock.seconds

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        future = super().run_in_executor(self._threads or executor, func, *args)
        self._in_threads += 1
        # Runs on this loop after the result has arrived, hence never too early.
        future.add_done_callback(self._thread_is_done)
        return future

    def _thread_is_done(self, _: Any) -> None:
        self._in_threads -= 1

    def _has_threads(self) -> bool:
        here = threading.current_thread()
        tools = (t for t in threading.enumerate() if t.name == TOOL_THREAD and t is not here)
        return self._in_threads > 0 or any(thread.is_alive() for thread in tools)


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that moves the clock instead of waiting."""

    def __init__(self, clock: LoopClock, has_threads: Callable[[], bool]) -> None:
        super().__init__()
        self._clock = clock
        self._has_threads = has_threads

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        busy = self._has_threads()  # before the look: a thread that ends in between has then left its word
        found = super().select(0)
        if found or timeout == 0:
            return found
        if busy:
            return super().select(_REAL_WAIT_SECONDS)
        if timeout is None:
            raise RuntimeError("nothing can ever happen on this loop any more: a task waits for something nobody does")
        self._clock.advance(timeout)
        return found
