"""Give each test tenants of its own: a test says `acme`, the store that is tested sees `<name of the test>acme`.

The name goes in front and nothing between them, so tenants that look alike still do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from perdure.core.commands import ToolFinished
from perdure.core.decision import Decision
from perdure.core.entries import Actor, Entry
from perdure.core.head import Head
from perdure.ports import (
    Lease,
    Leases,
    Loaded,
    LogSlice,
    Results,
    RevokeResult,
    SessionKey,
    SessionPage,
    SessionStore,
)
from perdure.testing.conformance.adapter import Adapter


def scoped(adapter: Adapter, name: str) -> Adapter:
    """Return an adapter set whose tenants all begin with a name, unseen by its user."""
    scope = _Scope(name)

    async def erase(key: SessionKey, below: int, receipts: bool) -> None:
        await adapter.erase(scope.inner(key), below, receipts)

    return Adapter(
        store=_ScopedStore(adapter.store, scope),
        leases=_ScopedLeases(adapter.leases, scope),
        another_store=lambda: _ScopedStore(adapter.another_store(), scope),
        erase=erase,
        results=_ScopedResults(adapter.results, scope) if adapter.results else None,
    )


@dataclass(frozen=True, slots=True)
class _Scope:
    name: str

    def inner(self, key: SessionKey) -> SessionKey:
        return SessionKey(self.name + key.tenant, key.session_id)

    def has(self, key: SessionKey) -> bool:
        return key.tenant.startswith(self.name)

    def outer(self, key: SessionKey) -> SessionKey:
        return SessionKey(key.tenant.removeprefix(self.name), key.session_id)


class _ScopedStore:
    def __init__(self, store: SessionStore, scope: _Scope) -> None:
        self._store = store
        self._scope = scope

    async def load(self, key: SessionKey, receipt_keys: Sequence[str] = ()) -> Loaded:
        return await self._store.load(self._scope.inner(key), receipt_keys)

    async def peek(self, key: SessionKey) -> Head:
        return await self._store.peek(self._scope.inner(key))

    async def commit(self, key: SessionKey, loaded: Loaded, decision: Decision) -> Loaded:
        return await self._store.commit(self._scope.inner(key), loaded, decision)

    async def find_commit(self, key: SessionKey, commit_id: str, versions: Sequence[int]) -> Entry | None:
        return await self._store.find_commit(self._scope.inner(key), commit_id, versions)

    async def read(
        self,
        key: SessionKey,
        *,
        first: int | None = None,
        last: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> LogSlice:
        inner = self._scope.inner(key)
        return await self._store.read(inner, first=first, last=last, limit=limit, newest=newest)

    async def settle(self, key: SessionKey) -> None:
        await self._store.settle(self._scope.inner(key))

    async def list_sessions(
        self, tenant: str, owner: Actor, *, cursor: str | None = None, limit: int = 50
    ) -> SessionPage:
        return await self._store.list_sessions(self._scope.name + tenant, owner, cursor=cursor, limit=limit)

    async def sessions_due(self, now: datetime, limit: int = 1000) -> Sequence[SessionKey]:
        """Return this test's sessions. Those of others may fill a page, so it is asked for more until none is left."""
        asked = limit
        while True:
            due = await self._store.sessions_due(now, asked)
            assert len(due) <= asked, f"{len(due)} sessions are due where {asked} were asked for"
            ours = [self._scope.outer(key) for key in due if self._scope.has(key)]
            if len(ours) >= limit or len(due) < asked:
                return ours[:limit]
            asked *= 4

    async def postpone(self, key: SessionKey, version: int, due_at: datetime) -> None:
        await self._store.postpone(self._scope.inner(key), version, due_at)


class _ScopedLeases:
    def __init__(self, leases: Leases, scope: _Scope) -> None:
        self._leases = leases
        self._scope = scope

    async def claim(self, key: SessionKey, step_id: str, attempt: int, owner: str, expires_at: datetime) -> bool:
        return await self._leases.claim(self._scope.inner(key), step_id, attempt, owner, expires_at)

    async def renew(self, key: SessionKey, step_id: str, attempt: int, owner: str, expires_at: datetime) -> bool:
        return await self._leases.renew(self._scope.inner(key), step_id, attempt, owner, expires_at)

    async def revoke(self, key: SessionKey, step_id: str, attempt: int, now: datetime) -> RevokeResult:
        return await self._leases.revoke(self._scope.inner(key), step_id, attempt, now)

    async def save_checkpoint(self, key: SessionKey, step_id: str, attempt: int, owner: str, text: str) -> bool:
        return await self._leases.save_checkpoint(self._scope.inner(key), step_id, attempt, owner, text)

    async def read_lease(self, key: SessionKey, step_id: str) -> Lease | None:
        return await self._leases.read_lease(self._scope.inner(key), step_id)


class _ScopedResults:
    def __init__(self, results: Results, scope: _Scope) -> None:
        self._results = results
        self._scope = scope

    async def put(self, key: SessionKey, result: ToolFinished) -> None:
        await self._results.put(self._scope.inner(key), result)

    async def of_turn(self, key: SessionKey, turn_id: str) -> Sequence[ToolFinished]:
        return await self._results.of_turn(self._scope.inner(key), turn_id)
