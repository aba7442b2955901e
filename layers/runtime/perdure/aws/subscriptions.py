"""Who watches which session: `SUB#<connection>…` beside the session, and the way back from a connection.

A subscription holds where its viewer stands, so that any process can go on sending, and who sends now: one pump at a
time, by a conditional write. `wakes` counts the words that something came; a pump gives its place up only while the
count is what it has seen, so no word falls between its last look and its end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from perdure.aws import keys
from perdure.aws.limits import SUBSCRIPTION_TTL
from perdure.aws.table import ConditionNotMetError, Item, Table, Value, number, text
from perdure.core.codec import from_millis, to_millis
from perdure.ports import Clock, SessionKey

if TYPE_CHECKING:
    from perdure.aws.tickets import TicketHolder

JsonObject = dict[str, Any]

_PREFIX = "SUB#"

PUMP_LEASE = timedelta(seconds=40)
"""How long a pump holds its place; one sends for `aws.delivery.PUMP_TIME` at most and then takes seconds (ours)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One connection's delivery of one session.

    Attributes:
        name: Tells several deliveries of a connection apart; empty for the attachment to the session.
        created_ms: Tells it from a later one of the same name.
        kind: Which delivery `state` is of.
        holder: On whose behalf.
        ends_at: Nothing is sent from then on.
        wakes: How often somebody said that something came.
        unclean: The pump before died in mid-sentence: what it had sent is not known.
    """

    key: SessionKey
    connection_id: str
    name: str
    created_ms: int
    kind: str
    state: JsonObject
    holder: TicketHolder
    ends_at: datetime
    wakes: int = 0
    unclean: bool = False

    @property
    def sort_key(self) -> str:
        return _PREFIX + self.connection_id + (f"#{self.name}" if self.name else "")


class Subscriptions:
    """Subscriptions of WebSocket connections; each ends after 3 hours, or with the token that it was made with."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def add(
        self,
        key: SessionKey,
        connection_id: str,
        holder: TicketHolder,
        *,
        kind: str = "events",
        state: JsonObject,
        name: str = "",
    ) -> Subscription:
        """Subscribe a connection, in place of what it had under this name.

        Whoever commits from now on wakes a pump for it, and the pump that its maker starts reads the session after
        this, so nothing is missed (races.md X13).
        """
        from perdure.aws.holders import written_holder

        now = self._clock.now()
        ends = min(now + SUBSCRIPTION_TTL, holder.until) if holder.until else now + SUBSCRIPTION_TTL
        made = Subscription(
            key=key,
            connection_id=connection_id,
            name=name,
            created_ms=to_millis(now),
            kind=kind,
            state=state,
            holder=holder,
            ends_at=ends,
        )
        partition = keys.partition_key(key)
        shared: dict[str, Value] = {"created_ms": made.created_ms, "ends_ms": to_millis(ends), "ttl": _ttl(ends)}
        # The way back first: what it leads to may be missing, but a subscription must not outlive its connection.
        await self._table.put({"pk": _connection(connection_id), "sk": partition + _suffix(name), **shared})
        await self._table.put(
            {
                "pk": partition,
                "sk": made.sort_key,
                **shared,
                "kind": kind,
                "state": json.dumps(state),
                "holder": written_holder(holder),
                "wakes": 0,
            }
        )
        return made

    async def remove(self, key: SessionKey, connection_id: str, name: str = "") -> None:
        """End one subscription, if there is one."""
        partition = keys.partition_key(key)
        await self._table.delete(partition, _PREFIX + connection_id + _suffix(name))
        await self._table.delete(_connection(connection_id), partition + _suffix(name))

    async def drop_connection(self, connection_id: str) -> None:
        """End all subscriptions of a connection that was closed."""
        await asyncio.gather(
            *(self.remove(key, connection_id, name) for key, name in await self.of_connection(connection_id))
        )

    async def of_connection(self, connection_id: str) -> list[tuple[SessionKey, str]]:
        """Return the sessions, and names, of what a connection has subscribed to."""
        rows = await self._table.query("#pk = :pk", {"pk": _connection(connection_id)})
        return [_named(text(row, "sk")) for row in rows]

    async def read(self, key: SessionKey, connection_id: str, name: str = "") -> Subscription | None:
        """Return one subscription."""
        item = await self._table.get(keys.partition_key(key), _PREFIX + connection_id + _suffix(name), strong=True)
        return _subscription(key, item) if item else None

    async def of_session(self, key: SessionKey, *, strong: bool) -> Sequence[Subscription]:
        """Return the subscriptions of a session, those whose time is over included."""
        rows = await self._table.query(
            "#pk = :pk AND begins_with(#sk, :prefix)", {"pk": keys.partition_key(key), "prefix": _PREFIX}, strong=strong
        )
        return [_subscription(key, row) for row in rows]

    # --- the pump's place ----------------------------------------------------------------------------------------

    async def take(self, subscription: Subscription, owner: str) -> Subscription | None:
        """Take the pump's place; None: somebody else has it, or the subscription is gone.

        Returns the subscription as it is now; `unclean` when the pump before never gave its place up.
        """
        now = self._clock.now()
        try:
            before = await self._table.update(
                *self._keys(subscription),
                put={"pump": owner, "pump_until_ms": to_millis(now + PUMP_LEASE)},
                condition="#created_ms = :created AND "
                "(attribute_not_exists(#pump) OR #pump = :pump OR #pump_until_ms < :now)",
                values={"created": subscription.created_ms, "now": to_millis(now)},
                returning="ALL_OLD",
            )
        except ConditionNotMetError:
            return None
        taken = _subscription(subscription.key, before)
        return replace(taken, unclean=text(before, "pump") not in ("", owner))

    async def wake(self, subscription: Subscription) -> bool:
        """Tell the pump that something came. True: there is none any more."""
        try:
            item = await self._table.update(
                *self._keys(subscription),
                put={},
                add={"wakes": 1},
                condition="#created_ms = :created",
                values={"created": subscription.created_ms},
                returning="ALL_NEW",
            )
        except ConditionNotMetError:
            return False
        return "pump" not in item or number(item, "pump_until_ms") < to_millis(self._clock.now())

    async def release(
        self, subscription: Subscription, owner: str, state: JsonObject, *, though_woken: bool = False
    ) -> int | None:
        """Give the pump's place up, standing where `state` says, unless somebody woke it meanwhile.

        Args:
            though_woken: Give it up all the same; the next wake finds the rest.

        Returns:
            None: it is given up, or somebody else's. A number: the count of wakes; look again.
        """
        held = "#created_ms = :created AND #pump = :pump"
        values: dict[str, Value] = {"created": subscription.created_ms, "pump": owner}
        if not though_woken:
            held += " AND #wakes = :wakes"
            values["wakes"] = subscription.wakes
        try:
            await self._table.update(
                *self._keys(subscription),
                put={"state": json.dumps(state)},
                remove=("pump", "pump_until_ms"),
                condition=held,
                values=values,
            )
        except ConditionNotMetError as error:
            if error.item is None or text(error.item, "pump") != owner:
                return None
            return number(error.item, "wakes")
        return None

    async def forget(self, subscription: Subscription) -> None:
        """Delete a subscription of a connection that is gone, unless it was made anew meanwhile (field case F111)."""
        try:
            await self._table.delete(
                *self._keys(subscription),
                condition="#created_ms = :created",
                values={"created": subscription.created_ms},
            )
        except ConditionNotMetError:
            return

    def _keys(self, subscription: Subscription) -> tuple[str, str]:
        return keys.partition_key(subscription.key), subscription.sort_key


def _subscription(key: SessionKey, item: Item) -> Subscription:
    from perdure.aws.holders import read_holder

    connection_id, _, name = text(item, "sk").removeprefix(_PREFIX).partition("#")
    return Subscription(
        key=key,
        connection_id=connection_id,
        name=name,
        created_ms=number(item, "created_ms"),
        kind=text(item, "kind"),
        state=json.loads(text(item, "state")),
        holder=read_holder(text(item, "holder")),
        ends_at=from_millis(number(item, "ends_ms")),
        wakes=number(item, "wakes"),
    )


def _suffix(name: str) -> str:
    return f"#{name}" if name else ""


def _named(sort_key: str) -> tuple[SessionKey, str]:
    tenant, session_id, *name = sort_key.split("#")
    return keys.session_key(f"{tenant}#{session_id}"), name[0] if name else ""


def _connection(connection_id: str) -> str:
    return f"#connection#{connection_id}"  # two `#`: never a session's partition


def _ttl(moment: datetime) -> int:
    return to_millis(moment) // 1000
