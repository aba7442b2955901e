"""How far each sink has come in each session, `SINK#<name>` beside the session, and who delivers to it from there now.

One delivery at a time, by a conditional write. `wakes` counts the words that something was committed since it began; a
delivery gives its place up only while the count is what it has seen, so no word falls between its last look and its
end. Should it die, whoever left it the first word comes again when its lease has ended.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from perdure.aws import keys
from perdure.aws.table import ConditionNotMetError, Item, Table, Value, number, text
from perdure.core.codec import from_millis, to_millis
from perdure.ports import Clock, SessionKey
from perdure.sink_delivery import Place
from perdure.sinks import EventSink

PUMP_LEASE = timedelta(seconds=330)
"""How long a delivery holds its place: longer than its function can run, and shorter than a message is hidden, so that
the place of one that died is free when its message comes again (ours; template.yaml has 300 and 360 s)."""

AFTER_LEASE = timedelta(seconds=5)
"""How long after a lease somebody looks whether it was given up: more than the clocks of two hosts differ (ours)."""

BEGINS_BEFORE = timedelta(minutes=1)
"""How much older than the first commit that was told of a new sink's first events may be: the first words of several
commits come in any order (ours)."""

_FREE = "(attribute_not_exists(#pump) OR #pump = :pump OR #pump_until_ms < :now)"
_DUE = "(attribute_not_exists(#retry_at_ms) OR #retry_at_ms <= :now OR #failures = :retry)"


class LostPlaceError(Exception):
    """Another delivery has the place: this one took longer than its lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A place that this delivery holds.

    Attributes:
        place: None: the sink was never in this session.
        failing_since: The delivery from there has failed since then.
        failures: How often in a row it has.
        died: The last of these failures was the end of a process.
        wakes: How often somebody said that something was committed.
    """

    key: SessionKey
    sink: EventSink
    owner: str
    place: Place | None
    failing_since: datetime | None = None
    failures: int = 0
    died: bool = False
    wakes: int = 0


class DynamoDBSinkPlaces:
    """The places of all sinks of a deployment."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._begun: dict[str, datetime] = {}

    async def begins_at(self, sink: EventSink, told_at: datetime) -> datetime:
        """Return from when on a sink has events; the first that asks makes it begin with the commit it was told of."""
        if sink.name not in self._begun:
            begins = to_millis(told_at - BEGINS_BEFORE)
            place = {"pk": f"#sink#{sink.name}", "sk": "SINK"}  # two `#`: never a session's partition
            if not await self._table.put_once({**place, "begins_at_ms": begins}):
                item = await self._table.get(place["pk"], place["sk"], strong=True)
                begins = number(item or {}, "begins_at_ms")
            self._begun[sink.name] = from_millis(begins)
        return self._begun[sink.name]

    async def take(self, key: SessionKey, sink: EventSink, owner: str, *, retry: int | None) -> Held | datetime | None:
        """Take a place to deliver from it.

        Args:
            retry: How often the delivery from there has failed, if this is the try again after the last time: its own
                clock may think that it is too early. Any other try before its time is left to that one.

        Returns:
            None: whoever has the place will see that it was woken; or the sink failed, and is tried again later.
            A time: the same, and it is to be tried again then, because whoever has the place may have died.
        """
        while True:
            try:
                return await self._take(key, sink, owner, retry or 0)
            except ConditionNotMetError as error:
                held = error.item or {}
            if "pump" not in held and number(held, "retry_at_ms") > to_millis(self._clock.now()):
                return None
            woken = await self._wake(key, sink, text(held, "pump"))
            if woken is not None:
                until = from_millis(number(woken, "pump_until_ms"))
                return until + AFTER_LEASE if number(woken, "wakes") == 1 else None

    async def keep(self, held: Held, place: Place) -> None:
        """Keep where the sink is now, before the next delivery.

        Raises:
            LostPlaceError: Somebody else has it.
        """
        await self._write(held, _fields(place), _gone(place, "failures", "retry_at_ms"))

    async def release(self, held: Held, place: Place) -> int | None:
        """Give a place up, unless somebody woke it meanwhile.

        Returns:
            None: it is given up, or somebody else's. A number: the count of wakes; look again.
        """
        try:
            await self._table.update(
                *_keys(held.key, held.sink),
                put=_fields(place),
                remove=_gone(place, "pump", "pump_until_ms", "failures", "retry_at_ms"),
                condition="#pump = :pump AND #wakes = :wakes",
                values={"pump": held.owner, "wakes": held.wakes},
            )
        except ConditionNotMetError as error:
            if error.item is None or text(error.item, "pump") != held.owner:
                return None
            return number(error.item, "wakes")
        return None

    async def leave(self, held: Held, place: Place | None, *, failures: int, retry_at: datetime) -> None:
        """Give a place up to the message that has been sent for then, whoever woke it meanwhile."""
        fields = _fields(place) if place else {}
        gone = _gone(place, "pump", "pump_until_ms") if place else ("pump", "pump_until_ms")
        with contextlib.suppress(LostPlaceError):  # it was held for longer than its lease
            await self._write(held, {**fields, "failures": failures, "retry_at_ms": to_millis(retry_at)}, gone)

    async def _take(self, key: SessionKey, sink: EventSink, owner: str, retry: int) -> Held:
        now = self._clock.now()
        before = await self._table.update(
            *_keys(key, sink),
            put={"pump": owner, "pump_until_ms": to_millis(now + PUMP_LEASE), "wakes": 0},
            condition=f"{_FREE} AND {_DUE}",
            values={"now": to_millis(now), "retry": retry},
            returning="ALL_OLD",
        )
        held = Held(
            key=key,
            sink=sink,
            owner=owner,
            place=_place(before),
            failing_since=_failing_since(before),
            failures=number(before, "failures"),
        )
        died = text(before, "pump") not in ("", owner)
        return await self._with_a_death(held, now) if died else held

    async def _with_a_death(self, held: Held, now: datetime) -> Held:
        """Count a process that never gave the place up as a failure of the delivery from there: it may be its cause."""
        since = held.failing_since or now
        place = replace(held.place, failing_since=since) if held.place else None
        marked = replace(held, place=place, failing_since=since, failures=held.failures + 1, died=True)
        await self._write(marked, {"failures": marked.failures, "failing_since_ms": to_millis(since)}, ())
        return marked

    async def _write(self, held: Held, put: dict[str, Value], remove: tuple[str, ...]) -> None:
        try:
            await self._table.update(
                *_keys(held.key, held.sink),
                put=put,
                remove=remove,
                condition="#pump = :pump",
                values={"pump": held.owner},
            )
        except ConditionNotMetError:
            raise LostPlaceError from None

    async def _wake(self, key: SessionKey, sink: EventSink, pump: str) -> Item | None:
        """Leave a word with whoever has the place. None: it is somebody else's, or nobody's, by now."""
        try:
            return await self._table.update(
                *_keys(key, sink),
                put={},
                add={"wakes": 1},
                condition="#pump = :pump",
                values={"pump": pump},
                returning="ALL_NEW",
            )
        except ConditionNotMetError:
            return None


def _keys(key: SessionKey, sink: EventSink) -> tuple[str, str]:
    return keys.partition_key(key), keys.sink_key(sink.name)


def _fields(place: Place) -> dict[str, Value]:
    since = {"failing_since_ms": to_millis(place.failing_since)} if place.failing_since else {}
    return {"version": place.version, "event_index": place.index, **since}


def _gone(place: Place, *names: str) -> tuple[str, ...]:
    return names if place.failing_since else (*names, "failing_since_ms")


def _place(item: Item) -> Place | None:
    if "version" not in item:
        return None
    return Place(version=number(item, "version"), index=number(item, "event_index"), failing_since=_failing_since(item))


def _failing_since(item: Item) -> datetime | None:
    return from_millis(number(item, "failing_since_ms")) if "failing_since_ms" in item else None
