"""Sessions in SQLite. HEAD, entry and receipts of a commit go into one transaction, so there is no tail to settle."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from perdure.core.codec import to_millis
from perdure.core.decision import Decision
from perdure.core.entries import Actor, Entry, Receipt
from perdure.core.expected import sweep_due_at
from perdure.core.head import Head
from perdure.embedded import queries
from perdure.embedded.database import Database
from perdure.embedded.records import to_text
from perdure.embedded.warm import MAX_BYTES, WarmSessions
from perdure.errors import StaleSessionError
from perdure.ports import Loaded, LogSlice, SessionKey, SessionPage

_INSERT_HEAD = """
    INSERT INTO heads (version, head, due_at, owner_issuer, owner_subject, last_activity, tenant, session_id)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_UPDATE_HEAD = """
    UPDATE heads SET version = ?, head = ?, due_at = ?, owner_issuer = ?, owner_subject = ?, last_activity = ?
    WHERE tenant = ? AND session_id = ? AND version = ?
"""
_UPDATE_HEAD_ONLY = """
    UPDATE heads SET version = ?, head = ?, due_at = ? WHERE tenant = ? AND session_id = ? AND version = ?
"""
_INSERT_ENTRY = "INSERT INTO entries (tenant, session_id, version, commit_id, entry) VALUES (?, ?, ?, ?, ?)"
_INSERT_RECEIPT = """
    INSERT INTO receipts (tenant, session_id, key_hash, content_hash, reply, version) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT DO NOTHING
"""
_POSTPONE = "UPDATE heads SET due_at = ? WHERE tenant = ? AND session_id = ? AND version = ?"


