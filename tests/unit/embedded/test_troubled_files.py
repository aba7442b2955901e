"""A file that another program holds, a log that was cut or garbled, a full disk: what is kept, what is told.

The image of a crash is a copy of a database and its log while their owner has them open.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import perdure
from perdure import AgentDefinition
from perdure.embedded import database as databases
from perdure.embedded.database import Database
from perdure.embedded.store import SqliteSessionStore
from perdure.errors import DatabaseUnusableError, StoreUnavailableError
from perdure.models import ScriptedModel
from perdure.ports import LogSlice
from perdure.steps import commit as commits
from perdure.testing.conformance.builders import A_SESSION, a_turn, answer, send
from perdure.testing.simulation.invariants import check_log

TURNS = 12
COMMITS = 4 * TURNS
WAL_HEADER = 32
WAL_FRAME = 24 + 4096
"""Bytes of a log's header, and of a frame with its page (sqlite.org/fileformat2.html, "The Write-Ahead Log")."""


@pytest.fixture
async def image(tmp_path: Path) -> Path:
    """Return a database as a crash leaves it: all of its commits are in the log."""
    owned, left = tmp_path / "owned.db", tmp_path / "left.db"
    async with Database.open(owned) as database:
        for _ in range(TURNS):
            await a_turn(SqliteSessionStore(database))
        return crash_image(owned, left)


def log_of(file: Path) -> Path:
    return file.with_name(f"{file.name}-wal")


def contents(file: Path) -> list[bytes]:
    return [path.read_bytes() if path.exists() else b"" for path in (file, log_of(file))]


def crash_image(of: Path, to: Path) -> Path:
    """Copy a database that its owner has open."""
    for end in ("", "-wal", "-lock"):
        shutil.copy(f"{of}{end}", f"{to}{end}")
    return to


def empty(file: Path, *, gone: bool) -> None:
    if gone:
        file.unlink()
    else:
        file.write_bytes(b"")


def lock_of(file: Path) -> Path:
    return file.with_name(f"{file.name}-lock")


async def what_is_left(file: Path) -> LogSlice:
    """Check that a loss is noticed, go on in spite of it, and check that what is left is whole and can go on.

    Nothing may be changed before somebody has decided to go on.
    """
    before = contents(file)
    with pytest.raises(DatabaseUnusableError, match=f"version {COMMITS} of session .* -wal was cut"):
        Database.open(file)
    assert contents(file) == before
    lock_of(file).unlink()
    return await what_is_held(file)


async def what_is_held(file: Path) -> LogSlice:
    """Open a database, check that what it holds is whole, and that it goes on from there."""
    async with Database.open(file) as database:
        store = SqliteSessionStore(database)
        log = await store.read(A_SESSION)
        check_log(log.head, log.entries)
        await send(store)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return log


async def test_a_crash_image_holds_every_commit(image: Path) -> None:
    assert (await what_is_held(image)).head.version == COMMITS


async def test_a_log_that_is_put_back_holds_every_commit_again(image: Path) -> None:
    whole = log_of(image).read_bytes()
    log_of(image).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatabaseUnusableError, match="lacks commits"):
        Database.open(image)

    log_of(image).write_bytes(whole)

    assert (await what_is_held(image)).head.version == COMMITS


async def test_an_older_copy_in_the_place_of_a_file_that_was_killed_is_noticed(image: Path, tmp_path: Path) -> None:
    older = tmp_path / "older.db"
    async with Database.open(older) as database:
        await send(SqliteSessionStore(database))
    log_of(image).unlink()
    shutil.copy(older, image)

    with pytest.raises(DatabaseUnusableError, match="replaced by an older one"):
        Database.open(image)


async def test_after_closing_in_order_a_backup_is_put_back_without_a_word(tmp_path: Path) -> None:
    file, backup = tmp_path / "sessions.db", tmp_path / "backup.db"
    async with Database.open(file) as database:
        await send(SqliteSessionStore(database))
    shutil.copy(file, backup)
    async with Database.open(file) as database:
        await answer(SqliteSessionStore(database))
    shutil.copy(backup, file)

    assert (await what_is_held(file)).head.version == 1


@pytest.mark.parametrize("how", ["deleted", "emptied"])
async def test_a_file_that_was_deleted_begins_anew(image: Path, tmp_path: Path, how: str) -> None:
    log_of(image).unlink()
    empty(image, gone=how == "deleted")
    async with Database.open(image):
        killed_at_once = crash_image(image, tmp_path / "again.db")

    assert not (await what_is_held(killed_at_once)).head.exists


