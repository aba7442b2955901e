"""Who watches which session: `SUB#<connection>` beside the session, and the way back from a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from perdure.aws import keys
from perdure.aws.limits import SUBSCRIPTION_TTL
from perdure.aws.table import ConditionNotMetError, Item, Table, Value, number, text
from perdure.core.codec import to_millis
from perdure.ports import Clock, SessionKey

_PREFIX = "SUB#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One connection's wish to hear of one session. `created_ms` tells it from a later one of the same name."""

    connection_id: str
    created_ms: int


class Subscriptions:
    """Subscriptions of WebSocket connections; each ends after 3 hours, or with the token that it was made with."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def add(self, key: SessionKey, connection_id: str, *, until: datetime | None = None) -> None:
        """Subscribe a connection. The viewer then reads the session, so it misses nothing (races.md X13).

        Args:
            until: When the subscriber's token ends; nothing is sent after it.
        """
        now = self._clock.now()
        ends = min(now + SUBSCRIPTION_TTL, until) if until else now + SUBSCRIPTION_TTL
        partition = keys.partition_key(key)
        shared: dict[str, Value] = {"created_ms": to_millis(now), "ends_ms": to_millis(ends), "ttl": _ttl(ends)}
        # The way back first: what it leads to may be missing, but a subscription must not outlive its connection.
        await self._table.put({"pk": _connection(connection_id), "sk": partition, **shared})
        await self._table.put({"pk": partition, "sk": _PREFIX + connection_id, **shared})

    async def remove(self, key: SessionKey, connection_id: str) -> None:
        """End one subscription, if there is one."""
        partition = keys.partition_key(key)
        await self._table.delete(partition, _PREFIX + connection_id)
        await self._table.delete(_connection(connection_id), partition)

    async def drop_connection(self, connection_id: str) -> None:
        """End all subscriptions of a connection that was closed."""
        rows = await self._table.query("#pk = :pk", {"pk": _connection(connection_id)})
        sessions = [keys.session_key(text(row, "sk")) for row in rows]
        await asyncio.gather(*(self.remove(session, connection_id) for session in sessions))

    async def of_session(self, key: SessionKey, *, strong: bool) -> Sequence[Subscription]:
        """Return the subscriptions of a session that have not ended."""
        rows = await self._table.query(
            "#pk = :pk AND begins_with(#sk, :prefix)", {"pk": keys.partition_key(key), "prefix": _PREFIX}, strong=strong
        )
        now = to_millis(self._clock.now())
        return [_subscription(row) for row in rows if number(row, "ends_ms") > now]

    async def forget(self, key: SessionKey, subscription: Subscription) -> None:
        """Delete the subscription of a connection that is gone, unless it was made anew meanwhile."""
        try:
            await self._table.delete(
                keys.partition_key(key),
                _PREFIX + subscription.connection_id,
                condition="#created_ms = :created",
                values={"created": subscription.created_ms},
            )
        except ConditionNotMetError:
            return


def _subscription(row: Item) -> Subscription:
    connection_id = text(row, "sk").removeprefix(_PREFIX)
    return Subscription(connection_id=connection_id, created_ms=number(row, "created_ms"))


def _connection(connection_id: str) -> str:
    return f"#connection#{connection_id}"  # two `#`: never a session's partition


def _ttl(moment: datetime) -> int:
    return to_millis(moment) // 1000
