"""Opening a database file, holding it, and what is said when it can't be used."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.core.codec import from_millis
from perdure.embedded.database import APPLICATION_ID, SCHEMA_VERSION, Database
from perdure.embedded.leases import SqliteLeases
from perdure.embedded.store import SqliteSessionStore
from perdure.errors import DatabaseInUseError, DatabaseUnusableError, StoreUnavailableError
from perdure.ports import Lease, SessionKey
from perdure.testing.conformance.builders import A_SESSION, ANNA, NOON, a_turn, send


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, except our lock."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-lock")}


def damage(file: Path) -> bytes:
    """Overwrite all but the first page."""
    pages = file.read_bytes()
    damaged = pages[:4096] + b"\xa5" * (len(pages) - 4096)
    file.write_bytes(damaged)
    return damaged


def refused(path: Path, *, read_only: bool = False) -> str:
    """Try to open a file that can't be used, and return what is said."""
    with pytest.raises(DatabaseUnusableError) as error:
        Database.open(path, read_only=read_only)
    return error.value.message


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may write to, while this process may do no more than others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    privileged = os.geteuid() == 0
    if privileged:
        os.chown(folder, 65534, -1)
        os.seteuid(65534)
    yield folder
    if privileged:
        os.seteuid(0)
    folder.chmod(0o777)
    shutil.rmtree(folder)


async def test_what_was_committed_is_there_when_the_file_is_opened_again(file: Path) -> None:
    async with Database.open(file) as database:
        decisions = await a_turn(SqliteSessionStore(database))

    async with Database.open(file) as database:
        log = await SqliteSessionStore(database).read(A_SESSION)
    assert log.head == decisions[-1].head
    assert list(log.entries) == [decision.entry for decision in decisions]


async def test_a_database_in_memory_ends_with_its_object() -> None:
    async with Database.open(":memory:") as one, Database.open(":memory:") as other:
        await a_turn(SqliteSessionStore(one))

        assert (await SqliteSessionStore(one).read(A_SESSION)).head.version == 4
        assert (await SqliteSessionStore(one).list_sessions("acme", ANNA)).sessions
        assert not (await SqliteSessionStore(other).load(A_SESSION)).head.exists


def test_a_second_opener_is_told_which_file_is_in_use_and_by_whom(file: Path) -> None:
    owner = Database.open(file)

    with pytest.raises(DatabaseInUseError) as error:
        Database.open(file)

    assert str(file) in error.value.message
    assert f"process {os.getpid()}" in error.value.message
    owner.close()


def test_a_file_is_in_use_under_all_of_its_names(file: Path, tmp_path: Path) -> None:
    owner = Database.open(file)
    (tmp_path / "link.db").symlink_to(file)

    with pytest.raises(DatabaseInUseError):
        Database.open(tmp_path / "link.db")
    with pytest.raises(DatabaseInUseError):
        Database.open(tmp_path / "." / ".." / tmp_path.name / "sessions.db")

    owner.close()


def test_a_refused_opener_does_not_take_the_lock_from_the_owner(file: Path) -> None:
    owner = Database.open(file)

    for _ in range(2):
        with pytest.raises(DatabaseInUseError):
            Database.open(file)

    owner.close()
    Database.open(file).close()


def test_a_lock_file_that_a_dead_process_left_is_no_obstacle(file: Path) -> None:
    file.with_name("sessions.db-lock").write_text("4194304\n")

    Database.open(file).close()


def test_closing_twice_is_no_error(file: Path) -> None:
    database = Database.open(file)

    database.close()
    database.close()


async def test_a_closed_database_answers_that_it_was_closed(file: Path) -> None:
    database = Database.open(file)
    store = SqliteSessionStore(database)
    database.close()

    with pytest.raises(StoreUnavailableError, match="closed"):
        await store.load(A_SESSION)
    with pytest.raises(StoreUnavailableError, match="closed"):
        await store.list_sessions("acme", ANNA)


