"""Progress of running steps: `PROG#<step>#<attempt>#<events so far>` beside the session, for 24 hours.

Best effort: a batch that could not be written is written again with the next, and the last ones of a step may be left
out. Viewers get the whole text with the commit.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from perdure.aws import keys
from perdure.aws.items import byte_size, to_json
from perdure.aws.limits import (
    MAX_PROGRESS_BYTES,
    MAX_PROGRESS_ITEM_BYTES,
    MAX_UNSENT_BATCHES,
    PROGRESS_SHARE_BYTES,
    PROGRESS_TTL,
)
from perdure.aws.table import Item, Table, number, text
from perdure.core.codec import from_millis, to_millis
from perdure.errors import StoreUnavailableError
from perdure.ports import PROGRESS_GAP, Clock, LiveEvent, SessionKey

logger = logging.getLogger("perdure")

_ATTEMPTS_REMEMBERED = 256
_LAST = 10**8 - 1


OpenAttempts = Callable[[], Awaitable[Iterable[tuple[str, int]]]]
"""Gives step id and attempt of what runs in a session."""


@dataclass(slots=True)
class _Written:
    """What this process has written of one attempt: an attempt is claimed once, so nobody else writes.

    Attributes:
        others: What the session's other attempts had written when it was looked at last, in bytes.
        next_look: Bytes of this attempt from which on it is looked at again.
        unsent: Numbers and JSON of batches whose write failed; a write that did land is made again unchanged.
        over: Nothing more is kept of it.
    """

    events: int = 0
    bytes: int = 0
    others: int = 0
    next_look: int = PROGRESS_SHARE_BYTES
    unsent: deque[tuple[int, int, str]] = field(default_factory=deque)
    over: bool = False


async def _nobody_else() -> Iterable[tuple[str, int]]:
    return ()


class ProgressLog:
    """Appends and reads progress events, numbered from 1 per attempt.

    Args:
        max_session_bytes: What the open attempts of a session may keep.
        share_bytes: What a worker writes between two looks at the other attempts.
    """

    def __init__(
        self,
        table: Table,
        clock: Clock,
        *,
        max_session_bytes: int = MAX_PROGRESS_BYTES,
        share_bytes: int = PROGRESS_SHARE_BYTES,
    ) -> None:
        self._table = table
        self._clock = clock
        self._max_bytes = max_session_bytes
        self._share = share_bytes
        self._written: OrderedDict[tuple[SessionKey, str, int], _Written] = OrderedDict()

    async def append(
        self,
        key: SessionKey,
        step_id: str,
        attempt: int,
        events: Sequence[LiveEvent],
        open_attempts: OpenAttempts = _nobody_else,
    ) -> None:
        """Append events while the session's budget lasts. The first that does not fit ends the attempt's progress.

        Args:
            open_attempts: Asked now and then for what else may have written.
        """
        place = (key, step_id, attempt)
        written = self._written.setdefault(place, _Written(next_look=self._share))
        self._written.move_to_end(place)
        while len(self._written) > _ATTEMPTS_REMEMBERED:
            self._written.popitem(last=False)
        for count, batch in _batches(events):
            if written.over:
                break
            size = byte_size(batch)
            if written.bytes + size >= written.next_look:
                written.next_look = written.bytes + size + self._share
                written.others = await self._bytes_of_others(place, open_attempts)
            if written.others + written.bytes + size > self._max_bytes or len(written.unsent) >= MAX_UNSENT_BATCHES:
                logger.warning("progress of a step is over its limit", extra={"step_id": step_id, "bytes": size})
                written.over = True
                count, batch = 1, to_json([[PROGRESS_GAP, to_millis(self._clock.now()), {"reason": "budget"}]])
            written.events += count
            written.bytes += byte_size(batch)
            written.unsent.append((written.events, written.bytes, batch))
        await self._send(place, written)

    async def _send(self, place: tuple[SessionKey, str, int], written: _Written) -> None:
        key, step_id, attempt = place
        while written.unsent:
            through, total, batch = written.unsent[0]
            try:
                await self._table.put(
                    {
                        "pk": keys.partition_key(key),
                        "sk": _sort_key(step_id, attempt, through),
                        "through": through,
                        "bytes": total,
                        "events": batch,
                        "ttl": to_millis(self._clock.now() + PROGRESS_TTL) // 1000,
                    }
                )
            except StoreUnavailableError:
                logger.warning("progress of a step could not be written", extra={"step_id": step_id})
                return
            written.unsent.popleft()

    async def _bytes_of_others(self, place: tuple[SessionKey, str, int], open_attempts: OpenAttempts) -> int:
        key, step_id, attempt = place
        try:
            others = [other for other in await open_attempts() if other != (step_id, attempt)]
            newest = await asyncio.gather(*(self._newest(key, *other) for other in others))
        except StoreUnavailableError:
            return self._written[place].others
        return sum(number(row, "bytes") for row in newest if row is not None and "bytes" in row)

    async def read(self, key: SessionKey, step_id: str, attempt: int, after: int) -> list[LiveEvent]:
        """Return the events after the `after`-th, those of expired items left out."""
        rows = await self._table.query(
            "#pk = :pk AND #sk BETWEEN :first AND :last",
            {
                "pk": keys.partition_key(key),
                "first": _sort_key(step_id, attempt, after + 1),
                "last": _sort_key(step_id, attempt, _LAST),
            },
        )
        events: list[LiveEvent] = []
        for row in self._alive(rows):
            batch = json.loads(text(row, "events"))
            number_before = number(row, "through") - len(batch)
            events += [_event_of(data) for data in batch[max(after + len(events) - number_before, 0) :]]
        return events

    async def count(self, key: SessionKey, step_id: str, attempt: int) -> int:
        """Return how many events of an attempt there are."""
        newest = await self._newest(key, step_id, attempt)
        return number(newest, "through") if newest is not None else 0

    async def _newest(self, key: SessionKey, step_id: str, attempt: int) -> Item | None:
        rows = await self._table.query(
            "#pk = :pk AND #sk BETWEEN :first AND :last",
            {
                "pk": keys.partition_key(key),
                "first": _sort_key(step_id, attempt, 0),
                "last": _sort_key(step_id, attempt, _LAST),
            },
            newest=True,
            limit=1,
        )
        return next(self._alive(rows), None)

    def _alive(self, rows: Sequence[Item]) -> Iterator[Item]:
        seconds = to_millis(self._clock.now()) // 1000
        return (row for row in rows if number(row, "ttl") > seconds)


def _batches(events: Sequence[LiveEvent]) -> Iterator[tuple[int, str]]:
    """Yield how many events, and their JSON, for items of at most 64 KB."""
    batch: list[str] = []
    size = 2
    for written in (to_json([e.type, to_millis(e.at), e.payload]) for e in events):
        more = byte_size(written) + 1
        if more > MAX_PROGRESS_ITEM_BYTES:
            logger.warning("a progress event is too large to be kept", extra={"bytes": more})
            continue
        if batch and size + more > MAX_PROGRESS_ITEM_BYTES:
            yield len(batch), f"[{','.join(batch)}]"
            batch, size = [], 2
        batch.append(written)
        size += more
    if batch:
        yield len(batch), f"[{','.join(batch)}]"


def _event_of(data: list[object]) -> LiveEvent:
    event_type, millis, payload = data
    assert isinstance(millis, int) and isinstance(payload, dict)  # noqa: PT018 - as `_batches` wrote it
    return LiveEvent(type=str(event_type), at=from_millis(millis), payload=payload)


def _sort_key(step_id: str, attempt: int, through: int) -> str:
    return f"PROG#{step_id}#{attempt}#{through:08d}"
