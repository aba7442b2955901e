"""Entries that this container has read before. Correct without any invalidation, because an entry never changes and
a version of a session is never used again, not even after a purge."""

from __future__ import annotations

from collections import OrderedDict

from perdure.core.entries import Entry

CACHE_BYTES = 16 * 1024 * 1024
"""Encoded bytes that a container keeps (ours); decoded they take several times that much memory."""


class EntryCache:
    """The entries that were used last, up to a number of encoded bytes."""

    def __init__(self, capacity_bytes: int = CACHE_BYTES) -> None:
        self._capacity = capacity_bytes
        self._bytes = 0
        self._entries: OrderedDict[tuple[str, int], tuple[Entry, int]] = OrderedDict()

    def get(self, partition: str, version: int) -> Entry | None:
        found = self._entries.get((partition, version))
        if found is None:
            return None
        self._entries.move_to_end((partition, version))
        return found[0]

    def put(self, partition: str, entry: Entry, size: int) -> None:
        """Keep an entry of `size` encoded bytes, unless it alone would push out more than a quarter of the rest."""
        name = (partition, entry.version)
        if name in self._entries or size > self._capacity // 4:
            return
        self._entries[name] = (entry, size)
        self._bytes += size
        while self._bytes > self._capacity:
            _, (_, dropped) = self._entries.popitem(last=False)
            self._bytes -= dropped
