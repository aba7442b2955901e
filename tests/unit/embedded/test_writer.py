"""The one thread that writes: shared transactions, and failures that stay with those who caused them."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.embedded import database as databases
from perdure.embedded.database import Database
from perdure.embedded.leases import SqliteLeases
from perdure.embedded.store import SqliteSessionStore
from perdure.embedded.writer import MAX_BATCH
from perdure.errors import StaleSessionError, StoreUnavailableError
from perdure.ports import Loaded, SessionKey
from perdure.testing.conformance.builders import (
    A_SESSION,
    NOON,
    a_message,
    a_session_with,
    a_turn,
    decided,
    entry_of,
    send,
)
from tests.unit.embedded.clocks import settled

FULL, NORMAL = 2, 1  # what PRAGMA synchronous answers


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database.open(tmp_path / "sessions.db") as database:
        yield database


class Watch:
    """Holds the writer until it is let go, and counts what it does from then on."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._gate = threading.Event()
        self.statements: list[str] = []

    async def hold(self) -> asyncio.Task[None]:
        def wait(connection: sqlite3.Connection) -> None:
            loop.call_soon_threadsafe(begun.set)
            self._gate.wait(30)
            connection.set_trace_callback(self.statements.append)

        loop, begun = asyncio.get_running_loop(), asyncio.Event()
        holding = asyncio.create_task(self._database.writer.run(wait, durable=False))
        await begun.wait()  # or what comes next could still get into the same transaction
        return holding

    def let_go(self) -> None:
        self._gate.set()

    @property
    def commits(self) -> int:
        """Transactions that were committed after the one that held."""
        return self.statements.count("COMMIT") - 1


