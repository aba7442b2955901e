"""The two indexes of the sessions table: an owner's sessions, and sessions that are due. Both hold keys only."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import zlib
from collections.abc import Sequence
from datetime import datetime

from perdure.aws import keys
from perdure.aws.items import record_of
from perdure.aws.table import Item, Table, number, text
from perdure.core.codec import to_millis
from perdure.core.entries import Actor
from perdure.errors import InvalidRequestError
from perdure.ports import SessionKey, SessionPage, SessionSummary

logger = logging.getLogger("perdure")

MAX_PAGE = 200


class SessionIndex:
    """Finds sessions by owner and by due time."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def list_sessions(self, tenant: str, owner: Actor, *, cursor: str | None, limit: int) -> SessionPage:
        """Return a page of an owner's sessions, newest activity first.

        Raises:
            InvalidRequestError: `invalid_cursor`.
        """
        owner_key = keys.owner_key(tenant, owner)
        size = max(1, min(limit, MAX_PAGE))
        after = _start_after(tenant, owner_key, cursor) if cursor is not None else None
        rows = await self._table.query(
            "#owner_key = :owner",
            {"owner": owner_key},
            index=keys.BY_OWNER,
            newest=True,
            limit=size + 1,  # one more, to know whether there is another page
            after=after,
        )
        page = rows[:size]
        items = await self._table.batch_get([(text(row, "pk"), keys.HEAD) for row in page], strong=False)
        heads = {text(item, "pk"): record_of(item).head for item in items}
        summaries = tuple(
            SessionSummary(
                session_id=keys.session_key(pk).session_id, head=heads[pk], cursor=_cursor_of(owner_key, row)
            )
            for pk, row in ((text(row, "pk"), row) for row in page)
            if pk in heads and heads[pk].exists
        )
        next_cursor = _cursor_of(owner_key, page[-1]) if page and len(rows) > size else None
        return SessionPage(sessions=summaries, next_cursor=next_cursor)

    async def sessions_due(self, now: datetime, limit: int) -> Sequence[SessionKey]:
        """Return due sessions of all buckets, the longest overdue first."""
        queries = [
            self._table.query(
                "#due_bucket = :bucket AND #due_at <= :now",
                {"bucket": bucket, "now": to_millis(now)},
                index=keys.BY_DUE,
                limit=limit,
            )
            for bucket in keys.due_buckets()
        ]
        rows = [row for found in await asyncio.gather(*queries) for row in found]
        rows.sort(key=lambda row: number(row, "due_at"))
        if rows:  # template.yaml makes a metric and an alarm of it
            late_seconds = max(0, to_millis(now) - number(rows[0], "due_at")) // 1000
            logger.info("sessions are due", extra={"due": min(len(rows), limit), "late_seconds": late_seconds})
        return [keys.session_key(text(row, "pk")) for row in rows[:limit]]


def _cursor_of(owner_key: str, row: Item) -> str:
    body = f"{number(row, 'last_activity')} {keys.session_key(text(row, 'pk')).session_id}"
    check = _checksum(owner_key, body)
    return base64.urlsafe_b64encode(f"{body} {check}".encode()).decode().rstrip("=")


def _start_after(tenant: str, owner_key: str, cursor: str) -> dict[str, str | int]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        raw = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        last_activity, session_id, check = raw.split(" ")
        if check != _checksum(owner_key, f"{last_activity} {session_id}"):
            raise ValueError
        return {
            "pk": keys.partition_key(SessionKey(tenant=tenant, session_id=session_id)),
            "sk": keys.HEAD,
            "owner_key": owner_key,
            "last_activity": int(last_activity),
        }
    except (ValueError, binascii.Error):
        raise InvalidRequestError(
            "this cursor is broken or belongs to another list: leave it out to start with the newest session",
            code="invalid_cursor",
        ) from None


def _checksum(owner_key: str, body: str) -> str:
    return format(zlib.crc32(f"{owner_key}\n{body}".encode()), "08x")
