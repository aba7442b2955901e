"""Leases in SQLite: one row per step, written without a sync of its own (design §5)."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from functools import partial

from perdure.core.checkpoints import check_checkpoint
from perdure.core.codec import from_millis, to_millis
from perdure.core.limits import LEASE_GRACE
from perdure.embedded.database import Database
from perdure.ports import Lease, RevokeResult, SessionKey

_CLAIM = """
    INSERT INTO leases (tenant, session_id, step_id, attempt, owner, expires_at, claimed, revoked)
    VALUES (?, ?, ?, ?, ?, ?, 1, 0)
    ON CONFLICT DO UPDATE SET
        attempt = excluded.attempt, owner = excluded.owner, expires_at = excluded.expires_at, claimed = 1, revoked = 0
    WHERE attempt < excluded.attempt
       OR (attempt = excluded.attempt AND owner = excluded.owner AND claimed AND NOT revoked)
"""
_RENEW = """
    UPDATE leases SET expires_at = ?
    WHERE tenant = ? AND session_id = ? AND step_id = ? AND attempt = ? AND owner = ? AND claimed AND NOT revoked
"""
_SAVE = """
    UPDATE leases SET checkpoint = ?
    WHERE tenant = ? AND session_id = ? AND step_id = ? AND attempt = ? AND owner = ? AND claimed AND NOT revoked
"""
_REVOKE_UNCLAIMED = """
    INSERT INTO leases (tenant, session_id, step_id, attempt, owner, expires_at, claimed, revoked)
    VALUES (?, ?, ?, ?, '', ?, 0, 1)
    ON CONFLICT DO UPDATE SET
        attempt = excluded.attempt, owner = '', expires_at = excluded.expires_at, claimed = 0, revoked = 1
"""
_REVOKE_CLAIMED = """
    UPDATE leases SET revoked = 1 WHERE tenant = ? AND session_id = ? AND step_id = ? AND attempt = ?
"""
_DELETE_IDLE = """
    DELETE FROM leases WHERE NOT EXISTS (
        SELECT 1 FROM heads
        WHERE heads.tenant = leases.tenant AND heads.session_id = leases.session_id AND heads.due_at IS NOT NULL
    )
"""
_SELECT = """
    SELECT attempt, owner, expires_at, claimed, revoked, checkpoint FROM leases
    WHERE tenant = ? AND session_id = ? AND step_id = ?
"""


class SqliteLeases:
    """`Leases` on one SQLite file. What it writes survives the death of the process, not that of the machine.

    That is enough: after the machine's death every lease is one of an earlier owner, and what may never run twice
    was committed as `started`, with a sync.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, key: SessionKey, step_id: str, attempt: int, owner: str, expires_at: datetime) -> bool:
        """See `Leases.claim`."""
        row = (key.tenant, key.session_id, step_id, attempt, owner, to_millis(expires_at))
        return await self._write(partial(_changed, _CLAIM, row))

    async def renew(self, key: SessionKey, step_id: str, attempt: int, owner: str, expires_at: datetime) -> bool:
        """See `Leases.renew`."""
        row = (to_millis(expires_at), key.tenant, key.session_id, step_id, attempt, owner)
        return await self._write(partial(_changed, _RENEW, row))

    async def revoke(self, key: SessionKey, step_id: str, attempt: int, now: datetime) -> RevokeResult:
        """See `Leases.revoke`. A lease of a later attempt is left as it is: that earlier ones are over is known."""
        return await self._database.writer.run(partial(_revoke, key, step_id, attempt, to_millis(now)), durable=False)

    async def save_checkpoint(self, key: SessionKey, step_id: str, attempt: int, owner: str, text: str) -> bool:
        """See `Leases.save_checkpoint`. What is saved survives the death of the process."""
        check_checkpoint(text)
        row = (text, key.tenant, key.session_id, step_id, attempt, owner)
        return await self._write(partial(_changed, _SAVE, row))

    async def read_lease(self, key: SessionKey, step_id: str) -> Lease | None:
        """See `Leases.read_lease`."""
        return await self._database.read(partial(_select, key, step_id))

    async def expire_earlier_leases(self) -> None:
        """Let the leases of earlier owners of this file end at once: the lock says that none of them lives.

        To be called once, before this process claims anything. Leases of sessions that expect no step are removed:
        no message that names one of their steps outlives its process.
        """
        await self._database.writer.run(_expire, durable=False)

    async def _write(self, work: partial[bool]) -> bool:
        return await self._database.writer.run(work, durable=False)


def _changed(sql: str, row: tuple[object, ...], connection: sqlite3.Connection) -> bool:
    return connection.execute(sql, row).rowcount > 0


def _select(key: SessionKey, step_id: str, connection: sqlite3.Connection) -> Lease | None:
    row = connection.execute(_SELECT, (key.tenant, key.session_id, step_id)).fetchone()
    if row is None:
        return None
    attempt, owner, expires_at, claimed, revoked, checkpoint = row
    return Lease(
        attempt=attempt,
        owner=owner,
        expires_at=from_millis(expires_at),
        claimed=bool(claimed),
        revoked=bool(revoked),
        checkpoint=checkpoint,
    )


def _revoke(key: SessionKey, step_id: str, attempt: int, now: int, connection: sqlite3.Connection) -> RevokeResult:
    place = (key.tenant, key.session_id, step_id)
    lease = _select(key, step_id, connection)
    if lease is None or lease.attempt < attempt:
        connection.execute(_REVOKE_UNCLAIMED, (*place, attempt, now))
        return "unclaimed"
    if lease.attempt > attempt:  # the attempt asked for was given up before the later one was made
        return "claimed"
    if lease.revoked:
        return "claimed" if lease.claimed else "unclaimed"
    if now < to_millis(lease.expires_at + LEASE_GRACE):
        return "alive"
    connection.execute(_REVOKE_CLAIMED, (*place, attempt))
    return "claimed"


def _expire(connection: sqlite3.Connection) -> None:
    connection.execute(_DELETE_IDLE)
    connection.execute("UPDATE leases SET expires_at = 0 WHERE claimed AND NOT revoked")