class SqliteSessionStore:
    """`SessionStore` on one SQLite file.

    A warm session, one that this process used lately, is answered from memory: HEAD, log and, when its whole log is
    there, receipts. On a database that was opened read-only nothing is kept, because another process writes it.
    """

    def __init__(
        self,
        database: Database,
        *,
        warm_bytes: int = MAX_BYTES,
        committed: Callable[[SessionKey], None] | None = None,
    ) -> None:
        """Use an open database.

        Args:
            database: It is closed by whoever opened it.
            warm_bytes: Room for warm entries, in characters of their stored text.
            committed: Called on the writer's thread with each session whose commit is on the disk.
        """
        self._database = database
        self._warm = WarmSessions(warm_bytes)
        self._committed = committed

    async def load(self, key: SessionKey, receipt_keys: Sequence[str] = ()) -> Loaded:
        """See `SessionStore.load`."""
        view = self._warm.view(key)
        head = view.head if view is not None else await self._load_head(key)
        if not receipt_keys or head.version == 0:
            return Loaded(head=head)
        if view is not None and view.receipts is not None:
            known = view.receipts
            return Loaded(head=head, receipts={name: known[name] for name in receipt_keys if name in known})
        return Loaded(head=head, receipts=await self._database.read(partial(queries.receipts, key, receipt_keys)))

    async def peek(self, key: SessionKey) -> Head:
        """See `SessionStore.peek`."""
        view = self._warm.view(key)
        return view.head if view is not None else await self._load_head(key)

    async def commit(self, key: SessionKey, loaded: Loaded, decision: Decision) -> Loaded:
        """See `SessionStore.commit`. Returns when the commit is on the disk.

        Raises:
            StaleSessionError: Another commit came first. Nothing was written.
            StoreUnavailableError: The disk is full or failed; the same commit may be sent again.
            DatabaseUnusableError: The file is damaged, or was opened read-only.
            ItemTooLargeError: A text is over SQLite's limit of 1,000,000,000 bytes (sqlite.org/limits.html).
        """
        change = _Change.of(key, loaded.head, decision)
        try:
            await self._database.writer.run(
                change.write,
                durable=True,
                published=partial(self._publish, key, decision.head, change),
            )
        except StaleSessionError:
            self._warm.outdated(key, loaded.head.version)
            raise
        return Loaded(head=decision.head)

    async def find_commit(self, key: SessionKey, commit_id: str, versions: Sequence[int]) -> Entry | None:
        """See `SessionStore.find_commit`. It waits for commits that are still on their way to the disk."""
        query = partial(queries.commit, key, commit_id, versions)
        if self._database.read_only:
            return await self._database.read(query)
        return await self._database.writer.run(query, durable=False)

    async def read(
        self,
        key: SessionKey,
        *,
        first: int | None = None,
        last: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> LogSlice:
        """See `SessionStore.read`. What is warm is not parsed again."""
        wanted = queries.Range(first=first, last=last, limit=limit, newest=newest)
        view = None if self._database.read_only else self._warm.view(key)
        if view is None and not self._database.read_only:
            await self._load_head(key)
            view = self._warm.view(key)
        if view is None:
            return await self._database.read(partial(queries.log, key, wanted))
        low, high = wanted.cut_at(view.head.version)
        if low < (view.head.deleted_before or 0):  # which of those are left, only the disk knows
            return await self._database.read(partial(queries.log, key, wanted))
        if low > high or low >= view.first:
            return LogSlice(head=view.head, entries=tuple(view.between(low, high)))
        older, sizes = await self._database.read(partial(queries.entries, key, low, min(high, view.first - 1)))
        if len(older) != min(high, view.first - 1) - low + 1:  # deleted since the view was taken
            return await self._database.read(partial(queries.log, key, wanted))
        self._warm.extended(key, older, sizes)
        return LogSlice(head=view.head, entries=(*older, *view.between(low, high)))

    async def settle(self, key: SessionKey) -> None:
        """Do nothing: every entry has its own row already."""

    async def list_sessions(
        self, tenant: str, owner: Actor, *, cursor: str | None = None, limit: int = 50
    ) -> SessionPage:
        """See `SessionStore.list_sessions`. Sessions of the same millisecond are ordered by id, downwards."""
        after = queries.read_cursor(tenant, owner, cursor) if cursor is not None else None
        return await self._database.read(partial(queries.page, tenant, owner, after, min(max(limit, 1), 200)))

    async def sessions_due(self, now: datetime, limit: int = 1000) -> Sequence[SessionKey]:
        """See `SessionStore.sessions_due`."""
        return await self._database.read(partial(queries.due, to_millis(now), limit))

    async def postpone(self, key: SessionKey, version: int, due_at: datetime) -> None:
        """See `SessionStore.postpone`. Not synced: a lost one makes the sweep look once more."""
        row = (to_millis(due_at), key.tenant, key.session_id, version)
        await self._database.writer.run(lambda connection: _ignore(connection.execute(_POSTPONE, row)), durable=False)

    def forget(self, key: SessionKey | None = None) -> None:
        """Read this session, or all of them, from the disk next time. For whoever changes rows without a commit."""
        self._warm.forget(key)

    async def _load_head(self, key: SessionKey) -> Head:
        query = partial(queries.head, key)
        if self._database.read_only:
            return await self._database.read(query)
        return await self._database.writer.run(query, durable=False, published=partial(self._warm.loaded, key))

    def _publish(self, key: SessionKey, head: Head, change: _Change, written: bool) -> None:
        self._database.committed(key, head.version)
        if written:
            self._warm.committed(key, head, change.entry, change.entry_size)
            if self._committed is not None:
                self._committed(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """The rows of one commit, ready to be written."""

    key: SessionKey
    expected: int
    entry: Entry
    entry_size: int
    head_row: tuple[object, ...]
    head_sql: str
    entry_row: tuple[object, ...]
    receipt_rows: list[tuple[object, ...]]

    @classmethod
    def of(cls, key: SessionKey, before: Head, decision: Decision) -> _Change:
        entry, after = decision.entry, decision.head
        if entry is None or entry.version != before.version + 1:
            raise ValueError(f"only a decision on version {before.version} that changes something can be committed")
        text = to_text(entry)
        due_at = sweep_due_at(after)
        state = (after.version, to_text(after), to_millis(due_at) if due_at else None)
        place = (key.tenant, key.session_id)
        listed = (
            after.owner.issuer if after.owner else None,
            after.owner.subject if after.owner else None,
            to_millis(after.last_activity_at) if after.last_activity_at else None,
        )
        head_row: tuple[object, ...]
        if before.version == 0:
            head_sql, head_row = _INSERT_HEAD, (*state, *listed, *place)
        elif (before.owner, before.last_activity_at) == (after.owner, after.last_activity_at):
            head_sql, head_row = _UPDATE_HEAD_ONLY, (*state, *place, before.version)  # leaves its index alone
        else:
            head_sql, head_row = _UPDATE_HEAD, (*state, *listed, *place, before.version)
        return cls(
            key=key,
            expected=before.version,
            entry=entry,
            entry_size=len(text),
            head_row=head_row,
            head_sql=head_sql,
            entry_row=(*place, entry.version, entry.commit_id, text),
            receipt_rows=[_receipt_row(place, receipt, entry.version) for receipt in entry.receipts],
        )

    def write(self, connection: sqlite3.Connection) -> bool:
        """Write all rows, if the session is still at the expected version. False: this very commit is there already."""
        if connection.execute(self.head_sql, self.head_row).rowcount == 0:
            if queries.commit(self.key, self.entry.commit_id, (self.entry.version,), connection) is not None:
                return False
            raise StaleSessionError(
                f"session {self.key.session_id} is no longer at version {self.expected}: "
                "another commit came first; read it again and decide from there"
            )
        connection.execute(_INSERT_ENTRY, self.entry_row)
        for row in self.receipt_rows:
            connection.execute(_INSERT_RECEIPT, row)
        return True


def _receipt_row(place: tuple[str, str], receipt: Receipt, version: int) -> tuple[object, ...]:
    return (*place, receipt.key_hash, receipt.content_hash, to_text(receipt.reply), version)


def _ignore(_: sqlite3.Cursor) -> None:
    return None
