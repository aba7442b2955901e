"""The live channel on AWS: progress in the table, and a pump for each viewer whom a change concerns.

The log is the truth: what a pump is too late for, the next one sends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from perdure.aws.progress import ProgressLog
from perdure.aws.subscriptions import Subscriptions
from perdure.core.expected import awaited_steps
from perdure.core.head import Head
from perdure.errors import PerdureError
from perdure.ports import Clock, LiveEvent, SessionKey, SessionStore

if TYPE_CHECKING:
    from perdure.aws.delivery import Pump

logger = logging.getLogger("perdure")

POLL_SECONDS = 0.5
"""Time between two looks of a long poll (ours)."""


class ApiGatewayLive:
    """`LiveChannel` on the sessions table and the WebSocket API.

    Args:
        pump: Gives the pump when somebody watches.
    """

    def __init__(
        self,
        store: SessionStore,
        progress: ProgressLog,
        subscriptions: Subscriptions,
        pump: Callable[[], Pump],
        clock: Clock,
    ) -> None:
        self._store = store
        self._progress = progress
        self._subscriptions = subscriptions
        self._pump = pump
        self._clock = clock
        self._sending: set[asyncio.Task[None]] = set()

    async def publish(
        self,
        key: SessionKey,
        turn_id: str,  # noqa: ARG002 - the port's
        step_id: str,
        attempt: int,
        events: Sequence[LiveEvent],
    ) -> None:
        """Append progress of a step's attempt, in order, and wake its viewers. Never raises for a lost viewer."""
        await self._progress.append(key, step_id, attempt, events, partial(self._open_attempts, key))
        await self._tell(key, 0, strong=False)

    async def progress(self, key: SessionKey, step_id: str, attempt: int, after: int = 0) -> Sequence[LiveEvent]:
        """Return the progress of an attempt from its `after`-th event on."""
        return await self._progress.read(key, step_id, attempt, after)

    async def changed(self, key: SessionKey, head: Head) -> None:
        """Send viewers what a commit added. Never raises.

        The subscriptions are read now, strongly consistent: a viewer that subscribed before this read is sent to, and
        the pump of one that subscribes after it reads the session after the commit (races.md X13).
        """
        await self._tell(key, head.version, strong=True)

    async def wait(self, key: SessionKey, *, version: int, seen: int, timeout_seconds: float) -> None:
        """Return when the session is past `version`, or has more than `seen` progress events, or the time is over."""
        ends_at = self._clock.now() + timedelta(seconds=timeout_seconds)
        while True:
            head = await self._store.peek(key)
            if head.version > version or await self._progress_events(key, head) > seen:
                return
            left = (ends_at - self._clock.now()).total_seconds()
            if left <= 0:
                return
            await self._clock.sleep(min(POLL_SECONDS, left))

    async def _open_attempts(self, key: SessionKey) -> list[tuple[str, int]]:
        return [(step.step_id, step.attempt) for step in awaited_steps(await self._store.peek(key))]

    async def _progress_events(self, key: SessionKey, head: Head) -> int:
        open_steps = awaited_steps(head)
        return sum(await asyncio.gather(*(self._progress.count(key, d.step_id, d.attempt) for d in open_steps)))

    async def _tell(self, key: SessionKey, version: int, *, strong: bool) -> None:
        """Wake the pumps of a session's viewers, and wait for those that run here.

        They are tasks of their own: whoever waits may be cancelled, and a pump that died with it would leave its viewer
        alone until its lease ends.
        """
        try:
            watching = await self._subscriptions.of_session(key, strong=strong)
        except PerdureError as error:
            logger.warning("viewers could not be told of a change", extra={"error": error.code})
            return
        if not watching:
            return
        tasks = [asyncio.create_task(self._pump().deliver(one, version)) for one in watching]
        self._sending.update(tasks)
        for task in tasks:
            task.add_done_callback(self._sending.discard)
        await asyncio.wait(tasks)

    async def close(self) -> None:
        """Wait for what is being sent: a function that has answered is frozen."""
        while self._sending:
            await asyncio.wait(self._sending)
