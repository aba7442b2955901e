"""The embedded adapter set for the contract suites: a file of its own for each test."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from perdure.embedded.database import Database
from perdure.embedded.leases import SqliteLeases
from perdure.embedded.store import SqliteSessionStore
from perdure.ports import SessionKey
from perdure.testing.conformance import Adapter


@asynccontextmanager
async def open_adapter(folder: Path) -> AsyncIterator[Adapter]:
    """Open a database; its workers share one store, as they do in the one process that may have it open."""
    async with Database.open(folder / "sessions.db") as database:
        store = SqliteSessionStore(database)
        yield _adapter(database, store, lambda: store)


@asynccontextmanager
async def open_cold_adapter(folder: Path) -> AsyncIterator[Adapter]:
    """The same without a memory: entries come from the disk always, and heads whenever a worker begins."""
    async with Database.open(folder / "sessions.db") as database:
        store = SqliteSessionStore(database, warm_bytes=0)

        def another_store() -> SqliteSessionStore:
            store.forget()
            return store

        yield _adapter(database, store, another_store)


def _adapter(database: Database, store: SqliteSessionStore, another_store: Callable[[], SqliteSessionStore]) -> Adapter:
    async def erase(key: SessionKey, below: int, receipts: bool) -> None:
        place = (key.tenant, key.session_id)

        def delete(connection: sqlite3.Connection) -> None:
            rows = (*place, below)
            connection.execute("DELETE FROM entries WHERE tenant = ? AND session_id = ? AND version < ?", rows)
            if receipts:
                connection.execute("DELETE FROM receipts WHERE tenant = ? AND session_id = ?", place)

        await database.writer.run(delete, durable=True)
        store.forget(key)

    return Adapter(store=store, leases=SqliteLeases(database), another_store=another_store, erase=erase)
