"""Real processes that are killed, or whose disk fails, in the middle of commits."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.embedded.database import Database
from perdure.embedded.leases import SqliteLeases
from perdure.embedded.store import SqliteSessionStore
from perdure.errors import DatabaseInUseError
from perdure.ports import SessionKey

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[3]


def a_committer(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.unit.embedded.committer", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def lines_of(process: subprocess.Popen[str], count: int | None = None) -> list[list[str]]:
    """Read this many lines of a process, or all that it still says."""
    assert process.stdout is not None
    lines: list[list[str]] = []
    for line in process.stdout:
        if line.endswith("\n"):
            lines.append(line.split())
        if len(lines) == count:
            break
    return lines


def newest_acknowledged(lines: list[list[str]]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for words in lines:
        if words[0] == "acknowledged":
            newest[words[1]] = max(newest.get(words[1], 0), int(words[2]))
    return newest


async def check(file: Path, lines: list[list[str]]) -> None:
    """Everything that a process acknowledged is there, and every log is whole."""
    async with Database.open(file) as database:
        store, leases = SqliteSessionStore(database), SqliteLeases(database)
        for session_id, version in newest_acknowledged(lines).items():
            log = await store.read(SessionKey("acme", session_id))
            assert log.head.version >= version
            assert [entry.version for entry in log.entries] == list(range(1, log.head.version + 1))
        for words in lines:
            if words[0] == "claimed":
                assert await leases.read_lease(SessionKey("acme", words[1]), words[2]) is not None
        integrity = await database.read(lambda connection: connection.execute("PRAGMA integrity_check").fetchone())
        assert integrity == ("ok",)


def test_a_process_killed_again_and_again_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    lines: list[list[str]] = []

    for after in (1, 2, 17, 60, 150, 400):
        process = a_committer("for-ever", file, 5)
        lines += lines_of(process, after)
        process.kill()
        lines += lines_of(process)
        process.wait()

        asyncio.run(check(file, lines))

    assert sum(newest_acknowledged(lines).values()) > 300


def test_a_file_is_in_use_until_its_owner_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    process = a_committer("for-ever", file, 1)
    assert lines_of(process, 1) == [["ready"]]

    with pytest.raises(DatabaseInUseError, match=f"process {process.pid}"):
        Database.open(file)
    Database.open(file, read_only=True).close()

    process.kill()
    process.wait()
    Database.open(file).close()


async def test_a_log_that_a_killed_process_left_is_read_without_an_owner(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    process = a_committer("for-ever", file, 1)
    lines = await asyncio.to_thread(lines_of, process, 20)
    process.kill()
    lines += await asyncio.to_thread(lines_of, process)

    async with Database.open(file, read_only=True) as beside:
        head = (await SqliteSessionStore(beside).load(SessionKey("acme", "s-0"))).head

    assert head.version >= newest_acknowledged(lines)["s-0"]


def test_a_disk_that_fails_for_a_while_costs_no_acknowledged_commit(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"

    process = a_committer("failing-disk", file)
    lines = lines_of(process)
    process.wait()

    words = [line[0] for line in lines]
    assert words[-1] == "done"
    assert ["refused", "StoreUnavailableError"] in lines
    refusal, room = words.index("refused"), words.index("room")
    assert "acknowledged" in words[refusal:room]  # in a new log, which has not reached the limit yet
    assert "acknowledged" in words[words.index("room") :]
    asyncio.run(check(file, lines))
