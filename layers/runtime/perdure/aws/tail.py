"""HEAD's tail: entries that may not be items of their own yet, and what this process knows to be durable.

An entry leaves the tail only in a commit of a process that made every one of its puts and saw each acknowledged,
by version; never by position or by a watermark (races.md X3). Nothing records "materialized": who does not know,
puts again, and "already exists" is an acknowledgement, because entries never change (races.md X10).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from perdure.aws.items import HeadRecord, StoredEntry, log_item, receipt_item
from perdure.aws.table import ConditionNotMetError, Table
from perdure.core.entries import Receipt

SESSIONS_REMEMBERED = 1024
"""Sessions whose tails a process remembers. Forgetting one costs repeated puts and nothing else."""


@dataclass(slots=True)
class Memory:
    """What this process saw last of one session's tail, and the versions whose puts it saw acknowledged.

    `putting` is held while entries are put, so that no two tasks pay for the same puts.
    """

    version: int = 0
    tail: tuple[StoredEntry, ...] = ()
    purged_version: int = 0
    durable: set[int] = field(default_factory=set)
    putting: asyncio.Lock = field(default_factory=asyncio.Lock)


class Tails:
    """Makes entries of tails durable, and remembers what is."""

    def __init__(self, table: Table, capacity: int = SESSIONS_REMEMBERED) -> None:
        self._table = table
        self._capacity = capacity
        self._memories: OrderedDict[str, Memory] = OrderedDict()

    def saw(self, partition: str, record: HeadRecord) -> None:
        """Remember a tail. One that is older than what is remembered changes nothing."""
        memory = self._memory(partition)
        if record.head.version < memory.version:
            return
        memory.version = record.head.version
        memory.tail = record.tail
        memory.purged_version = record.purged_version
        memory.durable.intersection_update(stored.version for stored in record.tail)

    def last_seen(self, partition: str) -> Memory | None:
        return self._memories.get(partition)

    def undurable(self, partition: str, tail: Iterable[StoredEntry]) -> tuple[StoredEntry, ...]:
        """Return those entries of a tail that this process may not drop."""
        memory = self._memories.get(partition)
        durable = memory.durable if memory is not None else ()
        return tuple(stored for stored in tail if stored.version not in durable)

    async def materialize(self, partition: str, tail: Iterable[StoredEntry], *, purged_version: int) -> None:
        """Put entries and their receipts as items of their own, unless this process did so before or just now does.

        Raises:
            StoreUnavailableError: A put was not acknowledged; its entry has to stay in the tail.
        """
        async with self._memory(partition).putting:
            await _all_of(
                *(self._materialize(partition, stored, purged_version) for stored in self.undurable(partition, tail))
            )

    async def _materialize(self, partition: str, stored: StoredEntry, purged_version: int) -> None:
        await _all_of(
            self._table.put_once(log_item(partition, stored)),
            *(self._put_receipt(partition, stored.version, receipt, purged_version) for receipt in stored.receipts),
        )
        self._memory(partition).durable.add(stored.version)

    async def _put_receipt(self, partition: str, version: int, receipt: Receipt, purged_version: int) -> None:
        item = receipt_item(partition, version, receipt)
        if not purged_version:
            await self._table.put_once(item)
            return
        # A worker of an earlier life may put its receipt after the purge; it must not stand in for ours (X11).
        try:
            await self._table.put(
                item,
                condition="attribute_not_exists(#sk) OR #version <= :purged",
                values={"purged": purged_version},
            )
        except ConditionNotMetError:
            return

    def _memory(self, partition: str) -> Memory:
        memory = self._memories.get(partition)
        if memory is None:
            memory = self._memories[partition] = Memory()
        self._memories.move_to_end(partition)
        while len(self._memories) > self._capacity:
            self._memories.popitem(last=False)
        return memory


async def _all_of(*puts: Coroutine[Any, Any, object]) -> None:
    """Wait for every put, whatever becomes of the others, so that each acknowledgement counts; then fail if one did."""
    for outcome in await asyncio.gather(*puts, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
