"""Five-field cron expressions: which minutes, hours, days, months and weekdays they name. Without time zones.

`minute hour day-of-month month day-of-week`, for example `30 8 * * mon-fri`. A field is `*`, a value, a range `a-b`,
`*` or a range with a step (`*/15`, `9-17/2`), or a list of these with commas. Months and weekdays also have their
English names of three letters, in any case; Sunday is 0 and 7.

Days follow the rule of crontab(5): when day-of-month and day-of-week are both restricted, a day that matches *either*
is named; else a day has to match both. A field is restricted unless it begins with `*` or names every value.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, time
from functools import lru_cache

from perdure.errors import InvalidRequestError

MAX_CRON_CHARACTERS = 200
"""Longest expression, in characters. Our own choice: minutes as a list of sixty values take 169."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_SUNDAY = 7
_HOURS = 24


@dataclass(frozen=True, slots=True)
class CronField:
    """One field: the values that it names, in order.

    `is_wildcard`: it begins with `*` or names every value there is. That decides the rule for days, and with the minute
    what happens when clocks are put back (`calendar`).
    """

    values: tuple[int, ...]
    is_wildcard: bool


@dataclass(frozen=True, slots=True)
class Cron:
    """An expression that was read."""

    minute: CronField
    hour: CronField
    day_of_month: CronField
    month: CronField
    day_of_week: CronField

    @property
    def is_hourly(self) -> bool:
        """Whether it names every hour."""
        return len(self.hour.values) == _HOURS

    @property
    def times_a_day(self) -> int:
        return len(self.minute.values) * len(self.hour.values)

    def times(self) -> list[time]:
        """Return its times of a day, in order."""
        return [time(hour, minute) for hour in self.hour.values for minute in self.minute.values]

    def names_day(self, day: date) -> bool:
        if day.month not in self.month.values:
            return False
        in_month = day.day in self.day_of_month.values
        in_week = day.isoweekday() % _SUNDAY in self.day_of_week.values
        if self.day_of_month.is_wildcard or self.day_of_week.is_wildcard:
            return in_month and in_week
        return in_month or in_week

    def names_time(self, moment: time) -> bool:
        """Whether a time of day is one of its minutes, to the microsecond."""
        return (
            moment.minute in self.minute.values
            and moment.hour in self.hour.values
            and (moment.second, moment.microsecond) == (0, 0)
        )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a field stands, and what may stand there."""

    number: int
    name: str
    lowest: int
    highest: int
    names: tuple[str, ...] = ()

    def wrong(self, text: str, what: str) -> InvalidRequestError:
        return InvalidRequestError(f"cron field {self.number} ({self.name}) is {text!r}: {what}")


_PLACES = (
    _Place(1, "minute", 0, 59),
    _Place(2, "hour", 0, 23),
    _Place(3, "day of month", 1, 31),
    _Place(4, "month", 1, 12, _MONTHS),
    _Place(5, "day of week", 0, _SUNDAY, _WEEKDAYS),
)


@lru_cache(maxsize=256)
def parse_cron(text: str) -> Cron:
    """Read a five-field expression. Whether it ever fires depends on the calendar and is not looked at here.

    Raises:
        InvalidRequestError: It is none; says which field is wrong, why, and what to write instead.
    """
    if len(text) > MAX_CRON_CHARACTERS:
        raise InvalidRequestError(
            f"the cron expression has {len(text)} characters, and {MAX_CRON_CHARACTERS} are the most there may be: "
            "use ranges and steps"
        )
    fields = text.split()
    if len(fields) != len(_PLACES):
        raise InvalidRequestError(
            f"cron expression {text!r} has not five fields but {len(fields)}: write minute, hour, day of month, month "
            "and day of week, such as '0 9 * * mon-fri' for nine o'clock on working days"
        )
    return Cron(*(_field(place, field) for place, field in zip(_PLACES, fields, strict=True)))


def _field(place: _Place, text: str) -> CronField:
    values: set[int] = set()
    for item in text.split(","):
        values.update(_item(place, text, item))
    if place.highest == _SUNDAY and _SUNDAY in values:
        values = (values - {_SUNDAY}) | {0}
    highest = place.highest - 1 if place.highest == _SUNDAY else place.highest
    everything = len(values) == highest - place.lowest + 1
    return CronField(tuple(sorted(values)), is_wildcard=text.startswith("*") or everything)


def _item(place: _Place, text: str, item: str) -> range:
    base, slash, step_text = item.partition("/")
    step = 1
    if slash:
        if not _is_number(step_text) or not 1 <= int(step_text) <= place.highest:
            raise place.wrong(text, f"the step after '/' is a whole number from 1 to {place.highest}")
        step = int(step_text)
    if base == "*":
        # Sunday has two numbers, and a step of two from 0 must not reach it by the second one.
        return range(place.lowest, place.highest + (0 if place.highest == _SUNDAY else 1), step)
    first_text, dash, last_text = base.partition("-")
    first = _value(place, text, first_text)
    if not dash:
        if slash:
            raise place.wrong(text, f"a step needs a range: write {first_text}-{place.highest}/{step} or */{step}")
        return range(first, first + 1)
    last = _value(place, text, last_text)
    if place.highest == _SUNDAY and last == 0 and first > 0:
        last = _SUNDAY  # fri-sun
    if first > last:
        raise place.wrong(
            text,
            f"range {base} runs backwards: write two, {first_text}-{place.highest},{place.lowest}-{last_text}",
        )
    return range(first, last + 1, step)


def _value(place: _Place, text: str, item: str) -> int:
    if item.lower() in place.names:
        return place.names.index(item.lower()) + (1 if place.names is _MONTHS else 0)
    if not _is_number(item):
        names = f", names ({', '.join(place.names)})" if place.names else ""
        raise place.wrong(text, f"{item!r} is none of numbers{names}, *, ranges a-b, steps /n and lists a,b")
    if not place.lowest <= int(item) <= place.highest:
        raise place.wrong(text, f"{item} is out of range, values go from {place.lowest} to {place.highest}")
    return int(item)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 2  # no field has three digits
