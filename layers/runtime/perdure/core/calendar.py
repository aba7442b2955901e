"""When something happens: at an instant, after a while, or every so often by a zone's wall clock (SCHD-01).

`every` is a cron expression (`cron`) or an interval. An interval is a fixed length of real time from its anchor,
whatever clocks do. A cron expression is read on the wall clock of its zone, and when that is changed:

- In spring some local times are missing. For all of its times that are, a cron fires once, at the first instant after
  the gap: `30 2 * * *` in Berlin fires at 03:00 on that day, and the next day at 02:30 again. Only a cron that names
  every hour has nothing to make up for: it just goes on, `15 * * * *` at 03:15.
- In autumn some local times come twice. A cron fires at the first of the two only, unless its minute begins with `*` or
  it names every hour: then it fires at both, so that `*/15 1-4 * * *` keeps to every fifteen real minutes.

So a cron that names its time fires on each day that it names, exactly once. The next slot is always computed in the
zone, never by adding 24 hours. Zones come from the IANA database of the system, else of the package `tzdata`; a new
edition of it moves future slots.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Any

from perdure.core.codec import format_time
from perdure.core.cron import Cron, parse_cron
from perdure.errors import InvalidRequestError

MIN_INTERVAL = timedelta(minutes=1)
"""Shortest interval of `every`, which is also the shortest that cron can say. Our own choice."""

MAX_INTERVAL = timedelta(days=365)
"""Longest interval of `every`, and longest `after`: the longest wait there is (spec WAIT-01)."""

MIN_AFTER = timedelta(seconds=1)
"""Shortest `after` (spec WAIT-01)."""

SEARCH_YEARS = 8
"""How far the next slot of a cron may lie ahead, and an `at`: from one 29 February to the next are eight years at most
(1896 to 1904, 2096 to 2104)."""

AT_TOLERANCE = timedelta(minutes=1)
"""An `at` that has passed by less than this is taken and due at once: clocks differ. Our own choice."""

_DAY = timedelta(days=1)
_NOON = time(12)
_LAST_DATE = date(9998, 12, 30)
"""Beyond it a zone could take a slot out of what `datetime` can hold."""
_FIRST = datetime(2, 1, 1, tzinfo=UTC)

_UNITS = {
    "weeks": timedelta(weeks=1),
    "days": _DAY,
    "hours": timedelta(hours=1),
    "minutes": timedelta(minutes=1),
    "seconds": timedelta(seconds=1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """An `every` that was checked when it was set. Exactly one of `cron` and `interval` is there.

    Attributes:
        cron: A five-field expression.
        interval: A whole number of seconds, from `MIN_INTERVAL` to `MAX_INTERVAL`.
        time_zone: The IANA name of the zone on whose wall clock `cron` is read; an interval only shows its times in it.
        anchor: When it was set. There is no slot at or before it.
    """

    cron: str | None = None
    interval: timedelta | None = None
    time_zone: str
    anchor: datetime

    def compact(self, data: dict[str, Any]) -> None:
        """JSON has no durations (`codec.encode`)."""
        if self.interval is not None:
            data["interval"] = self.interval // _UNITS["seconds"]

    @classmethod
    def expand(cls, data: dict[str, Any]) -> None:
        if data.get("interval") is not None:
            data["interval"] = timedelta(seconds=data["interval"])


# --- what was asked for ------------------------------------------------------------------------------------------


def parse_when(value: Mapping[str, Any], *, now: datetime) -> datetime | Recurrence:
    """Read what somebody asked for: exactly one of `at`, `after` and `every`.

    Args:
        value: `{"at": "2026-12-24T18:00:00+01:00"}`; or without an offset and with a `time_zone`.
            `{"after": {"hours": 2}}`: units are weeks, days, hours, minutes and seconds, and add up.
            `{"every": "0 9 * * mon-fri", "time_zone": "Europe/Berlin"}`, or `{"every": {"minutes": 90}, …}`.

    Returns:
        The one instant, which may be up to `AT_TOLERANCE` before `now`; or a recurrence with a slot ahead.

    Raises:
        InvalidRequestError: It is none, or never; says what is wrong and what to write.
    """
    modes = [name for name in ("at", "after", "every") if value.get(name) is not None]
    if len(modes) != 1:
        found = f"{' and '.join(modes)} are" if modes else "none is"
        raise InvalidRequestError(f"give exactly one of at, after and every: {found} there")
    unknown = sorted(set(value) - {"at", "after", "every", "time_zone"})
    if unknown:
        raise InvalidRequestError(f"{unknown[0]!r} is unknown here: use at, after or every, and time_zone")
    (mode,) = modes
    zone = value.get("time_zone")
    if zone is not None and not isinstance(zone, str):
        raise InvalidRequestError(f"time_zone is {zone!r}: give a name such as 'Europe/Berlin'")
    if mode == "at":
        return _parse_at(value["at"], zone, now)
    if zone is None and mode == "every":
        raise InvalidRequestError("every needs a time_zone: give an IANA name such as 'Europe/Berlin', or 'UTC'")
    if zone is not None:
        zone_of(zone)
    if mode == "after":
        wait = parse_duration(value["after"], "after")
        _check_length(wait, "after", MIN_AFTER)
        return now + wait
    assert zone is not None, "every has one"
    return parse_every(value["every"], time_zone=zone, now=now)


def parse_every(value: Any, *, time_zone: str, now: datetime) -> Recurrence:
    """Read a cron expression or an interval, anchored now.

    Raises:
        InvalidRequestError: It is neither, out of its limits, or never fires; or the zone is unknown.
    """
    zone_of(time_zone)
    if isinstance(value, str):
        recurrence = Recurrence(cron=" ".join(value.split()), time_zone=time_zone, anchor=now)
        parse_cron(value)
        if first_slot(recurrence, now) is None:
            raise InvalidRequestError(
                f"cron expression {recurrence.cron!r} names no day within {SEARCH_YEARS} years: check its day of month "
                "and month"
            )
        return recurrence
    interval = parse_duration(value, "every")
    _check_length(interval, "every", MIN_INTERVAL)
    return Recurrence(interval=interval, time_zone=time_zone, anchor=now)


def parse_duration(value: Any, name: str) -> timedelta:
    """Read a duration such as `{"hours": 1, "minutes": 30}`: whole numbers, not negative, of one unit at least.

    Raises:
        InvalidRequestError: It is none.
    """
    example = f'write {name} as an object such as {{"minutes": 90}}'
    if not isinstance(value, Mapping) or not value:
        cron = ", or as a cron expression" if name == "every" else ""
        raise InvalidRequestError(f"{name} is {value!r}: {example}{cron}")
    total = timedelta(0)
    for unit, number in value.items():
        if unit not in _UNITS:
            raise InvalidRequestError(f"{name} has the unit {unit!r}: units are {', '.join(_UNITS)}")
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InvalidRequestError(f"{name} has {number!r} {unit}: {example}, in whole numbers")
        if number > MAX_INTERVAL // _UNITS[unit]:
            raise _too_long(name)
        total += number * _UNITS[unit]
    return total


def _check_length(duration: timedelta, name: str, least: timedelta) -> None:
    if duration < least:
        is_given, is_least = (f"{moment.total_seconds():.0f} s" for moment in (duration, least))
        raise InvalidRequestError(f"{name} is {is_given}: the shortest that there may be is {is_least}")
    if duration > MAX_INTERVAL:
        raise _too_long(name)


def _too_long(name: str) -> InvalidRequestError:
    return InvalidRequestError(f"{name} is longer than {MAX_INTERVAL.days} days, which are the most there may be")


def _parse_at(value: Any, zone: str | None, now: datetime) -> datetime:
    example = "write RFC 3339 such as '2026-12-24T18:00:00+01:00', or without an offset and with a time_zone"
    if not isinstance(value, str):
        raise InvalidRequestError(f"at is {value!r}: {example}")
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise InvalidRequestError(f"at is {value!r}: {example}") from error
    if moment.tzinfo is not None and zone is not None:
        raise InvalidRequestError(f"at is {value!r} and has an offset already: leave time_zone out")
    if moment.tzinfo is None and zone is None:
        raise InvalidRequestError(f"at is {value!r}, which is no instant without an offset: {example}")
    if not 2 <= moment.year <= _LAST_DATE.year:
        raise InvalidRequestError(f"at is {value!r}: no such year is possible here")
    if moment.tzinfo is None:
        assert zone is not None, "one of both is there"
        moment, *_ = _Wall(zone_of(zone)).instants(moment)
    moment = moment.astimezone(UTC)
    if moment < now - AT_TOLERANCE:
        raise InvalidRequestError(
            f"at is {format_time(moment)}, which has passed: it is {format_time(now)}, so give a later time"
        )
    if moment > now + SEARCH_YEARS * 366 * _DAY:
        raise InvalidRequestError(
            f"at is {format_time(moment)}, and {SEARCH_YEARS} years ahead are the most there may be"
        )
    return moment


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """Return a zone of the IANA database.

    Raises:
        InvalidRequestError: There is none of this name.
    """
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        # `localtime` and the like are files of some systems, and mean something else on each.
        if name.split("/", maxsplit=1)[0] in ("localtime", "posix", "posixrules", "right", "Factory", "SystemV"):
            raise ZoneInfoNotFoundError(name)
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidRequestError(
            f"time_zone {name!r} is unknown: give an IANA name such as 'Europe/Berlin', or 'UTC'"
        ) from error


# --- slots -------------------------------------------------------------------------------------------------------


def first_slot(recurrence: Recurrence, after: datetime) -> datetime | None:
    """Return the first slot strictly after an instant, in UTC; None when there is none within `SEARCH_YEARS`."""
    after = max(after, recurrence.anchor, _FIRST)
    if after.year > _LAST_DATE.year:
        return None
    if recurrence.interval is not None:
        passed = (after - recurrence.anchor) // recurrence.interval
        return (recurrence.anchor + (passed + 1) * recurrence.interval).astimezone(UTC)
    cron, wall = _read(recurrence)
    start = after.astimezone(wall.zone).date() - _DAY  # an hour that comes twice may be of the day before
    for day in _days(cron, start, start + timedelta(days=SEARCH_YEARS * 366)):
        found = wall.first_of_day(cron, day, after)
        if found is None:
            continue
        if not wall.is_regular(day) and cron.names_day(day + _DAY):
            # Where midnight comes twice, the next day has begun before this one is over.
            other = wall.first_of_day(cron, day + _DAY, after)
            return found if other is None else min(found, other)
        return found
    return None


def slots_between(recurrence: Recurrence, after: datetime, until: datetime) -> int:
    """Return the number of slots after one instant and up to another, which is included."""
    after = max(after, recurrence.anchor, _FIRST)
    if until <= after:
        return 0
    if recurrence.interval is not None:
        return (until - recurrence.anchor) // recurrence.interval - (after - recurrence.anchor) // recurrence.interval
    cron, wall = _read(recurrence)
    first, last = (min(moment.year, _LAST_DATE.year + 1) for moment in (after, until))
    if first > _LAST_DATE.year:
        return 0
    end = _LAST_DATE if last > _LAST_DATE.year else until.astimezone(wall.zone).date() + _DAY
    count = 0
    for day in _days(cron, after.astimezone(wall.zone).date() - _DAY, end):
        if wall.is_regular(day) and wall.begin(day) > after and wall.begin(day + _DAY) <= until:
            count += cron.times_a_day
        else:
            slots = _slots_of_day(cron, wall.zone, day)
            count += bisect_right(slots, until) - bisect_right(slots, after)
    return count


def is_shifted(recurrence: Recurrence, slot: datetime) -> bool:
    """Whether a slot stands for local times that were missing when clocks were put forward (field case F140).

    A time that is none of its slots, as one that a person moved an occurrence to, does not.
    """
    if recurrence.cron is None:
        return False
    cron, wall = _read(recurrence)
    is_slot = first_slot(recurrence, slot - timedelta.resolution) == slot
    return is_slot and not wall.is_named(cron, slot)


def _read(recurrence: Recurrence) -> tuple[Cron, _Wall]:
    assert recurrence.cron is not None, "it is one of both"
    return parse_cron(recurrence.cron), _Wall(zone_of(recurrence.time_zone))


def _days(cron: Cron, first: date, last: date) -> Iterator[date]:
    """Yield the days that a cron names, both ends included."""
    day, last = first, min(last, _LAST_DATE)
    while day <= last:
        if day.month not in cron.month.values:
            day = date(day.year + day.month // 12, day.month % 12 + 1, 1)
            continue
        if cron.names_day(day):
            yield day
        day += _DAY


@lru_cache(maxsize=64)
def _times(cron: Cron) -> tuple[time, ...]:
    return tuple(cron.times())


class _Wall:
    """The wall clock of a zone."""

    def __init__(self, zone: tzinfo) -> None:
        self.zone = zone

    def offsets(self, local: datetime) -> tuple[timedelta, timedelta]:
        """Return the offsets before and after the change that makes a local time missing or double; else equal ones."""
        before = local.replace(tzinfo=self.zone, fold=0).utcoffset()
        after = local.replace(tzinfo=self.zone, fold=1).utcoffset()
        assert before is not None, "a zone has an offset at any time"
        assert after is not None, "a zone has an offset at any time"
        return before, after

    def instants(self, local: datetime) -> list[datetime]:
        """Return when a local time comes: once, twice, or the first instant after the gap that swallowed it."""
        before, after = self.offsets(local)
        as_utc = local.replace(tzinfo=UTC)
        if before == after:
            return [as_utc - before]
        if before > after:
            return [as_utc - before, as_utc - after]
        return [self._change(as_utc - after, as_utc - before, after)]

    def _change(self, low: datetime, high: datetime, offset: timedelta) -> datetime:
        """Return the first instant of an offset that holds at `high` and not at `low`; changes are at whole seconds."""
        while high - low > _UNITS["seconds"]:
            middle = low + (high - low) // _UNITS["seconds"] // 2 * _UNITS["seconds"]
            if middle.astimezone(self.zone).utcoffset() == offset:
                high = middle
            else:
                low = middle
        return high

    def is_regular(self, day: date) -> bool:
        """Whether every time of a day comes exactly once, with one offset: any but some two days a year."""
        ends = datetime.combine(day, time()), datetime.combine(day, _NOON), datetime.combine(day + _DAY, time())
        return len({offset for local in ends for offset in self.offsets(local)}) == 1

    def begin(self, day: date) -> datetime:
        return self.instants(datetime.combine(day, time()))[0]

    def first_of_day(self, cron: Cron, day: date, after: datetime) -> datetime | None:
        """Return the first slot of a day after an instant."""
        if self.is_regular(day):
            offset, _ = self.offsets(datetime.combine(day, time()))
            times, local = _times(cron), after.astimezone(UTC).replace(tzinfo=None) + offset
            index = bisect_right(times, local.time()) if local.date() == day else 0
            if index == len(times) or local.date() > day:
                return None
            return datetime.combine(day, times[index], UTC) - offset
        slots = _slots_of_day(cron, self.zone, day)
        index = bisect_right(slots, after)
        return slots[index] if index < len(slots) else None

    def is_named(self, cron: Cron, instant: datetime) -> bool:
        """Whether the clock shows one of a cron's times."""
        local = instant.astimezone(self.zone)
        return cron.names_day(local.date()) and cron.names_time(local.time())


@lru_cache(maxsize=16)
def _slots_of_day(cron: Cron, zone: tzinfo, day: date) -> list[datetime]:
    """Return the slots that the times of a day stand for, in order. Each slot belongs to one day only."""
    wall = _Wall(zone)
    slots: set[datetime] = set()
    for moment in _times(cron):
        local = datetime.combine(day, moment)
        before, after = wall.offsets(local)
        instants = wall.instants(local)
        if before > after and not (cron.minute.is_wildcard or cron.is_hourly):
            instants = instants[:1]
        elif before < after and (cron.is_hourly or wall.is_named(cron, instants[0])):
            continue
        slots.update(instants)
    return sorted(slots)
