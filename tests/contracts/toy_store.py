"""A store in dictionaries: how small an adapter set can be that keeps every promise. For the tests of the suites."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from perdure.core.checkpoints import check_checkpoint
from perdure.core.decision import Decision
from perdure.core.entries import Actor, Entry, Receipt
from perdure.core.expected import sweep_due_at
from perdure.core.head import Head
from perdure.core.limits import LEASE_GRACE
from perdure.errors import InvalidRequestError, StaleSessionError
from perdure.ports import Lease, Loaded, LogSlice, RevokeResult, SessionKey, SessionPage, SessionSummary
from perdure.testing.conformance import Adapter


@dataclass
class Row:
    """One session."""

    head: Head = field(default_factory=Head)
    entries: dict[int, Entry] = field(default_factory=dict)
    receipts: dict[str, Receipt] = field(default_factory=dict)
    due_at: datetime | None = None


class ToyStore:
    """`SessionStore`. Nothing here awaits, so each method is one moment on the event loop."""

    def __init__(self) -> None:
        self.rows: dict[SessionKey, Row] = {}

    def row(self, key: SessionKey) -> Row:
        return self.rows.get(key) or Row()

    async def load(self, key: SessionKey, receipt_keys: Sequence[str] = ()) -> Loaded:
        row = self.row(key)
        return Loaded(head=row.head, receipts={k: row.receipts[k] for k in receipt_keys if k in row.receipts})

    async def peek(self, key: SessionKey) -> Head:
        return self.row(key).head

    async def commit(self, key: SessionKey, loaded: Loaded, decision: Decision) -> Loaded:
        entry = decision.entry
        assert entry is not None
        row = self.rows.setdefault(key, Row())
        landed = row.entries.get(entry.version)
        if landed is not None and landed.commit_id == entry.commit_id:
            return Loaded(head=row.head)
        if row.head.version != loaded.head.version:
            raise StaleSessionError(f"session {key.session_id} is at version {row.head.version}: read it again")
        row.head = decision.head
        row.entries[entry.version] = entry
        row.receipts |= {receipt.key_hash: receipt for receipt in entry.receipts}
        row.due_at = sweep_due_at(decision.head)
        return Loaded(head=row.head)

    async def find_commit(self, key: SessionKey, commit_id: str, versions: Sequence[int]) -> Entry | None:
        tried = (self.row(key).entries.get(version) for version in versions)
        return next((entry for entry in tried if entry is not None and entry.commit_id == commit_id), None)

    async def read(
        self,
        key: SessionKey,
        *,
        first: int | None = None,
        last: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> LogSlice:
        row = self.row(key)
        wanted = range(max(first or 1, 1), min(row.head.version if last is None else last, row.head.version) + 1)
        entries = [row.entries[version] for version in wanted if version in row.entries]
        if limit is not None:
            entries = entries[-limit:] if newest else entries[:limit]
        return LogSlice(head=row.head, entries=tuple(entries))

    async def settle(self, key: SessionKey) -> None:
        pass

    async def list_sessions(
        self, tenant: str, owner: Actor, *, cursor: str | None = None, limit: int = 50
    ) -> SessionPage:
        mine = [(key, row.head) for key, row in self.rows.items() if (key.tenant, row.head.owner) == (tenant, owner)]
        mine.sort(key=lambda item: (item[1].last_activity_at, item[0].session_id), reverse=True)
        ids = [key.session_id for key, _ in mine]
        start = 0 if cursor is None else ids.index(_session_of(cursor, tenant, owner, ids)) + 1
        shown = mine[start : start + limit]
        more = len(mine) > start + limit
        return SessionPage(
            sessions=tuple(
                SessionSummary(session_id=key.session_id, head=head, cursor=_cursor(tenant, owner, key.session_id))
                for key, head in shown
            ),
            next_cursor=_cursor(tenant, owner, shown[-1][0].session_id) if more else None,
        )

    async def sessions_due(self, now: datetime, limit: int = 1000) -> Sequence[SessionKey]:
        due = sorted((row.due_at, key) for key, row in self.rows.items() if row.due_at is not None)
        return [key for due_at, key in due if due_at <= now][:limit]

    async def postpone(self, key: SessionKey, version: int, due_at: datetime) -> None:
        row = self.row(key)
        if row.head.version == version:
            row.due_at = due_at

    async def erase(self, key: SessionKey, below: int, receipts: bool) -> None:
        row = self.row(key)
        row.entries = {version: entry for version, entry in row.entries.items() if version >= below}
        if receipts:
            row.receipts.clear()


class ToyLeases:
    """`Leases`, by step."""

    def __init__(self) -> None:
        self.leases: dict[tuple[SessionKey, str], Lease] = {}

    async def claim(self, key: SessionKey, step_id: str, attempt: int, owner: str, expires_at: datetime) -> bool:
        held = self.leases.get((key, step_id))
        if held is not None and held.attempt >= attempt and not self._holds(held, attempt, owner):
            return False
        self.leases[key, step_id] = Lease(
            attempt=attempt, owner=owner, expires_at=expires_at, checkpoint=held.checkpoint if held else None
        )
        return True

    async def renew(self, key: SessionKey, step_id: str, attempt: int, owner: str, expires_at: datetime) -> bool:
        held = self.leases.get((key, step_id))
        if held is None or not self._holds(held, attempt, owner):
            return False
        self.leases[key, step_id] = replace(held, expires_at=expires_at)
        return True

    async def revoke(self, key: SessionKey, step_id: str, attempt: int, now: datetime) -> RevokeResult:
        held = self.leases.get((key, step_id))
        if held is None or held.attempt < attempt:
            checkpoint = held.checkpoint if held else None
            held = Lease(attempt=attempt, owner="", expires_at=now, claimed=False, checkpoint=checkpoint)
        elif held.attempt > attempt:
            return "claimed"
        elif not held.revoked and now < held.expires_at + LEASE_GRACE:
            return "alive"
        self.leases[key, step_id] = replace(held, revoked=True)
        return "claimed" if held.claimed else "unclaimed"

    async def save_checkpoint(self, key: SessionKey, step_id: str, attempt: int, owner: str, text: str) -> bool:
        check_checkpoint(text)
        held = self.leases.get((key, step_id))
        if held is None or not self._holds(held, attempt, owner):
            return False
        self.leases[key, step_id] = replace(held, checkpoint=text)
        return True

    async def read_lease(self, key: SessionKey, step_id: str) -> Lease | None:
        return self.leases.get((key, step_id))

    @staticmethod
    def _holds(held: Lease, attempt: int, owner: str) -> bool:
        return (held.attempt, held.owner, held.claimed, held.revoked) == (attempt, owner, True, False)


@asynccontextmanager
async def open_toy(store: ToyStore, leases: ToyLeases) -> AsyncIterator[Adapter]:
    """Open the dictionaries; what a test leaves in them is its own affair."""
    yield Adapter(store=store, leases=leases, another_store=lambda: store, erase=store.erase)


def _cursor(tenant: str, owner: Actor, session_id: str) -> str:
    return json.dumps([tenant, owner.issuer, owner.subject, session_id])


def _session_of(cursor: str, tenant: str, owner: Actor, ids: Sequence[str]) -> str:
    for session_id in ids:
        if cursor == _cursor(tenant, owner, session_id):
            return session_id
    raise InvalidRequestError("this is no cursor of this list: begin at its start", code="invalid_cursor")
