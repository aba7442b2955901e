"""One SQLite file: opening it, holding it for this process alone, and telling what is wrong with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

from perdure.embedded.failures import database_error
from perdure.embedded.files import OpenFiles
from perdure.embedded.lock import LockFile
from perdure.embedded.writer import Work, Writer
from perdure.errors import DatabaseUnusableError, StoreUnavailableError
from perdure.ports import SessionKey

T = TypeVar("T")

APPLICATION_ID = 0x50524452
"""`PRAGMA application_id` of our files: "PRDR" in ASCII."""

SCHEMA_VERSION = 3
"""`PRAGMA user_version` of our files. A file with a lower one is brought up to date when a runtime opens it; one with a
higher one was written by a newer Perdure and is left alone."""

BUSY_SECONDS = 5.0
"""How long to wait for a lock of SQLite's, which a reader in another process may hold while it recovers the log."""

_SINKS = (
    "CREATE TABLE sinks (name TEXT PRIMARY KEY) WITHOUT ROWID",
    """
    CREATE TABLE sink_places (
        sink TEXT NOT NULL,
        tenant TEXT NOT NULL,
        session_id TEXT NOT NULL,
        version INTEGER NOT NULL,
        event_index INTEGER NOT NULL,
        failing_since INTEGER,
        PRIMARY KEY (sink, tenant, session_id)
    ) WITHOUT ROWID
    """,
)

_SCHEMA = (
    """
    CREATE TABLE heads (
        tenant TEXT NOT NULL,
        session_id TEXT NOT NULL,
        version INTEGER NOT NULL,
        head TEXT NOT NULL,
        owner_issuer TEXT,
        owner_subject TEXT,
        last_activity INTEGER,
        due_at INTEGER,
        PRIMARY KEY (tenant, session_id)
    )
    """,
    """
    CREATE INDEX heads_by_activity ON heads (tenant, owner_issuer, owner_subject, last_activity, session_id)
    WHERE owner_subject IS NOT NULL
    """,
    "CREATE INDEX heads_by_due_time ON heads (due_at) WHERE due_at IS NOT NULL",
    """
    CREATE TABLE entries (
        tenant TEXT NOT NULL,
        session_id TEXT NOT NULL,
        version INTEGER NOT NULL,
        commit_id TEXT NOT NULL,
        entry TEXT NOT NULL,
        PRIMARY KEY (tenant, session_id, version)
    )
    """,
    """
    CREATE TABLE receipts (
        tenant TEXT NOT NULL,
        session_id TEXT NOT NULL,
        key_hash TEXT NOT NULL,
        content_hash TEXT NOT NULL,
        reply TEXT NOT NULL,
        version INTEGER NOT NULL,
        PRIMARY KEY (tenant, session_id, key_hash)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE leases (
        tenant TEXT NOT NULL,
        session_id TEXT NOT NULL,
        step_id TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        owner TEXT NOT NULL,
        expires_at INTEGER NOT NULL,
        claimed INTEGER NOT NULL,
        revoked INTEGER NOT NULL,
        checkpoint TEXT,
        PRIMARY KEY (tenant, session_id, step_id)
    ) WITHOUT ROWID
    """,
    *_SINKS,
)

_CHANGES: dict[int, tuple[str, ...]] = {
    2: ("ALTER TABLE leases ADD COLUMN checkpoint TEXT",),
    3: _SINKS,
}
"""What makes a file of the version before into one of this version. `_SCHEMA` is what all of them together make."""


class Database:
    """An open database. The owner is one per file; read-only ones may stand beside it.

    Reads run on a connection and a thread of their own and see all that is committed. `:memory:` is a database that
    nobody shares and that ends with this object.
    """

    def __init__(
        self,
        name: str,
        *,
        writer: Writer | None,
        reader: sqlite3.Connection | None,
        lock: LockFile | None,
        files: OpenFiles | None = None,
    ) -> None:
        """Use `Database.open`."""
        self.name = name
        self._writer = writer
        self._reader = reader
        self._lock = lock
        self._files = files
        self._reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix="perdure-reader") if reader else None

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool = False) -> Database:
        """Open a database file, or make it if there is none; `:memory:` for none at all.

        Args:
            path: The file. Beside it SQLite keeps `-wal` and `-shm`, and we `-lock`, which is never removed.
            read_only: Look only; works beside a running owner and takes no lock.

        Raises:
            DatabaseInUseError: Another runtime, of this or another process, has this file open.
            DatabaseUnusableError: No folder, no permission, no database, not ours, damaged, a newer one's, or one
                that lacks commits which were acknowledged before a kill. Nothing was changed.
        """
        if str(path) == ":memory:":
            connection = _connect("file::memory:?cache=private")
            _prepare(connection, ":memory:")
            return cls(":memory:", writer=Writer(connection, ":memory:"), reader=None, lock=None)

        file = Path(path).expanduser().resolve()
        _check_place(file, read_only=read_only)
        name = str(file)
        if read_only:
            with _translated(name):
                return cls(name, writer=None, reader=_open_reader(file), lock=None)

        lock = LockFile(file)
        try:
            with _translated(name):
                _check_nothing_is_lost(file, lock)
                connection = _connect(_uri(file, "rwc"))
                try:
                    _prepare(connection, name)
                    reader = _open_reader(file)
                except BaseException:
                    connection.close()
                    raise
            files = OpenFiles(file)
            writer = Writer(connection, name, check=files.check)
            return cls(name, writer=writer, reader=reader, lock=lock, files=files)
        except BaseException:
            lock.release()
            raise

    @classmethod
    async def open_aside(cls, path: str | Path, *, read_only: bool = False) -> Database:
        """Open it as `open` does, in a thread. If the caller goes away meanwhile, it is closed again."""
        opening = asyncio.ensure_future(asyncio.to_thread(cls.open, path, read_only=read_only))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_again)
            raise

    @property
    def read_only(self) -> bool:
        return self._writer is None

    @property
    def writer(self) -> Writer:
        """What writes to this database.

        Raises:
            DatabaseUnusableError: It was opened read-only.
        """
        if self._writer is None:
            raise DatabaseUnusableError(f"database {self.name} was opened read-only: nothing can be written to it")
        return self._writer

    def committed(self, key: SessionKey, version: int) -> None:
        """Note a commit that is on the disk, before it is acknowledged: the next opening looks whether it is there."""
        if self._lock is not None:
            self._lock.committed(key, version)

    async def read(self, query: Work[T]) -> T:
        """Run a query on one coherent snapshot of all that is committed.

        Raises:
            StoreUnavailableError: The database did not answer, or was closed.
            DatabaseUnusableError: The file is damaged.
        """
        if self._reading is None:
            return await self.writer.run(query, durable=False)
        loop = asyncio.get_running_loop()
        try:
            pending = loop.run_in_executor(self._reading, self._snapshot, query)
        except RuntimeError as error:
            raise StoreUnavailableError(f"database {self.name} was closed: open it again") from error
        return await pending

    def _snapshot(self, query: Work[T]) -> T:
        reader = self._reader
        assert reader is not None
        with _translated(self.name):
            reader.execute("BEGIN")
            try:
                return query(reader)
            finally:
                reader.execute("ROLLBACK")

    def close(self) -> None:
        """Finish what is waiting, move the log into the file, and let go of it. Closing again does nothing."""
        in_order = self._files is None or self._files.are_there()
        if self._reading is not None:
            self._reading.shutdown()
        if self._reader is not None:
            self._reader.close()
        if self._writer is not None:
            self._writer.close()
        if self._lock is not None:
            if in_order and not Path(f"{self.name}-wal").exists():  # or it could not be emptied: somebody still reads
                self._lock.forget_commit()
            self._lock.release()
            self._lock = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)