# --- looking on ----------------------------------------------------------------------------------------------------


async def test_a_read_only_opening_beside_the_owner_sees_each_commit(file: Path) -> None:
    async with Database.open(file) as owner, Database.open(file, read_only=True) as beside:
        store, viewer = SqliteSessionStore(owner), SqliteSessionStore(beside)
        assert not (await viewer.load(A_SESSION)).head.exists
        for turn in range(1, 4):
            await a_turn(store)

            log = await viewer.read(A_SESSION)
            assert [entry.version for entry in log.entries] == list(range(1, 4 * turn + 1))
            assert log.head == (await viewer.load(A_SESSION)).head == await viewer.peek(A_SESSION)
            assert [s.head for s in (await viewer.list_sessions("acme", ANNA)).sessions] == [log.head]


async def test_a_read_only_opening_writes_nothing(file: Path) -> None:
    Database.open(file).close()

    async with Database.open(file, read_only=True) as beside:
        with pytest.raises(DatabaseUnusableError, match="read-only"):
            await send(SqliteSessionStore(beside))


async def test_a_read_only_opening_needs_no_owner_and_keeps_none_away(file: Path) -> None:
    async with Database.open(file) as owner:
        await a_turn(SqliteSessionStore(owner))

    async with Database.open(file, read_only=True) as alone:
        assert (await SqliteSessionStore(alone).load(A_SESSION)).head.version == 4
        async with Database.open(file) as owner:
            await a_turn(SqliteSessionStore(owner))
        assert (await SqliteSessionStore(alone).load(A_SESSION)).head.version == 8


def test_a_file_that_is_not_there_is_not_made_by_looking_at_it(file: Path, tmp_path: Path) -> None:
    assert "there is no database" in refused(file, read_only=True)
    assert "there is no database" in refused(tmp_path / "nowhere" / "sessions.db", read_only=True)  # no folder to make
    assert list(tmp_path.iterdir()) == []


# --- files that can't be used --------------------------------------------------------------------------------------


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert str(tmp_path / "nowhere") in refused(tmp_path / "nowhere" / "sessions.db")


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    assert "is a folder" in refused(tmp_path)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("text", [b"hello", b"not a database\n" * 1000, b"SQLite format 3\0" + b"\xff" * 4080])
def test_a_file_that_is_no_database_is_left_as_it_is(file: Path, tmp_path: Path, text: bytes, read_only: bool) -> None:
    file.write_bytes(text)

    message = refused(file, read_only=read_only)

    assert str(file) in message
    assert "not a database" in message
    assert contents(tmp_path) == {"sessions.db": text}


def test_an_empty_file_becomes_a_database(file: Path) -> None:
    file.touch()

    Database.open(file).close()

    assert file.read_bytes().startswith(b"SQLite format 3\0")


def test_an_empty_file_is_nothing_to_look_at(file: Path) -> None:
    file.touch()

    assert "is empty" in refused(file, read_only=True)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_database_of_another_application_is_left_as_it_is(file: Path, tmp_path: Path, read_only: bool) -> None:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE notes (text TEXT)")
    connection.close()
    before = contents(tmp_path)

    assert "another application" in refused(file, read_only=read_only)

    assert contents(tmp_path) == before


@pytest.mark.parametrize("read_only", [False, True])
def test_a_database_of_a_newer_version_is_left_as_it_is(file: Path, tmp_path: Path, read_only: bool) -> None:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE something_new (text TEXT)")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    before = contents(tmp_path)

    message = refused(file, read_only=read_only)

    assert f"schema version {SCHEMA_VERSION + 1}" in message
    assert contents(tmp_path) == before


LEASES_OF_VERSION_1 = """
    CREATE TABLE leases (
        tenant TEXT NOT NULL,
        session_id TEXT NOT NULL,
        step_id TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        owner TEXT NOT NULL,
        expires_at INTEGER NOT NULL,
        claimed INTEGER NOT NULL,
        revoked INTEGER NOT NULL,
        PRIMARY KEY (tenant, session_id, step_id)
    ) WITHOUT ROWID
"""


