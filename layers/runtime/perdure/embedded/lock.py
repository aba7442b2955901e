"""The file beside a database that one process holds, and what it remembers: the last commit that was acknowledged."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import zlib
from pathlib import Path

from perdure.errors import DatabaseInUseError, DatabaseUnusableError
from perdure.ports import SessionKey

_HOLDER_BYTES = 32
"""The number of the process that holds it, one line; the last commit stands behind."""

_MAX_BYTES = 4096

_held: set[int] = set()
"""The locks that this process holds."""


def _let_go_in_child() -> None:
    """A forked child shares its parent's locks, and would keep them when the parent is long dead."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go_in_child)


class LockFile:
    """The lock that one runtime per database holds; the kernel lets go of it when the process ends in any way.

    It is a file of its own, because SQLite's locks on a file are lost when any descriptor of it is closed. And it
    outlives a `-wal` that somebody cuts, garbles or deletes behind a process that was killed: then the database goes
    back to an earlier commit without a word, and only what is written here can tell.
    """

    def __init__(self, database: Path) -> None:
        """Take the lock.

        Raises:
            DatabaseInUseError: Another runtime, of this or another process, holds it.
            DatabaseUnusableError: It can't be written.
        """
        self.path = database.with_name(f"{database.name}-lock")
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DatabaseUnusableError(
                f"{self.path} can't be written ({error.strerror}): make the folder writable, or name another file"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, _HOLDER_BYTES, 0).split(b"\n")[0].decode("ascii", "replace").strip()
            os.close(self._file)
            raise DatabaseInUseError(
                f"database {database} is in use by process {holder or 'unknown'}: stop that one first, or name "
                "another file. `perdure sessions` and `perdure show` can look at it meanwhile"
            ) from error
        _held.add(self._file)
        self._write(f"{os.getpid()}\n".encode().ljust(_HOLDER_BYTES), 0)

    def last_commit(self) -> tuple[SessionKey, int] | None:
        """Return session and version of the last commit of a process that was killed; None if it closed in order."""
        record, _, _ = os.pread(self._file, _MAX_BYTES, _HOLDER_BYTES).partition(b"\n")
        checksum, _, body = record.partition(b" ")
        if not body or checksum != _checksum(body):
            return None
        tenant, session_id, version = json.loads(body)
        return SessionKey(tenant, session_id), version

    def committed(self, key: SessionKey, version: int) -> None:
        """Note a commit that the disk has. Not synced, so what the disk has of this is never ahead of the commits."""
        body = json.dumps([key.tenant, key.session_id, version]).encode()
        self._write(b"%b %b\n" % (_checksum(body), body), _HOLDER_BYTES)

    def forget_commit(self) -> None:
        """Know of no commit: the database is new, or holds all of them itself."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, _HOLDER_BYTES)

    def release(self) -> None:
        """Let go. Letting go again does nothing."""
        if self._file in _held:
            _held.remove(self._file)
            os.close(self._file)

    def _write(self, content: bytes, place: int) -> None:
        with contextlib.suppress(OSError):  # a full disk: then it is a commit behind, and only knows less
            os.pwrite(self._file, content, place)


def _checksum(body: bytes) -> bytes:
    return b"%08x" % zlib.crc32(body)