@pytest.mark.parametrize("note", [b"", b"junk\n", b"00000000 [1]\n", b"\x00" * 300])
async def test_a_note_of_the_last_commit_that_is_not_whole_is_no_note(image: Path, note: bytes) -> None:
    lock_of(image).write_bytes(lock_of(image).read_bytes()[:32] + note)

    assert (await what_is_held(image)).head.version == COMMITS


@pytest.mark.parametrize("cut", [1, 24, 4096, WAL_FRAME, 3 * WAL_FRAME + 100, 20 * WAL_FRAME + 2000])
async def test_of_a_log_that_was_cut_whole_commits_are_left_and_no_half_one(image: Path, cut: int) -> None:
    log = log_of(image)
    log.write_bytes(log.read_bytes()[:-cut])

    left = await what_is_left(image)

    assert 0 < left.head.version < COMMITS
    assert left.head.version >= COMMITS - cut // WAL_FRAME - 1  # no more than was cut off


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
async def test_of_a_garbled_log_the_commits_before_the_damage_are_left(image: Path, part: float) -> None:
    log = log_of(image)
    content = bytearray(log.read_bytes())
    place = WAL_HEADER + int((len(content) - WAL_HEADER) * part)
    content[place : place + 64] = bytes(byte ^ 0xFF for byte in content[place : place + 64])
    log.write_bytes(content)

    left = await what_is_left(image)

    assert 0 < left.head.version < COMMITS


@pytest.mark.parametrize("how", ["gone", "empty", "no header"])
async def test_without_its_log_a_database_is_what_it_was_when_the_log_began(image: Path, how: str) -> None:
    log = log_of(image)
    if how == "no header":
        log.write_bytes(bytes(WAL_HEADER) + log.read_bytes()[WAL_HEADER:])
    else:
        empty(log, gone=how == "gone")

    assert not (await what_is_left(image)).head.exists


# --- a file that another program holds ------------------------------------------------------------------------------


@contextlib.contextmanager
def held_by_another_program(file: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "BUSY_SECONDS", 0.05)


@pytest.mark.usefixtures("impatient")
async def test_a_file_that_another_program_holds_is_not_opened_and_it_is_said_why(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    Database.open(file).close()

    with held_by_another_program(file), pytest.raises(StoreUnavailableError, match="locked by another program"):
        Database.open(file)

    Database.open(file).close()


@pytest.mark.usefixtures("impatient")
async def test_while_another_program_holds_the_file_nothing_is_accepted_and_nothing_lost(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    async with Database.open(file) as database:
        store = SqliteSessionStore(database)
        await send(store)

        with held_by_another_program(file), pytest.raises(StoreUnavailableError, match="locked by another program"):
            await answer(store)

        await answer(store)
        assert (await store.load(A_SESSION)).head.version == 2


# --- a disk without room --------------------------------------------------------------------------------------------


@pytest.fixture
async def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[perdure.EmbeddedRuntime]:
    monkeypatch.setattr(commits, "OUTAGE_DELAY_SECONDS", 0.001)
    agent = AgentDefinition(name="echo", model=ScriptedModel(lambda request: f"{len(request.messages)} messages"))
    async with perdure.open(tmp_path / "sessions.db", agents=[agent]) as runtime:
        yield runtime


async def allow_pages(runtime: perdure.EmbeddedRuntime, pages: int) -> None:
    database = runtime._database
    assert database is not None
    await database.writer.run(lambda c: c.execute(f"PRAGMA max_page_count = {pages}").fetchone(), durable=False)


async def test_on_a_full_disk_a_message_is_refused_and_taken_once_there_is_room(
    runtime: perdure.EmbeddedRuntime,
) -> None:
    session = runtime.session("s-1")
    first = await session.send("hello", idempotency_key="m-1")
    async for _ in session.events(after=first.cursor):
        pass
    before = await session.snapshot()

    await allow_pages(runtime, 1)  # SQLite takes it for as many as are in use
    with pytest.raises(StoreUnavailableError, match="is full: make room"):
        await session.send("x" * 200_000, idempotency_key="m-2")
    assert await session.snapshot() == before

    await allow_pages(runtime, 1_000_000)
    second = await session.send("x" * 200_000, idempotency_key="m-2")
    async for _ in session.events(after=second.cursor):
        pass

    assert not second.duplicate
    assert (await session.snapshot())["messages"][-1]["parts"][0]["text"] == "3 messages"
