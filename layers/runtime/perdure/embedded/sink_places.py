"""How far each sink has come in each session, in the database, so that a restart goes on there."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import Any

from perdure.core.codec import from_millis, to_millis
from perdure.embedded.database import Database
from perdure.ports import SessionKey
from perdure.sink_delivery import Place

_ADD_SINK = "INSERT INTO sinks (name) VALUES (?) ON CONFLICT DO NOTHING"
_BEGIN_BEHIND = """
    INSERT INTO sink_places (sink, tenant, session_id, version, event_index)
    SELECT ?, tenant, session_id, version + 1, 0 FROM heads
"""
_PLACE = """
    SELECT version, event_index, failing_since FROM sink_places WHERE sink = ? AND tenant = ? AND session_id = ?
"""
_PUT = """
    INSERT OR REPLACE INTO sink_places (sink, tenant, session_id, version, event_index, failing_since)
    VALUES (?, ?, ?, ?, ?, ?)
"""
_BEHIND = """
    SELECT heads.tenant, heads.session_id FROM heads LEFT JOIN sink_places AS place
    ON place.sink = ? AND place.tenant = heads.tenant AND place.session_id = heads.session_id
    WHERE place.version IS NULL OR place.version <= heads.version LIMIT ?
"""


class SinkPlaces:
    """The places of one sink. They are written without a sync of their own: what is lost is delivered again."""

    def __init__(self, database: Database, sink: str) -> None:
        self._database = database
        self._sink = sink

    async def begin(self) -> None:
        """Make a sink that was never seen begin behind all that is committed by now."""
        await self._database.writer.run(self._begin, durable=False)

    async def behind(self, limit: int) -> list[SessionKey]:
        """Return sessions with entries that the sink was not offered yet."""
        query = partial(_rows, _BEHIND, (self._sink, limit))
        return [SessionKey(*row) for row in await self._database.read(query)]

    async def read(self, key: SessionKey) -> Place:
        """Return the place in a session; its beginning if there is none."""
        rows = await self._database.read(partial(_rows, _PLACE, (self._sink, *key)))
        if not rows:
            return Place()
        version, index, since = rows[0]
        return Place(version=version, index=index, failing_since=from_millis(since) if since is not None else None)

    async def write(self, key: SessionKey, place: Place) -> None:
        """Keep the place in a session."""
        since = to_millis(place.failing_since) if place.failing_since is not None else None
        row = (self._sink, *key, place.version, place.index, since)
        await self._database.writer.run(partial(_rows, _PUT, row), durable=False)

    def _begin(self, connection: sqlite3.Connection) -> None:
        if connection.execute(_ADD_SINK, (self._sink,)).rowcount:
            connection.execute(_BEGIN_BEHIND, (self._sink,))


def _rows(query: str, values: tuple[object, ...], connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return connection.execute(query, values).fetchall()
