"""What is SQLite's own about the store: warm sessions, limits, damaged rows; and leases of earlier owners."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from perdure.core.limits import LEASE_DURATION
from perdure.embedded.database import Database
from perdure.embedded.leases import SqliteLeases
from perdure.embedded.records import to_text
from perdure.embedded.store import SqliteSessionStore
from perdure.errors import (
    DatabaseUnusableError,
    ItemTooLargeError,
    StaleSessionError,
    UnknownRecordVersionError,
)
from perdure.ports import Loaded, SessionKey
from perdure.testing.conformance.builders import (
    A_SESSION,
    NOON,
    a_claim,
    a_message,
    a_session_with,
    a_turn,
    an_answer,
    answer,
    decided,
    send,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
async def database(file: Path) -> AsyncIterator[Database]:
    async with Database.open(file) as database:
        yield database


@pytest.fixture
def store(database: Database) -> SqliteSessionStore:
    return SqliteSessionStore(database)


async def sql(database: Database, statement: str, *values: Any) -> None:
    def run(connection: sqlite3.Connection) -> None:
        connection.execute(statement, values)

    await database.writer.run(run, durable=True)


async def test_a_warm_session_is_not_parsed_again(store: SqliteSessionStore) -> None:
    await a_session_with(store, 3)
    store.forget()

    first = (await store.read(A_SESSION)).entries
    await send(store)
    second = (await store.read(A_SESSION)).entries

    assert len(second) == 13
    assert all(entry is again for entry, again in zip(first, second, strict=False))


async def test_a_session_of_an_earlier_process_becomes_warm_from_its_end(store: SqliteSessionStore) -> None:
    await a_session_with(store, 3)
    store.forget()

    newest = (await store.read(A_SESSION, limit=2, newest=True)).entries
    whole = (await store.read(A_SESSION)).entries

    assert [entry.version for entry in newest] == [11, 12]
    assert whole[10] is newest[0]
    assert [entry.version for entry in whole] == list(range(1, 13))


async def test_what_is_warm_is_what_is_stored(store: SqliteSessionStore) -> None:
    await send(store, text="a\0b", idempotency_key="k")
    await answer(store)
    warm, warm_loaded = await store.read(A_SESSION), await store.load(A_SESSION, [a_claim("k").key_hash])
    store.forget()

    cold, cold_loaded = await store.read(A_SESSION), await store.load(A_SESSION, [a_claim("k").key_hash])

    assert cold == warm
    assert cold_loaded == warm_loaded


async def test_a_receipt_of_an_earlier_process_is_found_while_the_session_gets_warm(store: SqliteSessionStore) -> None:
    await send(store, idempotency_key="k")
    await a_session_with(store, 2)
    store.forget()

    for _ in range(2):
        assert (await store.load(A_SESSION, [a_claim("k").key_hash])).receipts
        await store.read(A_SESSION, limit=2, newest=True)
        assert (await store.load(A_SESSION, [a_claim("k").key_hash])).receipts
        await send(store)
    await store.read(A_SESSION)
    assert (await store.load(A_SESSION, [a_claim("k").key_hash])).receipts


@pytest.mark.parametrize("warm_bytes", [0, 1, 3_000, 12_000, 40_000, 1_000_000])
async def test_with_little_room_sessions_read_the_same(database: Database, warm_bytes: int) -> None:
    store = SqliteSessionStore(database, warm_bytes=warm_bytes)
    keys = [SessionKey("acme", f"s-{number}") for number in range(4)]
    entries = {key: await a_session_with(store, 3, key) for key in keys}

    for key in [*keys, *reversed(keys)]:
        assert (await store.read(key)).entries == tuple(entries[key])
        assert (await store.read(key, first=4, limit=3)).entries == tuple(entries[key][3:6])
        assert (await store.load(key)).head.version == 12


async def test_the_room_for_warm_sessions_is_kept_to(database: Database) -> None:
    store = SqliteSessionStore(database, warm_bytes=100_000)

    for number in range(60):
        await a_turn(store, SessionKey("acme", f"s-{number}"))
        await store.read(SessionKey("acme", f"s-{number // 2}"))

    warm = store._warm
    assert 0 < warm._size <= 100_000
    assert warm._size == sum(session.size for session in warm._sessions.values())


async def test_a_head_that_is_read_beside_commits_is_never_kept_when_it_is_old(database: Database) -> None:
    store = SqliteSessionStore(database, warm_bytes=0)

    async def write() -> None:
        for _ in range(10):
            await a_turn(store)

    async def look() -> None:
        newest = 0
        while newest < 40:
            store.forget()
            version = (await store.load(A_SESSION)).head.version
            assert version >= newest
            newest = version

    await asyncio.gather(write(), look(), look())


async def test_a_head_that_others_left_behind_is_read_again_after_a_lost_race(database: Database) -> None:
    store, another = SqliteSessionStore(database), SqliteSessionStore(database)
    await send(store)
    old = await store.load(A_SESSION)
    await answer(another)

    with pytest.raises(StaleSessionError):
        await store.commit(A_SESSION, old, decided(old.head, a_message("again")))

    assert (await store.load(A_SESSION)).head.version == 2


async def test_a_number_that_json_has_no_word_for_is_refused_and_nothing_is_written(store: SqliteSessionStore) -> None:
    asked = await send(store)
    loaded = await store.load(A_SESSION)
    decision = decided(asked.head, an_answer(asked.head, parts=[{"type": "x", "n": float("nan")}]))

    with pytest.raises(ValueError, match="Out of range float"):
        await store.commit(A_SESSION, loaded, decision)

    store.forget()
    assert (await store.read(A_SESSION)).head == asked.head


async def test_a_text_that_is_no_unicode_is_refused_and_nothing_is_written(store: SqliteSessionStore) -> None:
    loaded = await store.load(A_SESSION)

    with pytest.raises(UnicodeEncodeError):
        await store.commit(A_SESSION, loaded, decided(loaded.head, a_message("\ud800")))

    assert not (await store.load(A_SESSION)).head.exists
    assert (await send(store)).head.version == 1


async def test_a_decision_that_changes_nothing_is_not_committed(store: SqliteSessionStore) -> None:
    decision = await send(store)
    later = Loaded(head=decided(decision.head, a_message()).head)

    with pytest.raises(ValueError, match="version 2"):
        await store.commit(A_SESSION, later, decision)


@pytest.mark.parametrize("spare", [0, -1])
async def test_an_entry_fits_up_to_the_last_byte_that_sqlite_takes(
    database: Database, store: SqliteSessionStore, spare: int
) -> None:
    loaded = await store.load(A_SESSION)
    decision = decided(loaded.head, a_message("€" * 2_000))
    # tenant, session id, commit id and the entry itself, behind a record header of 7 bytes (sqlite.org/fileformat.html)
    row = len("acme") + len("s-1") + 32 + len(to_text(decision.entry).encode()) + 7

    await database.writer.run(
        lambda connection: connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, row + spare), durable=False
    )
    with nullcontext() if spare >= 0 else pytest.raises(ItemTooLargeError):
        await store.commit(A_SESSION, loaded, decision)

    store.forget()
    assert (await store.load(A_SESSION)).head == (decision.head if spare >= 0 else loaded.head)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE heads SET head = json_set(head, '$.schema_version', 99)",
        "UPDATE entries SET entry = json_set(entry, '$.schema_version', 99) WHERE version = 2",
    ],
)
async def test_a_record_of_a_newer_version_is_refused(
    database: Database, store: SqliteSessionStore, statement: str
) -> None:
    await a_turn(store)
    await sql(database, statement)
    store.forget()

    with pytest.raises(UnknownRecordVersionError, match="version 99"):
        await store.read(A_SESSION)


async def test_a_log_with_a_gap_is_not_read_as_if_it_were_whole(database: Database, store: SqliteSessionStore) -> None:
    await a_session_with(store, 2)
    await sql(database, "DELETE FROM entries WHERE version = 3")
    store.forget()

    with pytest.raises(DatabaseUnusableError, match="gap"):
        await store.read(A_SESSION)


async def test_every_commit_of_a_turn_is_found_when_its_owner_looks_at_due_sessions_after_a_restart(
    file: Path,
) -> None:
    async with Database.open(file) as database:
        await send(SqliteSessionStore(database))

    async with Database.open(file) as database:
        due = await SqliteSessionStore(database).sessions_due(NOON + LEASE_DURATION)
    assert list(due) == [A_SESSION]


# --- leases of earlier owners --------------------------------------------------------------------------------------


async def test_leases_of_an_earlier_owner_of_the_file_end_at_once(file: Path) -> None:
    step, soon = "model-1-0", NOON + LEASE_DURATION
    async with Database.open(file) as database:
        await send(SqliteSessionStore(database))
        await SqliteLeases(database).claim(A_SESSION, step, 1, "anna", soon)

    async with Database.open(file) as database:
        leases = SqliteLeases(database)
        assert await leases.revoke(A_SESSION, step, 1, NOON) == "alive"
        await leases.expire_earlier_leases()

        assert await leases.revoke(A_SESSION, step, 1, NOON) == "claimed"
        assert not await leases.claim(A_SESSION, step, 1, "bert", soon)


async def test_what_was_revoked_by_an_earlier_owner_stays_revoked(file: Path) -> None:
    async with Database.open(file) as database:
        await send(SqliteSessionStore(database))
        await SqliteLeases(database).revoke(A_SESSION, "model-1-0", 1, NOON)

    async with Database.open(file) as database:
        leases = SqliteLeases(database)
        await leases.expire_earlier_leases()

        assert await leases.revoke(A_SESSION, "model-1-0", 1, NOON) == "unclaimed"
        assert not await leases.claim(A_SESSION, "model-1-0", 1, "anna", NOON)


async def test_leases_of_sessions_that_expect_no_step_are_removed_at_the_start(database: Database) -> None:
    store, leases = SqliteSessionStore(database), SqliteLeases(database)
    waiting = SessionKey("acme", "waiting")
    await send(store)
    await a_turn(store, waiting)
    for key in (A_SESSION, waiting):
        await leases.claim(key, "model-1-0", 1, "anna", NOON)

    await leases.expire_earlier_leases()

    assert await leases.read_lease(A_SESSION, "model-1-0") is not None
    assert await leases.read_lease(waiting, "model-1-0") is None
