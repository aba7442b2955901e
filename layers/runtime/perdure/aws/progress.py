"""Progress of running steps: `PROG#<step>#<attempt>#<events so far>` beside the session, for 24 hours.

Best effort: a batch that could not be written is not counted, and viewers get the whole text with the commit.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perdure.aws import keys
from perdure.aws.items import byte_size, to_json
from perdure.aws.limits import MAX_PROGRESS_BYTES, MAX_PROGRESS_ITEM_BYTES, PROGRESS_TTL
from perdure.aws.table import Item, Table, number, text
from perdure.core.codec import from_millis, to_millis
from perdure.errors import StoreUnavailableError
from perdure.ports import Clock, LiveEvent, SessionKey

logger = logging.getLogger("perdure")

_ATTEMPTS_REMEMBERED = 256
_LAST = 10**8 - 1


@dataclass(slots=True)
class _Written:
    """What this process has written of one attempt: an attempt is claimed once, so nobody else writes."""

    events: int = 0
    bytes: int = 0


class ProgressLog:
    """Appends and reads progress events, numbered from 1 per attempt."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._written: OrderedDict[tuple[SessionKey, str, int], _Written] = OrderedDict()

    async def append(self, key: SessionKey, step_id: str, attempt: int, events: Sequence[LiveEvent]) -> None:
        """Append events, up to 10 MiB of an attempt; what is more is left out."""
        written = self._written.setdefault((key, step_id, attempt), _Written())
        while len(self._written) > _ATTEMPTS_REMEMBERED:
            self._written.popitem(last=False)
        for count, batch in _batches(events):
            size = byte_size(batch)
            if written.bytes + size > MAX_PROGRESS_BYTES:
                logger.warning("progress of a step is over its limit", extra={"step_id": step_id, "bytes": size})
                return
            through = written.events + count
            try:
                await self._table.put(
                    {
                        "pk": keys.partition_key(key),
                        "sk": _sort_key(step_id, attempt, through),
                        "through": through,
                        "events": batch,
                        "ttl": to_millis(self._clock.now() + PROGRESS_TTL) // 1000,
                    }
                )
            except StoreUnavailableError:
                logger.warning("progress of a step could not be written", extra={"step_id": step_id})
                return
            written.events = through
            written.bytes += size

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
        return next((number(row, "through") for row in self._alive(rows)), 0)

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
