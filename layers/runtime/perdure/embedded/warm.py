"""Sessions kept parsed in memory. This process is their only writer, so what is here is what is stored."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from perdure.core.entries import Entry, Receipt
from perdure.core.head import Head
from perdure.ports import SessionKey

MAX_BYTES = 64 * 1024 * 1024
"""Stored text of all warm entries together, in characters. Parsed, they take about four times as much memory.

Our own choice: some hundred long conversations, in a process that a small machine can hold.
"""

BYTES_PER_SESSION = 4096
"""What a warm session counts besides its entries: HEAD is below 2 KB as text (design §2)."""


class View(NamedTuple):
    """A coherent look at a warm session. Its entries are those from version `first` to HEAD's, maybe more behind.

    `receipts` holds all receipts of the session, or is None when some may be on the disk only.
    """

    head: Head
    first: int
    entries: list[Entry]
    receipts: dict[str, Receipt] | None

    def between(self, low: int, high: int) -> list[Entry]:
        """Return the entries of versions `low` to `high`, as far as they are here."""
        return self.entries[max(low - self.first, 0) : max(high - self.first + 1, 0)]


class _Warm:
    __slots__ = ("entries", "first", "head", "receipts", "size", "sizes")

    def __init__(self, head: Head, first: int) -> None:
        self.head = head
        self.first = first
        self.entries: list[Entry] = []
        self.sizes: list[int] = []
        self.receipts: dict[str, Receipt] | None = {} if first == 1 else None
        self.size = BYTES_PER_SESSION


class WarmSessions:
    """The sessions used last, with the newest part of their logs.

    HEADs come in on the writer's thread only, in the order of their commits, so that none can be replaced by an
    older one. Entries never change, so older ones may be added from any thread.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._lock = threading.Lock()
        self._sessions: OrderedDict[SessionKey, _Warm] = OrderedDict()
        self._max_bytes = max_bytes
        self._size = 0

    def view(self, key: SessionKey) -> View | None:
        """Return a warm session, or None for a cold one."""
        with self._lock:
            warm = self._sessions.get(key)
            if warm is None:
                return None
            self._sessions.move_to_end(key)
            return View(warm.head, warm.first, warm.entries, warm.receipts)

    def loaded(self, key: SessionKey, head: Head) -> None:
        """Take in a HEAD that was read on the writer's thread."""
        with self._lock:
            if key not in self._sessions:
                self._add(key, _Warm(head, head.version + 1))
                self._shrink(key)

    def committed(self, key: SessionKey, head: Head, entry: Entry, size: int) -> None:
        """Take in a commit, on the writer's thread."""
        with self._lock:
            warm = self._sessions.get(key)
            if warm is None or warm.head.version + 1 != entry.version:
                self._drop(key)
                warm = _Warm(head, entry.version)
                self._add(key, warm)
            warm.head = head
            warm.entries.append(entry)
            warm.sizes.append(size)
            warm.size += size
            self._size += size
            if warm.receipts is not None:
                warm.receipts.update({receipt.key_hash: receipt for receipt in entry.receipts})
            self._shrink(key)

    def extended(self, key: SessionKey, older: Sequence[Entry], sizes: Sequence[int]) -> None:
        """Take in older entries that were read from the disk, if they end right where the warm ones begin."""
        with self._lock:
            warm = self._sessions.get(key)
            if warm is None or not older or older[-1].version + 1 != warm.first:
                return
            warm.entries = [*older, *warm.entries]  # a new list: views keep the old one
            warm.sizes = [*sizes, *warm.sizes]
            warm.first = older[0].version
            warm.size += sum(sizes)
            self._size += sum(sizes)
            if warm.first == 1:
                warm.receipts = {receipt.key_hash: receipt for entry in warm.entries for receipt in entry.receipts}
            self._shrink(key)

    def outdated(self, key: SessionKey, version: int) -> None:
        """Make a session cold if its HEAD here is of a version that the disk is known to have left behind.

        That of another writer, or one that could not be published: nobody could ever commit on it.
        """
        with self._lock:
            warm = self._sessions.get(key)
            if warm is not None and warm.head.version <= version:
                self._drop(key)

    def forget(self, key: SessionKey | None = None) -> None:
        """Make a session cold, or all of them."""
        with self._lock:
            for forgotten in list(self._sessions) if key is None else (key,):
                self._drop(forgotten)

    def _add(self, key: SessionKey, warm: _Warm) -> None:
        self._sessions[key] = warm
        self._size += warm.size

    def _drop(self, key: SessionKey) -> None:
        warm = self._sessions.pop(key, None)
        if warm is not None:
            self._size -= warm.size

    def _shrink(self, used: SessionKey) -> None:
        self._sessions.move_to_end(used)
        while self._size > self._max_bytes and len(self._sessions) > 1:
            _, warm = self._sessions.popitem(last=False)
            self._size -= warm.size
        if self._size > self._max_bytes:
            self._trim(self._sessions[used])

    def _trim(self, warm: _Warm) -> None:
        """Keep the newest entries of a session that is too large alone, down to three quarters of the room."""
        dropped = cut = 0
        while cut < len(warm.sizes) and self._size - dropped > self._max_bytes * 3 // 4:
            dropped += warm.sizes[cut]
            cut += 1
        warm.entries = warm.entries[cut:]
        warm.sizes = warm.sizes[cut:]
        warm.first += cut
        warm.receipts = None
        warm.size -= dropped
        self._size -= dropped