def set_back_to_version_1(file: Path) -> None:
    Database.open(file).close()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        for table in ("sinks", "sink_places", "leases"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute(LEASES_OF_VERSION_1)
        connection.execute("INSERT INTO leases VALUES ('local', 's-1', 'call-2-0', 1, 'anna', 5000, 1, 0)")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()


async def test_a_database_of_an_older_version_is_brought_up_to_date_with_all_that_is_in_it(
    file: Path, tmp_path: Path
) -> None:
    set_back_to_version_1(file)
    key = SessionKey("local", "s-1")

    async with Database.open(file) as database:
        leases = SqliteLeases(database)
        assert await leases.save_checkpoint(key, "call-2-0", 1, "anna", "row 500")

    async with Database.open(file) as database:
        lease = await SqliteLeases(database).read_lease(key, "call-2-0")
    assert lease == Lease(attempt=1, owner="anna", expires_at=from_millis(5000), checkpoint="row 500")
    assert layout(file) == layout_of_a_new_one(tmp_path)


def test_a_database_of_an_older_version_can_be_looked_at_and_stays_as_it_is(file: Path) -> None:
    set_back_to_version_1(file)

    Database.open(file, read_only=True).close()

    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_a_change_of_the_layout_that_fails_leaves_the_file_as_it_was(file: Path) -> None:
    set_back_to_version_1(file)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("ALTER TABLE leases RENAME TO were_leases")
    before = layout(file)

    with pytest.raises(StoreUnavailableError, match="leases"):
        Database.open(file)

    assert layout(file) == before


def layout(file: Path) -> tuple[int, dict[str, list[tuple]]]:
    """Return the version of a file and the columns of its tables."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return version, {name: connection.execute(f"PRAGMA table_info({name})").fetchall() for name in sorted(tables)}


def layout_of_a_new_one(folder: Path) -> tuple[int, dict[str, list[tuple]]]:
    Database.open(folder / "new.db").close()
    return layout(folder / "new.db")


def test_a_refused_file_can_be_opened_once_it_is_put_right(file: Path) -> None:
    file.write_bytes(b"hello")
    refused(file)
    file.unlink()

    Database.open(file).close()


async def test_a_file_that_may_not_be_written_is_refused(open_folder: Path) -> None:
    file = open_folder / "sessions.db"
    Database.open(file).close()
    file.chmod(0o444)

    assert "may not be written" in refused(file)

    async with Database.open(file, read_only=True) as beside:
        assert not (await SqliteSessionStore(beside).load(A_SESSION)).head.exists


def test_a_folder_that_may_not_be_written_is_refused(open_folder: Path) -> None:
    open_folder.chmod(0o555)

    message = refused(open_folder / "sessions.db")

    assert "make the folder writable" in message


async def test_a_damaged_file_is_named_when_the_damage_is_met(file: Path) -> None:
    async with Database.open(file) as database:
        for _ in range(30):
            await a_turn(SqliteSessionStore(database))
    damaged = damage(file)

    async with Database.open(file) as database:
        store = SqliteSessionStore(database)
        with pytest.raises(DatabaseUnusableError, match="restore it from a backup") as error:
            await store.load(A_SESSION)
        with pytest.raises(DatabaseUnusableError):
            await store.sessions_due(NOON)

    assert str(file) in error.value.message
    assert contents(file.parent)["sessions.db"] == damaged


def test_a_file_cut_short_is_refused_or_named_when_it_is_read(file: Path, tmp_path: Path) -> None:
    Database.open(file).close()
    file.write_bytes(file.read_bytes()[:3000])
    before = contents(tmp_path)

    assert str(file) in refused(file)

    assert contents(tmp_path) == before
