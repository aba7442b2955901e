"""Leases: one item per step, `LEASE#<step>`, which outlives the step by 7 days.

An item past its TTL counts as absent, whether or not the service has deleted it yet (field case F097). By then its
step's budget of 30 minutes is long spent, so nobody expects the attempt any more.
"""

from __future__ import annotations

from datetime import datetime

from perdure.aws import keys
from perdure.aws.limits import LEASE_ITEM_TTL
from perdure.aws.table import ConditionNotMetError, Item, Table, Value, flag, number, text
from perdure.core.checkpoints import check_checkpoint
from perdure.core.codec import from_millis, to_millis
from perdure.core.limits import LEASE_GRACE
from perdure.ports import Clock, Lease, RevokeResult, SessionKey

_HELD = "#attempt = :attempt AND #owner = :owner AND #revoked = :no"
_NOT_HELD = "attribute_not_exists(#sk) OR #attempt < :attempt OR #ttl <= :now"


class DynamoDBLeases:
    """`Leases` on the sessions table."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def claim(self, key: SessionKey, step_id: str, attempt: int, owner: str, expires_at: datetime) -> bool:
        """Claim an attempt. False: it, or a later one, was claimed or revoked before.

        A claim of the same owner whose answer was lost is recognised and holds.
        """
        try:
            await self._take(key, step_id, attempt, expires_at, owner=owner)
        except ConditionNotMetError as held:
            return held.item is not None and _is_held_by(held.item, attempt, owner)
        return True

    async def renew(self, key: SessionKey, step_id: str, attempt: int, owner: str, expires_at: datetime) -> bool:
        """Move the expiry of a claim. False: the attempt was revoked or replaced, so the work must stop."""
        try:
            await self._table.update(
                keys.partition_key(key),
                keys.lease_key(step_id),
                put={"expires_at": to_millis(expires_at), "ttl": _ttl(expires_at)},
                condition=_HELD,
                values={"attempt": attempt, "owner": owner, "no": False},
            )
        except ConditionNotMetError:
            return False
        return True

    async def revoke(self, key: SessionKey, step_id: str, attempt: int, now: datetime) -> RevokeResult:
        """Make sure that an attempt never runs (again), if nobody holds it.

        Two conditional writes: one that holds only if nobody has claimed the attempt, and, when somebody has, one
        that holds only if exactly that claim has expired `LEASE_GRACE` ago.
        """
        try:
            await self._take(key, step_id, attempt, now, owner=None)
        except ConditionNotMetError as held:
            found = held.item
        else:
            return "unclaimed"

        while found is not None and not _is_given_up(found, attempt):
            if from_millis(number(found, "expires_at")) + LEASE_GRACE > now:
                return "alive"
            try:
                await self._table.update(
                    keys.partition_key(key),
                    keys.lease_key(step_id),
                    put={"revoked": True},
                    condition="#attempt = :attempt AND #owner = :owner AND #revoked = :no AND #expires_at = :expired",
                    values={
                        "attempt": attempt,
                        "owner": text(found, "owner"),
                        "no": False,
                        "expired": number(found, "expires_at"),
                    },
                )
            except ConditionNotMetError as changed:
                found = changed.item  # renewed, replaced, or revoked by another: look again
            else:
                return "claimed"
        # An item of a later attempt does not tell whether this one had been claimed; only a proof counts as one.
        unclaimed = found is not None and number(found, "attempt") == attempt and not flag(found, "claimed")
        return "unclaimed" if unclaimed else "claimed"

    async def save_checkpoint(self, key: SessionKey, step_id: str, attempt: int, owner: str, text: str) -> bool:
        """See `Leases.save_checkpoint`."""
        check_checkpoint(text)
        try:
            await self._table.update(
                keys.partition_key(key),
                keys.lease_key(step_id),
                put={"checkpoint": text},
                condition=_HELD,
                values={"attempt": attempt, "owner": owner, "no": False},
            )
        except ConditionNotMetError:
            return False
        return True

    async def read_lease(self, key: SessionKey, step_id: str) -> Lease | None:
        """Return a step's lease, strongly consistent."""
        item = await self._table.get(keys.partition_key(key), keys.lease_key(step_id), strong=True)
        if item is None or number(item, "ttl") <= self._seconds():
            return None
        return Lease(
            attempt=number(item, "attempt"),
            owner=text(item, "owner"),
            expires_at=from_millis(number(item, "expires_at")),
            claimed=flag(item, "claimed"),
            revoked=flag(item, "revoked"),
            checkpoint=text(item, "checkpoint") if "checkpoint" in item else None,
        )

    async def _take(
        self, key: SessionKey, step_id: str, attempt: int, expires_at: datetime, *, owner: str | None
    ) -> None:
        """Write a claim, or with no owner the revocation of an unclaimed attempt, if nobody has this or a later one.

        Raises:
            ConditionNotMetError: Somebody has; nothing was written.
        """
        place = {"pk": keys.partition_key(key), "sk": keys.lease_key(step_id)}
        lease: dict[str, Value] = {
            "attempt": attempt,
            "owner": owner or "",
            "expires_at": to_millis(expires_at),
            "claimed": owner is not None,
            "revoked": owner is None,
            "ttl": _ttl(expires_at),
        }
        now = self._seconds()
        if attempt == 1:
            await self._table.put(place | lease, condition=_NOT_HELD, values={"attempt": attempt, "now": now})
        else:  # the checkpoint of an earlier attempt stays
            await self._table.update(place["pk"], place["sk"], put=lease, condition=_NOT_HELD, values={"now": now})

    def _seconds(self) -> int:
        return to_millis(self._clock.now()) // 1000


def _ttl(expires_at: datetime) -> int:
    return to_millis(expires_at + LEASE_ITEM_TTL) // 1000


def _is_held_by(item: Item, attempt: int, owner: str) -> bool:
    return number(item, "attempt") == attempt and text(item, "owner") == owner and not flag(item, "revoked")


def _is_given_up(item: Item, attempt: int) -> bool:
    return number(item, "attempt") > attempt or flag(item, "revoked")
