"""What SQLite's errors mean to a caller: try again, or the file needs a person."""

from __future__ import annotations

import sqlite3

from perdure.errors import DatabaseUnusableError, ItemTooLargeError, PerdureError, StoreUnavailableError

SQLITE_MAX_LENGTH = 1_000_000_000
"""Largest text or row of SQLite, in bytes, unless it was built otherwise (sqlite.org/limits.html)."""

_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_NOT_WRITABLE = ("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH", "SQLITE_CANTOPEN")


def database_error(error: sqlite3.Error, name: str) -> PerdureError:
    """Return our error for one of SQLite's (result codes: sqlite.org/rescode.html), with its cause set.

    Args:
        error: What the sqlite3 module raised.
        name: Which database, as a person knows it.
    """
    code = getattr(error, "sqlite_errorname", "") or ""
    translated: PerdureError
    if code.startswith(_DAMAGED):
        translated = DatabaseUnusableError(
            f"database {name} is damaged, or is not a database ({error}): restore it from a backup, "
            "or name another file"
        )
    elif code.startswith(_NOT_WRITABLE):
        translated = DatabaseUnusableError(
            f"database {name} may not be opened or written ({error}): "
            "make the file and its folder writable, or name another file"
        )
    elif code == "SQLITE_FULL":
        translated = StoreUnavailableError(f"the disk of database {name} is full: make room, then try again")
    elif code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        translated = StoreUnavailableError(
            f"database {name} is locked by another program ({error}): let that one finish, then try again"
        )
    elif code == "SQLITE_TOOBIG" or isinstance(error, sqlite3.DataError):
        translated = ItemTooLargeError(
            f"one record is larger than the {SQLITE_MAX_LENGTH} bytes that database {name} can hold ({error})"
        )
    else:
        translated = StoreUnavailableError(f"database {name} did not answer ({error}): try again")
    translated.__cause__ = error
    return translated
