"""Reading a session's log as one coherent snapshot: HEAD, its tail and the log's items, merged by version.

HEAD and the log may be read in parallel and a moment old: the result is cut at HEAD's version, and every version
that is missing then is read again, strongly consistent (races.md X4). An entry that is in no tail any more had been
acknowledged as an item before it was dropped, so that read finds it, unless retention has deleted it meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from perdure.aws import keys
from perdure.aws.bodies import Bodies
from perdure.aws.cache import EntryCache
from perdure.aws.items import HeadRecord, StoredEntry, entry_of, record_of, stored_of
from perdure.aws.table import Table
from perdure.aws.tail import Tails
from perdure.core.entries import Entry
from perdure.errors import StoreUnavailableError
from perdure.ports import LogSlice

_ROUNDS = 3
_LAST_VERSION = 10**12 - 1


MOST_AT_HAND = 32
"""Entries that come along with a load at most: those of a few turns. Our own choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which versions a reader asked for (`SessionStore.read`)."""

    first: int | None = None
    last: int | None = None
    limit: int | None = None
    newest: bool = False

    def of(self, record: HeadRecord) -> range:
        """Return the versions that this means, now that HEAD is known."""
        head = record.head
        if not head.exists:
            return range(0)
        last = head.version if self.last is None else min(self.last, head.version)
        first = max(self.first or 1, record.purged_version + 1)
        if self.last is None or self.last >= (head.deleted_before or 0):
            # A range that lies below altogether still reads what HEAD points at: retention leaves that.
            first = max(first, head.deleted_before or 1)
        versions = range(first, last + 1)
        if self.limit is None:
            return versions
        return versions[-self.limit :] if self.newest and self.limit else versions[: self.limit]


class LogReader:
    """Reads entries of sessions, those in the cache excepted."""

    def __init__(self, table: Table, tails: Tails, bodies: Bodies, cache: EntryCache) -> None:
        self._table = table
        self._tails = tails
        self._bodies = bodies
        self._cache = cache

    async def read(self, partition: str, span: Span) -> LogSlice:
        """Return the snapshot.

        Raises:
            StoreUnavailableError: No answer came, or the log has a hole that did not close.
        """
        seen = self._tails.last_seen(partition)
        found: dict[int, StoredEntry] = {}
        if seen is None or (span.last or 0) > seen.version:
            head_item, found = await asyncio.gather(
                self._table.get(partition, keys.HEAD, strong=False), self._query_beside(partition, span)
            )
        else:  # this container has read up to there before, and needs no second time what it kept
            head_item = await self._table.get(partition, keys.HEAD, strong=False)
        record = record_of(head_item)
        self._tails.saw(partition, record)
        if record.head.version < max(seen.version if seen else 0, span.last or 0):
            record = await self._strong_head(partition)  # never older than what this process knows

        for _ in range(_ROUNDS):
            kept_from = record.head.deleted_before or 0
            wanted = span.of(record)
            found |= {stored.version: stored for stored in record.tail if stored.version in wanted}
            missing = [v for v in wanted if v not in found and self._cache.get(partition, v) is None]
            if missing:
                found |= await self._query_strong(partition, missing)
            lost = [v for v in missing if v not in found and v >= kept_from]
            if not lost:
                # What retention deleted is gone, even if this container still remembers it.
                there = [v for v in wanted if v >= kept_from or v in found]
                return LogSlice(head=record.head, entries=await self._entries(partition, there, found))
            record = await self._strong_head(partition)  # retention or a purge was quicker than this reader
        raise StoreUnavailableError(f"versions {lost[0]} to {lost[-1]} of this session's log are not there; try again")

    async def entry(self, partition: str, version: int) -> StoredEntry | None:
        """Return one log item, strongly consistent."""
        item = await self._table.get(partition, keys.log_key(version), strong=True)
        return stored_of(item) if item is not None else None

    async def whole(self, partition: str, stored: StoredEntry) -> Entry:
        """Return the entry of a stored one, from the cache or from its body if need be."""
        known = self._cache.get(partition, stored.version)
        if known is not None:
            return known
        written = stored.text if stored.body is None else await self._bodies.fetch(partition, stored.body)
        entry = entry_of(written)
        self._cache.put(partition, entry, len(written))
        return entry

    def remember(self, partition: str, entry: Entry, size: int) -> None:
        """Keep an entry that this process has committed."""
        self._cache.put(partition, entry, size)

    def at_hand(self, partition: str, record: HeadRecord) -> tuple[Entry, ...]:
        """Return the newest entries that are in the tail or in the cache, without a gap, oldest first."""
        entries: list[Entry] = []
        gone = max(record.purged_version, (record.head.deleted_before or 1) - 1)
        for version in range(record.head.version, max(record.head.version - MOST_AT_HAND, gone), -1):
            entry = self._cache.get(partition, version)
            if entry is None:
                stored = record.in_tail(version)
                if stored is None or stored.body is not None:
                    break
                entry = stored.entry()
                self._cache.put(partition, entry, len(stored.text))
            entries.append(entry)
        return tuple(reversed(entries))

    async def _entries(self, partition: str, wanted: Sequence[int], found: dict[int, StoredEntry]) -> tuple[Entry, ...]:
        entries = {v: known for v in wanted if (known := self._cache.get(partition, v)) is not None}
        unread = [found[v] for v in wanted if v in found and v not in entries]
        for entry in await asyncio.gather(*(self.whole(partition, stored) for stored in unread)):
            entries[entry.version] = entry
        return tuple(entries[v] for v in wanted if v in entries)

    async def _strong_head(self, partition: str) -> HeadRecord:
        record = record_of(await self._table.get(partition, keys.HEAD, strong=True))
        self._tails.saw(partition, record)
        return record

    async def _query_beside(self, partition: str, span: Span) -> dict[int, StoredEntry]:
        first, last = span.first or 1, span.last or _LAST_VERSION
        while first <= last and self._cache.get(partition, first) is not None:
            first += 1
        return await self._query(
            partition,
            first,
            last,
            limit=span.limit,
            newest=span.newest,
            strong=False,
        )

    async def _query_strong(self, partition: str, versions: Sequence[int]) -> dict[int, StoredEntry]:
        found: dict[int, StoredEntry] = {}
        runs = [self._query(partition, first, last, strong=True) for first, last in _runs(versions)]
        for rows in await asyncio.gather(*runs):
            found |= rows
        return found

    async def _query(
        self, partition: str, first: int, last: int, *, strong: bool, limit: int | None = None, newest: bool = False
    ) -> dict[int, StoredEntry]:
        if first > last or limit == 0:
            return {}
        items = await self._table.query(
            "#pk = :pk AND #sk BETWEEN :first AND :last",
            {"pk": partition, "first": keys.log_key(max(first, 0)), "last": keys.log_key(last)},
            strong=strong,
            limit=limit,
            newest=newest,
        )
        return {stored.version: stored for stored in map(stored_of, items)}


def _runs(versions: Iterable[int]) -> list[tuple[int, int]]:
    """Return the gapless runs of ascending versions, as first and last."""
    ordered = list(versions)
    ends = [before for before, after in pairwise(ordered) if after != before + 1]
    starts = [after for before, after in pairwise(ordered) if after != before + 1]
    return list(zip([ordered[0], *starts], [*ends, ordered[-1]], strict=True))
