"""The live channel on API Gateway's WebSockets: the word that a session changed. The log is the truth.

A frame carries no event: viewers read `events` by cursor, so frames may be lost, doubled or out of order.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from perdure.aws.clients import in_thread
from perdure.aws.limits import MAX_FRAME_BYTES
from perdure.aws.progress import ProgressLog
from perdure.aws.subscriptions import Subscription, Subscriptions
from perdure.core.expected import awaited_steps
from perdure.core.head import Head
from perdure.errors import PerdureError
from perdure.ports import Clock, LiveEvent, SessionKey, SessionStore

logger = logging.getLogger("perdure")

POST_ATTEMPTS = 4
"""Posts of one frame while API Gateway answers 429; a viewer that misses it sees the change at its next read."""

FIRST_POST_DELAY_SECONDS = 0.1
"""Wait after the first 429; doubles with each (ours)."""

POLL_SECONDS = 0.5
"""Time between two looks of a long poll (ours)."""


class ApiGatewayLive:
    """`LiveChannel` on the sessions table and the WebSocket API.

    Args:
        connections: Gives the client of the connections' management API when somebody watches.
    """

    def __init__(
        self,
        store: SessionStore,
        progress: ProgressLog,
        subscriptions: Subscriptions,
        connections: Callable[[], Any],
        clock: Clock,
    ) -> None:
        self._store = store
        self._progress = progress
        self._subscriptions = subscriptions
        self._connections = connections
        self._clock = clock

    async def publish(
        self, key: SessionKey, turn_id: str, step_id: str, attempt: int, events: Sequence[LiveEvent]
    ) -> None:
        """Append progress of a step's attempt, in order, and wake its viewers. Never raises for a lost viewer."""
        await self._progress.append(key, step_id, attempt, events, partial(self._open_attempts, key))
        frame = {"type": "changed", "session_id": key.session_id, "turn_id": turn_id, "step_execution_id": step_id}
        await self._tell(key, frame, strong=False)

    async def progress(self, key: SessionKey, step_id: str, attempt: int, after: int = 0) -> Sequence[LiveEvent]:
        """Return the progress of an attempt from its `after`-th event on."""
        return await self._progress.read(key, step_id, attempt, after)

    async def changed(self, key: SessionKey, head: Head) -> None:
        """Tell viewers that a commit was made. Never raises.

        The subscriptions are read now, strongly consistent: a viewer that subscribed before this read is told, and
        one that subscribes after it reads the session after the commit (races.md X13).
        """
        await self._tell(key, {"type": "changed", "session_id": key.session_id, "version": head.version}, strong=True)

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

    async def _tell(self, key: SessionKey, frame: dict[str, Any], *, strong: bool) -> None:
        data = frame_of(frame)
        try:
            watching = await self._subscriptions.of_session(key, strong=strong)
            await asyncio.gather(*(self._post(key, subscription, data) for subscription in watching))
        except PerdureError as error:
            logger.warning("viewers could not be told of a change", extra={"error": error.code})

    async def _post(self, key: SessionKey, subscription: Subscription, data: bytes) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        from perdure.aws.errors import GONE, code_of, status_of

        post = self._connections().post_to_connection
        for attempt in range(POST_ATTEMPTS):
            if attempt:
                await self._clock.sleep(FIRST_POST_DELAY_SECONDS * 2 ** (attempt - 1))
            try:
                await in_thread(post, ConnectionId=subscription.connection_id, Data=data)
            except (BotoCoreError, ClientError) as error:
                if code_of(error) in GONE or status_of(error) == 410:
                    await self._subscriptions.forget(key, subscription)
                    return
                if status_of(error) != 429:
                    logger.warning("a frame could not be sent", extra={"error": type(error).__name__})
                    return
            else:
                return
        logger.warning("a viewer could not be told of a change: too many requests")


def frame_of(content: dict[str, Any]) -> bytes:
    """Return a frame's bytes.

    Raises:
        ValueError: It is over 32 KB. Frames carry ids only, so this is a defect.
    """
    data = json.dumps(content, separators=(",", ":")).encode("ascii")
    if len(data) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {len(data)} bytes is over the {MAX_FRAME_BYTES} that API Gateway takes")
    return data