def sync_mode(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA synchronous").fetchone()[0])


def insert(name: str, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO receipts VALUES ('t', 's', ?, '', '{}', 1)", (name,))


async def allow_pages(database: Database, pages: int) -> None:
    """Make the disk as good as full: the file may have this many pages of 4 KiB."""

    def limit(connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()

    await database.writer.run(limit, durable=False)


async def names(database: Database) -> list[str]:
    return await database.read(
        lambda connection: [name for (name,) in connection.execute("SELECT key_hash FROM receipts ORDER BY 1")]
    )


async def test_commits_of_many_sessions_that_wait_together_share_one_transaction(database: Database) -> None:
    store, watch = SqliteSessionStore(database), Watch(database)
    keys = [SessionKey("acme", f"s-{number}") for number in range(50)]
    loaded = [await store.load(key) for key in keys]
    holding = await watch.hold()

    commits = [
        asyncio.create_task(store.commit(key, before, decided(before.head, a_message())))
        for key, before in zip(keys, loaded, strict=True)
    ]
    await settled()
    watch.let_go()
    await asyncio.gather(holding, *commits)

    assert watch.commits == 1
    assert [(await store.load(key)).head.version for key in keys] == [1] * 50


async def test_a_stale_commit_among_those_that_wait_together_fails_alone(database: Database) -> None:
    store, watch = SqliteSessionStore(database), Watch(database)
    others = [SessionKey("acme", f"s-{number}") for number in (2, 3)]
    contested = await store.load(A_SESSION)
    holding = await watch.hold()

    racing = [
        asyncio.create_task(store.commit(A_SESSION, contested, decided(contested.head, a_message(text))))
        for text in ("first", "second")
    ]
    fine = [asyncio.create_task(store.commit(key, contested, decided(contested.head, a_message()))) for key in others]
    await settled()
    watch.let_go()
    outcomes = await asyncio.gather(*racing, *fine, return_exceptions=True)
    await holding

    assert [type(outcome) for outcome in outcomes] == [Loaded, StaleSessionError, Loaded, Loaded]
    assert watch.commits == 1
    assert (await store.read(A_SESSION)).entries[0].inputs[0].text == "first"


async def test_a_work_that_breaks_half_way_fails_alone_and_leaves_nothing(database: Database) -> None:
    watch = Watch(database)
    holding = await watch.hold()

    def broken(connection: sqlite3.Connection) -> None:
        insert("half", connection)
        raise ZeroDivisionError

    run = database.writer.run
    works = [
        asyncio.create_task(run(lambda c: insert("a", c), durable=True)),
        asyncio.create_task(run(broken, durable=True)),
        asyncio.create_task(run(lambda c: insert("b", c), durable=True)),
    ]
    await settled()
    watch.let_go()
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    await holding

    assert [type(outcome) for outcome in outcomes] == [type(None), ZeroDivisionError, type(None)]
    assert await names(database) == ["a", "b"]


async def test_a_commit_waits_for_the_disk_and_a_lease_does_not(database: Database) -> None:
    run = database.writer.run

    modes = [await run(sync_mode, durable=durable) for durable in (True, False, False, True, False, True)]

    assert modes == [FULL, NORMAL, NORMAL, FULL, NORMAL, FULL]


async def test_a_commit_that_waits_together_with_leases_still_waits_for_the_disk(database: Database) -> None:
    watch = Watch(database)
    holding = await watch.hold()

    run = database.writer.run
    works = [asyncio.create_task(run(sync_mode, durable=durable)) for durable in (False, True, False)]
    await settled()
    watch.let_go()

    assert await asyncio.gather(*works) == [FULL] * 3
    await holding


async def test_what_the_store_commits_is_synced_and_what_leases_write_is_not(database: Database) -> None:
    modes: list[tuple[str, int]] = []
    store, leases = SqliteSessionStore(database), SqliteLeases(database)

    def note(statement: str) -> None:
        if statement.startswith("PRAGMA synchronous = "):
            modes.append((statement.removeprefix("PRAGMA synchronous = "), len(modes)))

    await database.writer.run(lambda connection: connection.set_trace_callback(note), durable=True)
    loaded = await store.load(A_SESSION)
    decision = decided(loaded.head, a_message())
    await store.commit(A_SESSION, loaded, decision)
    await leases.claim(A_SESSION, "model-1-0", 1, "anna", NOON)
    await store.postpone(A_SESSION, 1, NOON)
    await store.commit(A_SESSION, await store.load(A_SESSION), decided(decision.head, a_message()))

    assert [mode for mode, _ in modes] == ["NORMAL", "FULL", "NORMAL", "FULL"]


async def test_on_a_full_disk_nothing_is_lost_and_commits_go_on_once_there_is_room(database: Database) -> None:
    store = SqliteSessionStore(database)
    await a_session_with(store, 5)
    before = await store.read(A_SESSION)

    await allow_pages(database, 1)  # SQLite takes it for as many as are in use
    loaded = await store.load(A_SESSION)
    large = decided(loaded.head, a_message("x" * 100_000))
    with pytest.raises(StoreUnavailableError, match="full"):
        await store.commit(A_SESSION, loaded, large)

    assert await store.read(A_SESSION) == before
    assert await store.find_commit(A_SESSION, entry_of(large).commit_id, [21]) is None
    await allow_pages(database, 1_000_000)
    await store.commit(A_SESSION, loaded, large)
    store.forget()
    assert (await store.read(A_SESSION)).entries == (*before.entries, entry_of(large))


async def test_a_commit_too_large_for_the_disk_does_not_fail_those_that_wait_with_it(database: Database) -> None:
    store, watch = SqliteSessionStore(database), Watch(database)
    await a_turn(store)
    small, large = SessionKey("acme", "small"), SessionKey("acme", "large")
    loaded = await store.load(large)
    await allow_pages(database, 40)
    holding = await watch.hold()

    works = [
        asyncio.create_task(store.commit(key, loaded, decided(loaded.head, a_message(text))))
        for key, text in ((large, "x" * 1_000_000), (small, "x"))
    ]
    await settled()
    watch.let_go()
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    await holding

    assert [type(outcome) for outcome in outcomes] == [StoreUnavailableError, Loaded]
    assert (await store.load(small)).head.version == 1


async def test_a_commit_lands_even_if_its_caller_is_cancelled_and_readers_see_it(database: Database) -> None:
    store, watch = SqliteSessionStore(database), Watch(database)
    await send(store)
    loaded = await store.load(A_SESSION)
    decision = decided(loaded.head, a_message("again"))
    holding = await watch.hold()

    committing = asyncio.create_task(store.commit(A_SESSION, loaded, decision))
    await settled()
    committing.cancel()
    await settled()
    looking = asyncio.create_task(store.find_commit(A_SESSION, entry_of(decision).commit_id, [2]))
    watch.let_go()
    await holding

    assert await looking == entry_of(decision)
    assert committing.cancelled()
    assert (await store.load(A_SESSION)).head == decision.head


async def test_closing_finishes_what_is_waiting(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "closing.db")
    watch = Watch(database)
    holding = await watch.hold()
    work = asyncio.create_task(database.writer.run(lambda c: insert("a", c), durable=True))
    await settled()

    closing = asyncio.create_task(asyncio.to_thread(database.close))
    await settled()
    watch.let_go()
    await asyncio.gather(holding, work, closing)

    async with Database.open(tmp_path / "closing.db") as again:
        assert await names(again) == ["a"]


def broken_disk() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
    return error


async def test_behind_a_disk_that_failed_a_group_the_log_begins_anew_before_anything_is_committed(
    database: Database,
) -> None:
    watch = Watch(database)
    holding = await watch.hold()
    failures = [broken_disk()]

    def fails_once(connection: sqlite3.Connection) -> None:
        insert("a", connection)
        if failures:
            raise failures.pop()

    run = database.writer.run
    works = [
        asyncio.create_task(run(fails_once, durable=True)),
        asyncio.create_task(run(lambda c: insert("b", c), durable=True)),
    ]
    await settled()
    watch.let_go()
    await asyncio.gather(holding, *works)

    failed = watch.statements.index("ROLLBACK")
    begun = watch.statements.index("BEGIN IMMEDIATE", failed)
    assert "PRAGMA wal_checkpoint(TRUNCATE)" in watch.statements[failed:begun]
    assert await names(database) == ["a", "b"]


async def test_those_that_wait_together_for_another_programs_lock_hear_of_it_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "BUSY_SECONDS", 0.2)
    async with Database.open(tmp_path / "sessions.db") as database:
        with contextlib.closing(sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            async with asyncio.timeout(5):
                works = [database.writer.run(lambda c: insert("a", c), durable=True) for _ in range(MAX_BATCH)]
                outcomes = await asyncio.gather(*works, return_exceptions=True)

    assert {type(outcome) for outcome in outcomes} == {StoreUnavailableError}


async def test_what_can_not_be_published_is_told_and_the_writer_goes_on(database: Database) -> None:
    def forgetful(_: None) -> None:
        raise MemoryError

    run = database.writer.run
    async with asyncio.timeout(5):
        with pytest.raises(StoreUnavailableError):
            await run(lambda c: insert("a", c), durable=True, published=forgetful)
        await run(lambda c: insert("b", c), durable=True)

    assert await names(database) == ["a", "b"]


async def test_a_work_that_comes_while_the_database_closes_is_done_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database.open(tmp_path / "closing.db")
    closing = threading.Thread(target=database.close)
    put = database.writer._jobs.put

    def put_late(job: Any) -> None:
        if job is not None:  # the close comes between the look at the door and the step through it
            closing.start()
            closing.join(0.2)
        put(job)

    monkeypatch.setattr(database.writer, "_jobs", _Queue(database.writer._jobs, put_late))
    async with asyncio.timeout(5):
        with contextlib.suppress(StoreUnavailableError):
            await database.writer.run(lambda c: insert("a", c), durable=True)
    await asyncio.to_thread(closing.join)


class _Queue:
    """The writer's queue, with another way in."""

    def __init__(self, jobs: Any, put: Any) -> None:
        self._jobs = jobs
        self.put = put

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)