def _close_again(opening: asyncio.Future[Database]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _check_place(file: Path, *, read_only: bool) -> None:
    if file.is_dir():
        raise DatabaseUnusableError(f"{file} is a folder: name a file in it")
    if read_only and not file.exists():
        raise DatabaseUnusableError(f"there is no database {file}: check the name, or start a runtime on it first")
    if not file.parent.is_dir():
        raise DatabaseUnusableError(f"there is no folder {file.parent}: make it first, or name another file")
    wanted = os.R_OK if read_only else os.R_OK | os.W_OK
    if file.exists() and not os.access(file, wanted, effective_ids=True):
        raise DatabaseUnusableError(
            f"database {file} may not be {'read' if read_only else 'written'}: change its permissions, "
            "or name another file"
        )


def _uri(file: Path, mode: str) -> str:
    return f"file:{quote(str(file))}?mode={mode}"


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS)


def _open_reader(file: Path) -> sqlite3.Connection:
    reader = _connect(_uri(file, "ro"))
    try:
        if not _is_ours(reader, str(file)):
            raise DatabaseUnusableError(f"database {file} is empty: start a runtime on it first")
    except BaseException:
        reader.close()
        raise
    return reader


def _prepare(connection: sqlite3.Connection, name: str) -> None:
    """Check a database before anything is changed, then make it ready to be written."""
    is_ours = _is_ours(connection, name)
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode not in ("wal", "memory"):  # no shared memory there, as on some network file systems
        raise DatabaseUnusableError(f"{name} is where SQLite can't keep its log: use a file on a local disk")
    connection.execute("PRAGMA synchronous = FULL")
    if is_ours:
        connection.execute("BEGIN IMMEDIATE")  # fails on what can't be written
        _bring_up_to_date(connection)
        connection.execute("COMMIT")
        return
    connection.execute("BEGIN EXCLUSIVE")
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Change the schema of an older file to ours, in the transaction that is open: all of it or nothing."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for later in range(version + 1, SCHEMA_VERSION + 1):
        for statement in _CHANGES[later]:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {later}")


def _check_nothing_is_lost(file: Path, lock: LockFile) -> None:
    """Refuse a database that has gone back behind what was acknowledged; SQLite itself takes it for a whole one."""
    if not file.exists() or file.stat().st_size == 0:
        lock.forget_commit()
    last = lock.last_commit()
    if last is None:
        return
    key, version = last
    row = None
    with contextlib.closing(_connect(_uri(file, "ro"))) as connection:  # one that could write would empty the log
        if _is_ours(connection, str(file)):
            row = connection.execute("SELECT version FROM heads WHERE tenant = ? AND session_id = ?", key).fetchone()
    if row is None or row[0] < version:
        raise DatabaseUnusableError(
            f"database {file} lacks commits that were acknowledged, such as version {version} of session "
            f"{key.session_id}: its -wal was cut, damaged or deleted, or the file was replaced by an older one. Put "
            f"the missing file back, or delete {lock.path} to go on with what is there"
        )


def _is_ours(connection: sqlite3.Connection, name: str) -> bool:
    """Whether this is a Perdure database; False for one that is still empty."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if (application, version, tables) == (0, 0, 0):
        return False
    if application != APPLICATION_ID:
        raise DatabaseUnusableError(f"{name} is a database of another application: name another file")
    if version > SCHEMA_VERSION:
        raise DatabaseUnusableError(
            f"database {name} has schema version {version} and this Perdure knows {SCHEMA_VERSION}: "
            "install the newer Perdure that wrote it"
        )
    return True


@contextlib.contextmanager
def _translated(name: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise database_error(error, name) from error
