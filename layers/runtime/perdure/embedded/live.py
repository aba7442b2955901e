"""Progress of running steps and the word that a session changed, in this process. The log is the truth."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from perdure.core.expected import awaited_steps
from perdure.core.head import Head
from perdure.embedded.clock import SystemClock
from perdure.ports import PROGRESS_GAP, Clock, LiveEvent, SessionKey

MAX_SESSION_BYTES = 10 * 1024 * 1024
"""Progress that is kept of a session's open attempts, in characters of its JSON text (spec EVT-06)."""

MAX_IDLE_SESSIONS = 10_000
"""Sessions without progress and viewers of which the last version is kept, so that no change is missed between a
viewer's read and its wait. Our own choice: about 2 MB."""

MAX_CLOSED_ATTEMPTS = 10_000
"""Attempts of all sessions that are remembered as over, so that a late word of theirs is dropped: those of the last ten
seconds and more under full load. Our own choice: about 3 MB."""

Attempt = tuple[str, int]
"""Step id and attempt."""


@dataclass(slots=True)
class _Progress:
    events: list[LiveEvent] = field(default_factory=list)
    size: int = 0
    over: bool = False


@dataclass(slots=True)
class _Channel:
    version: int = 0
    size: int = 0
    attempts: OrderedDict[Attempt, _Progress] = field(default_factory=OrderedDict)
    seen: int = 0  # progress events that are kept
    viewers: dict[asyncio.Future[None], int] = field(default_factory=dict)  # and how many events each has seen

    @property
    def is_idle(self) -> bool:
        return not self.attempts and not self.viewers

    def wake(self) -> None:
        for viewer in self.viewers:  # in the order in which they came
            _wake(viewer)

    def wake_for_progress(self) -> None:
        """Leave those alone that wait for a commit only, as running steps do."""
        for viewer, seen in self.viewers.items():
            if self.seen > seen:
                _wake(viewer)

    def close(self, attempt: Attempt) -> None:
        """Forget an attempt's progress."""
        progress = self.attempts.pop(attempt)
        self.size -= progress.size
        self.seen -= len(progress.events)


class EmbeddedLive:
    """`LiveChannel` for viewers in this process.

    A session keeps 10 MiB of progress of what runs. What does not fit ends the progress of its attempt; a viewer then
    sees the rest with the commit.
    """

    def __init__(self, clock: Clock | None = None, *, max_session_bytes: int = MAX_SESSION_BYTES) -> None:
        self._clock: Clock = clock or SystemClock()
        self._max_bytes = max_session_bytes
        self._channels: OrderedDict[SessionKey, _Channel] = OrderedDict()
        self._closed: OrderedDict[tuple[SessionKey, Attempt], None] = OrderedDict()

    async def publish(
        self,
        key: SessionKey,
        turn_id: str,  # noqa: ARG002 - the port's; viewers on AWS want it
        step_id: str,
        attempt: int,
        events: Sequence[LiveEvent],
    ) -> None:
        """See `LiveChannel.publish`. Progress of an attempt that is over is dropped."""
        channel = self._channel(key)
        place = (step_id, attempt)
        if (key, place) in self._closed or not events:
            return
        progress = channel.attempts.setdefault(place, _Progress())
        for event in events:
            if progress.over:
                break
            size = _size(event)
            if channel.size + size > self._max_bytes:
                progress.over = True
                event, size = LiveEvent(type=PROGRESS_GAP, at=event.at, payload={"reason": "budget"}), 0
            progress.events.append(event)
            progress.size += size
            channel.size += size
            channel.seen += 1
        channel.wake_for_progress()

    async def progress(self, key: SessionKey, step_id: str, attempt: int, after: int = 0) -> Sequence[LiveEvent]:
        """See `LiveChannel.progress`."""
        channel = self._channels.get(key)
        progress = channel.attempts.get((step_id, attempt)) if channel is not None else None
        return progress.events[after:] if progress is not None else []

    async def changed(self, key: SessionKey, head: Head) -> None:
        """See `LiveChannel.changed`. Attempts that HEAD no longer expects lose their progress."""
        channel = self._channel(key)
        if head.version <= channel.version:
            return  # the word of a later commit came first
        channel.version = head.version
        expected = {(dispatch.step_id, dispatch.attempt) for dispatch in awaited_steps(head)}
        for place in [place for place in channel.attempts if place not in expected]:
            channel.close(place)
            self._closed[key, place] = None
        while len(self._closed) > MAX_CLOSED_ATTEMPTS:
            self._closed.popitem(last=False)
        channel.wake()

    async def wait(self, key: SessionKey, *, version: int, seen: int, timeout_seconds: float) -> None:
        """See `LiveChannel.wait`. Returns at any change or progress that comes while it waits."""
        channel = self._channel(key)
        # A viewer may see a commit before its word comes; until then there is progress of steps that are over.
        has_more = channel.version > version or (channel.version == version and channel.seen > seen)
        if has_more or timeout_seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        viewer: asyncio.Future[None] = loop.create_future()
        channel.viewers[viewer] = seen
        try:
            if isinstance(self._clock, SystemClock):  # a timer of the loop is cheaper than a task that sleeps
                timer = loop.call_later(timeout_seconds, _wake, viewer)
                try:
                    await viewer
                finally:
                    timer.cancel()
            else:
                await self._woken_or_late(viewer, timeout_seconds)
        finally:
            channel.viewers.pop(viewer, None)

    async def _woken_or_late(self, viewer: asyncio.Future[None], timeout_seconds: float) -> None:
        late = asyncio.ensure_future(self._clock.sleep(timeout_seconds))
        try:
            await asyncio.wait((viewer, late), return_when=asyncio.FIRST_COMPLETED)
        finally:
            late.cancel()

    def _channel(self, key: SessionKey) -> _Channel:
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = _Channel()
            if len(self._channels) > MAX_IDLE_SESSIONS:
                self._forget_idle_ones()
        self._channels.move_to_end(key)
        return channel

    def _forget_idle_ones(self) -> None:
        """Keep the half that was used last, and all that somebody looks at or that have progress."""
        for key in list(self._channels)[: MAX_IDLE_SESSIONS // 2]:
            if self._channels[key].is_idle:
                del self._channels[key]


def _wake(viewer: asyncio.Future[None]) -> None:
    if not viewer.done():
        viewer.set_result(None)


def _size(event: LiveEvent) -> int:
    """Return about how many characters an event takes as JSON. A payload is a few short texts, or one long one."""
    return len(event.type) + sum([len(name) + len(str(value)) + 6 for name, value in event.payload.items()])
