"""The embedded worker: runs steps as they become ready, fires timers, and looks after what a crash left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure.core.expected import Dispatch, Timer
from perdure.embedded.leases import SqliteLeases
from perdure.embedded.queue import EmbeddedQueue, EmbeddedTimers
from perdure.errors import PerdureError
from perdure.operator_events import StepNames, tell
from perdure.ports import SessionKey
from perdure.steps.base import StepDeps, StepMessage
from perdure.steps.call_tool import call_single_attempt_tool, call_tool
from perdure.steps.firing import FIRING_BUDGET, MAX_FIRING_TIMERS
from perdure.steps.recover import sweep, sweep_session_safely
from perdure.steps.run_model import run_model
from perdure.steps.tasks import cancel_tool_task, poll_tool_task
from perdure.steps.waking import fire_timer
from perdure.steps.write_title import write_title

MAX_RUNNING_STEPS = 512
"""Steps that run at a time in one process; the rest wait in the queue. Our own choice: waiting for models is cheap."""

SWEEP_SECONDS = 30.0
"""Time between two sweeps while the process lives; after a crash the start itself sweeps."""

LATENESS = timedelta(seconds=60)
"""A sweep that comes later than this was held up, as by a machine that slept or a clock that was set. Less than the
100 s that a lease is good for at least. Our own choice."""

_STEPS: dict[str, Callable[..., Awaitable[None]]] = {
    "run_model": run_model,
    "call_tool": call_tool,
    "call_single_attempt_tool": call_single_attempt_tool,
    "poll_tool_task": poll_tool_task,
    "cancel_tool_task": cancel_tool_task,
    "write_title": write_title,
}

_FOR_EVER = datetime(9999, 1, 1, tzinfo=UTC)


class EmbeddedWorker:
    """Runs the steps of one database, in this process and on its event loop."""

    def __init__(self, deps: StepDeps, queue: EmbeddedQueue, timers: EmbeddedTimers, leases: SqliteLeases) -> None:
        self._deps = deps
        self._queue = queue
        self._timers = timers
        self._leases = leases
        self._loops: list[asyncio.Task[None]] = []
        self._running: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(MAX_RUNNING_STEPS)
        self._timer_slots = asyncio.Semaphore(MAX_FIRING_TIMERS)

    async def start(self) -> None:
        """Pick up what an earlier process left, then work until `stop`."""
        await self._recover()
        self._loops = [
            asyncio.create_task(self._run_steps(), name="perdure-steps"),
            asyncio.create_task(self._fire_timers(), name="perdure-timers"),
            asyncio.create_task(self._sweep_regularly(), name="perdure-sweep"),
        ]

    async def stop(self, *, grace_seconds: float = 10.0, force_seconds: float = 5.0) -> int:
        """Take no new step, let the running ones finish, and cut off those that are left after the grace.

        One that will not be cut off is waited for as long as `force_seconds`.

        Returns:
            How many were cut off; they are taken up again when the database is opened next.
        """
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._queue.close()
        self._timers.close()
        left = set(self._running)
        try:
            if left:
                _, left = await asyncio.wait(left, timeout=grace_seconds)
        finally:  # also when the grace itself is cut off
            for task in left:
                task.cancel()
        if left:
            await asyncio.wait(left, timeout=force_seconds)
        return len(left)

    async def _recover(self) -> None:
        """Rebuild queue and timers from the heads. The leases of an earlier process count as expired at once."""
        await self._leases.expire_earlier_leases()
        for key in await self._deps.ports.store.sessions_due(_FOR_EVER, limit=1_000_000):
            await sweep_session_safely(self._deps, key, at_start=True)

    async def _run_steps(self) -> None:
        while True:
            await self._slots.acquire()
            key, dispatch = await self._queue.next()
            self._go(self._run_step(key, dispatch))

    def _go(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run_step(self, key: SessionKey, dispatch: Dispatch) -> None:
        try:
            await _STEPS[dispatch.kind](self._deps, StepMessage.of(key, dispatch))
        except PerdureError as error:
            sentence = "a step could not be finished; the sweep will see to it"
            tell("outage", sentence, error=error, code=error.code, **_fields(key, dispatch))
        except Exception as error:  # noqa: BLE001 - one step's fault must not end the worker
            tell("fault", "a step failed unexpectedly; the sweep will see to it", error=error, **_fields(key, dispatch))
        finally:
            self._slots.release()

    async def _fire_timers(self) -> None:
        while True:
            await self._timer_slots.acquire()
            key, timer = await self._timers.next()
            self._go(self._fire(key, timer))

    async def _fire(self, key: SessionKey, timer: Timer) -> None:
        try:
            async with asyncio.timeout(FIRING_BUDGET.total_seconds()):
                await fire_timer(self._deps, key, timer.timer_id, timer.fence)
        except Exception as error:  # noqa: BLE001 - one timer's fault must not keep the others from firing
            tell("fault", "a timer could not be fired; the sweep will", error=error, session_id=key.session_id)
        finally:
            self._timer_slots.release()

    async def _sweep_regularly(self) -> None:
        clock = self._deps.ports.clock
        while True:
            expected = clock.now() + LATENESS + timedelta(seconds=SWEEP_SECONDS)
            await clock.sleep(SWEEP_SECONDS)
            if clock.now() > expected:
                continue  # running steps first renew the leases that ended while nobody could
            try:
                await sweep(self._deps)
            except Exception as error:  # noqa: BLE001 - the next sweep tries again
                tell("fault", "the sweep failed", error=error)


def _fields(key: SessionKey, dispatch: Dispatch) -> StepNames:
    return {"session_id": key.session_id, "step_id": dispatch.step_id, "attempt": dispatch.attempt}
