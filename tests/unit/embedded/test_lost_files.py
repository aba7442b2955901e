"""A database whose file goes away, or whose lock somebody inherits."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from perdure.embedded.database import Database
from perdure.embedded.store import SqliteSessionStore
from perdure.errors import DatabaseUnusableError
from perdure.testing.conformance import builders


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_nothing_is_accepted_into_a_file_that_nobody_can_open_any_more(how: str, tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    async with Database.open(file) as database:
        store = SqliteSessionStore(database)
        await builders.send(store)
        kept = tmp_path / "kept.db"
        file.rename(kept)
        if how == "replaced":
            shutil.copy(kept, file)

        with pytest.raises(DatabaseUnusableError, match="deleted or replaced"):
            await builders.answer(store)


async def test_a_file_that_is_put_back_is_written_again(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    async with Database.open(file) as database:
        store = SqliteSessionStore(database)
        await builders.send(store)
        file.rename(tmp_path / "aside.db")
        with pytest.raises(DatabaseUnusableError):
            await builders.answer(store)
        (tmp_path / "aside.db").rename(file)

        await builders.answer(store)

        assert (await store.load(builders.A_SESSION)).head.version == 2


@pytest.mark.parametrize("companion", ["-wal", "-lock"])
async def test_nothing_is_accepted_when_a_companion_of_the_file_is_gone(companion: str, tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    async with Database.open(file) as database:
        store = SqliteSessionStore(database)
        await builders.send(store)
        (tmp_path / f"sessions.db{companion}").unlink()

        with pytest.raises(DatabaseUnusableError, match=f"sessions.db{companion} was deleted or replaced"):
            await builders.answer(store)

    async with Database.open(file) as again:  # closing in order moved into the file what was accepted
        assert (await SqliteSessionStore(again).load(builders.A_SESSION)).head.version == 1


async def test_a_log_that_was_deleted_before_the_end_and_could_not_be_moved_is_missed(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    async with Database.open(file, read_only=False) as database:
        await builders.send(SqliteSessionStore(database))
        beside = Database.open(file, read_only=True)
        await SqliteSessionStore(beside).load(builders.A_SESSION)
        (tmp_path / "sessions.db-wal").unlink()

    await asyncio.to_thread(beside.close)
    with pytest.raises(DatabaseUnusableError, match="lacks commits that were acknowledged"):
        Database.open(file)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_does_not_hold_the_lock_when_its_parent_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    database = Database.open(file)
    to_child, from_child = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:  # lives on until the test lets it go
        os.close(to_child[1])
        os.write(from_child[1], b"x")
        os.read(to_child[0], 1)
        os._exit(0)
    try:
        os.read(from_child[0], 1)

        database.close()
        Database.open(file).close()
    finally:
        for end in (*to_child, *from_child):
            os.close(end)
        os.waitpid(child, 0)
