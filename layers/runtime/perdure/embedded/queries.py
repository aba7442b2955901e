"""What is read from the database. Every query runs on one coherent snapshot."""

from __future__ import annotations

import base64
import binascii
import json
import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.core.entries import Actor, Entry, Receipt
from perdure.core.head import Head
from perdure.embedded.records import to_entry, to_head
from perdure.errors import DatabaseUnusableError, InvalidRequestError
from perdure.ports import LogSlice, SessionKey, SessionPage, SessionSummary

_MAX_CURSOR = 1024
"""Longest list cursor that is read, in characters: an id has 128 at most, in six bytes each when escaped."""

Place = tuple[int, str]
"""Where a page ended: last activity in epoch milliseconds, and session id."""

_BEFORE_THE_NEWEST: Place = (2**62, "")

_OLDEST = """
    SELECT version, entry FROM entries WHERE tenant = ? AND session_id = ? AND version BETWEEN ? AND ?
    ORDER BY version LIMIT ?
"""
_NEWEST = """
    SELECT version, entry FROM entries WHERE tenant = ? AND session_id = ? AND version BETWEEN ? AND ?
    ORDER BY version DESC LIMIT ?
"""
_PAGE = """
    SELECT session_id, head, last_activity FROM heads
    WHERE tenant = ? AND owner_issuer = ? AND owner_subject = ? AND (last_activity, session_id) < (?, ?)
    ORDER BY last_activity DESC, session_id DESC LIMIT ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Which versions of a log are wanted; see `SessionStore.read`."""

    first: int | None
    last: int | None
    limit: int | None
    newest: bool

    def cut_at(self, version: int) -> tuple[int, int]:
        """Return the first and last version to read of a log without gaps; the first is above the last for none."""
        low = max(self.first or 1, 1)
        high = version if self.last is None else min(self.last, version)
        if self.limit is not None and self.newest:
            low = max(low, high - self.limit + 1)
        elif self.limit is not None:
            high = min(high, low + self.limit - 1)
        return low, high


def head(key: SessionKey, connection: sqlite3.Connection) -> Head:
    """Read HEAD; `Head()` for a session that was never written."""
    row = connection.execute(
        "SELECT head FROM heads WHERE tenant = ? AND session_id = ?", (key.tenant, key.session_id)
    ).fetchone()
    return to_head(row[0]) if row else Head()


def receipts(key: SessionKey, names: Sequence[str], connection: sqlite3.Connection) -> dict[str, Receipt]:
    """Read the receipts with these key hashes, those that exist."""
    found: dict[str, Receipt] = {}
    for name in names:
        row = connection.execute(
            "SELECT content_hash, reply FROM receipts WHERE tenant = ? AND session_id = ? AND key_hash = ?",
            (key.tenant, key.session_id, name),
        ).fetchone()
        if row:
            found[name] = Receipt(key_hash=name, content_hash=row[0], reply=json.loads(row[1]))
    return found


def commit(key: SessionKey, commit_id: str, versions: Sequence[int], connection: sqlite3.Connection) -> Entry | None:
    """Read the entry that a command committed as one of these versions."""
    for version in versions:
        row = connection.execute(
            "SELECT entry FROM entries WHERE tenant = ? AND session_id = ? AND version = ? AND commit_id = ?",
            (key.tenant, key.session_id, version, commit_id),
        ).fetchone()
        if row:
            return to_entry(row[0])
    return None


def entries(key: SessionKey, low: int, high: int, connection: sqlite3.Connection) -> tuple[list[Entry], list[int]]:
    """Read the entries of versions `low` to `high`, and the lengths of their texts."""
    rows = connection.execute(
        "SELECT entry FROM entries WHERE tenant = ? AND session_id = ? AND version BETWEEN ? AND ? ORDER BY version",
        (key.tenant, key.session_id, low, high),
    ).fetchall()
    return [to_entry(text) for (text,) in rows], [len(text) for (text,) in rows]


def log(key: SessionKey, wanted: Range, connection: sqlite3.Connection) -> LogSlice:
    """Read HEAD and a piece of the log, of which a part may have been deleted by retention."""
    current = head(key, connection)
    low, high = Range(first=wanted.first, last=wanted.last, limit=None, newest=False).cut_at(current.version)
    rows = connection.execute(
        _NEWEST if wanted.newest else _OLDEST,
        (key.tenant, key.session_id, low, high, -1 if wanted.limit is None else wanted.limit),
    ).fetchall()
    rows.sort()
    kept_from = current.deleted_before or 1
    versions = [version for version, _ in rows if version >= kept_from]
    if versions != list(range(versions[0], versions[0] + len(versions)) if versions else []):
        raise DatabaseUnusableError(
            f"the log of session {key.session_id} has a gap: restore the database from a backup"
        )
    return LogSlice(head=current, entries=tuple(to_entry(text) for _, text in rows))


def page(tenant: str, owner: Actor, after: Place | None, limit: int, connection: sqlite3.Connection) -> SessionPage:
    """Read one page of an owner's sessions, newest activity first."""
    rows = connection.execute(
        _PAGE, (tenant, owner.issuer, owner.subject, *(after or _BEFORE_THE_NEWEST), limit + 1)
    ).fetchall()
    shown = rows[:limit]
    summaries = tuple(
        SessionSummary(session_id=session_id, head=to_head(text), cursor=write_cursor(tenant, owner, (at, session_id)))
        for session_id, text, at in shown
    )
    return SessionPage(sessions=summaries, next_cursor=summaries[-1].cursor if len(rows) > limit else None)


def due(now: int, limit: int, connection: sqlite3.Connection) -> list[SessionKey]:
    """Read the sessions that the sweep should look at, the longest overdue first. `now` in epoch milliseconds."""
    rows = connection.execute(
        "SELECT tenant, session_id FROM heads WHERE due_at <= ? ORDER BY due_at LIMIT ?", (now, limit)
    )
    return [SessionKey(tenant, session_id) for tenant, session_id in rows]


def write_cursor(tenant: str, owner: Actor, place: Place) -> str:
    """Return the text of a place in an owner's list."""
    body = json.dumps(place, separators=(",", ":"))
    return base64.urlsafe_b64encode(f"{_checksum(tenant, owner, body)}{body}".encode()).decode().rstrip("=")


def read_cursor(tenant: str, owner: Actor, text: str) -> Place:
    """Read a cursor of this owner's list.

    Raises:
        InvalidRequestError: `invalid_cursor`: it is broken, or belongs to another list.
    """
    try:
        if not text or len(text) > _MAX_CURSOR:
            raise ValueError
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode("ascii")
        if raw[:8] != _checksum(tenant, owner, raw[8:]):
            raise ValueError
        moment, session_id = json.loads(raw[8:])
    except (ValueError, binascii.Error):
        raise InvalidRequestError(
            "this list cursor is broken or belongs to another list: leave it out to start with the newest session",
            code="invalid_cursor",
        ) from None
    return int(moment), str(session_id)


def _checksum(tenant: str, owner: Actor, body: str) -> str:
    return format(zlib.crc32(f"{tenant}\n{owner.issuer}\n{owner.subject}\n{body}".encode()), "08x")
