"""Slots against a reference that goes through every minute of some days around a change of clocks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.calendar import Recurrence, first_slot, slots_between

MINUTE = timedelta(minutes=1)
DAYS = 4
WINDOWS = [
    ("Europe/Berlin", datetime(2026, 3, 27, 22, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 23, 22, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 7, 30, 10, tzinfo=UTC)),  # no change, and the end of a month
    ("America/New_York", datetime(2026, 3, 7, 3, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 10, 31, 3, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 2, 14, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 3, 14, tzinfo=UTC)),
    ("Africa/Cairo", datetime(2026, 4, 22, 20, tzinfo=UTC)),  # midnight is missing
    ("Africa/Cairo", datetime(2026, 10, 28, 20, tzinfo=UTC)),  # an hour before midnight comes twice
    ("America/Goose_Bay", datetime(2010, 11, 5, 3, tzinfo=UTC)),  # midnight comes twice
    ("Pacific/Apia", datetime(2011, 12, 28, 8, tzinfo=UTC)),  # a day is missing
    ("Asia/Kathmandu", datetime(2028, 2, 27, 18, tzinfo=UTC)),
    ("UTC", datetime(2026, 12, 30, tzinfo=UTC)),
]


@dataclass(frozen=True)
class Minute:
    at: datetime
    local: datetime
    is_second: bool
    missing: tuple[datetime, ...]
    """Local minutes that were left out right before this one."""


@cache
def minutes_of(zone: str, start: datetime) -> list[Minute]:
    """Return the minutes of a window, each as its zone's wall clock shows it."""
    found: list[Minute] = []
    seen: set[datetime] = set()
    before: datetime | None = None
    for number in range(-24 * 60, DAYS * 24 * 60):
        at = start + number * MINUTE
        local = at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        missing = []
        while before is not None and before + MINUTE < local:
            before += MINUTE
            missing.append(before)
        found.append(Minute(at, local, local in seen, tuple(missing)))
        seen.add(local)
        before = local
    return found[24 * 60 :]


@dataclass(frozen=True)
class Field:
    text: str
    values: frozenset[int]

    @property
    def has_star(self) -> bool:
        return self.text.startswith("*")


@st.composite
def fields(draw: st.DrawFn, lowest: int, highest: int, likely: tuple[int, ...] = ()) -> Field:
    everything = range(lowest, highest + 1)
    value = st.sampled_from(likely) | st.integers(lowest, highest) if likely else st.integers(lowest, highest)
    kind = draw(st.sampled_from(["*", "*/n", "values", "values", "range"]))
    if kind == "*":
        return Field("*", frozenset(everything))
    if kind == "*/n":
        step = draw(st.integers(1, highest))
        return Field(f"*/{step}", frozenset(everything[::step]))
    if kind == "values":
        values = draw(st.lists(value, min_size=1, max_size=3))
        return Field(",".join(map(str, values)), frozenset(values))
    first, last = sorted((draw(value), draw(value)))
    step = draw(st.integers(1, 4))
    return Field(f"{first}-{last}/{step}", frozenset(range(first, last + 1, step)))


crons = st.tuples(
    fields(0, 59, (0, 1, 15, 29, 30, 59)),
    fields(0, 23, (0, 1, 2, 3, 23)),
    st.just(Field("*", frozenset(range(1, 32)))) | fields(1, 31, (1, 29, 30, 31)),
    st.just(Field("*", frozenset(range(1, 13)))) | fields(1, 12, (2, 3, 4, 10, 11, 12)),
    st.just(Field("*", frozenset(range(7)))) | fields(0, 6),
)


def reference(cron: tuple[Field, ...], minutes: list[Minute]) -> list[datetime]:
    minute, hour, day, month, weekday = cron
    full_days = len(day.values) == 31
    full_week = len(weekday.values) == 7
    is_hourly = len(hour.values) == 24
    fires_twice = is_hourly or minute.has_star or len(minute.values) == 60

    def names(local: datetime) -> bool:
        in_month = local.day in day.values
        in_week = local.isoweekday() % 7 in weekday.values
        free = day.has_star or full_days or weekday.has_star or full_week
        return (
            local.minute in minute.values
            and local.hour in hour.values
            and local.month in month.values
            and ((in_month and in_week) if free else (in_month or in_week))
        )

    return [
        each.at
        for each in minutes
        if (names(each.local) and (fires_twice or not each.is_second))
        or (not is_hourly and any(names(local) for local in each.missing))
    ]


@settings(deadline=None)
@given(cron=crons, window=st.sampled_from(WINDOWS))
def test_slots_are_those_of_a_clock_that_is_looked_at_every_minute(
    cron: tuple[Field, ...], window: tuple[str, datetime]
) -> None:
    zone, start = window
    recurrence = Recurrence(cron=" ".join(field.text for field in cron), time_zone=zone, anchor=start - MINUTE)
    end = start + timedelta(days=DAYS) - MINUTE

    expected = reference(cron, minutes_of(zone, start))

    found: list[datetime] = []
    slot = first_slot(recurrence, start - MINUTE)
    while slot is not None and slot <= end and len(found) < 100:
        found.append(slot)
        slot = first_slot(recurrence, slot)
    assert found == expected[:100]
    assert slots_between(recurrence, start - MINUTE, end) == len(expected)


@settings(deadline=None)
@given(cron=crons, window=st.sampled_from(WINDOWS), cuts=st.tuples(st.integers(0, DAYS * 1440), st.integers(0, 59)))
def test_counts_of_two_stretches_add_up_and_the_next_slot_is_the_first_counted(
    cron: tuple[Field, ...], window: tuple[str, datetime], cuts: tuple[int, int]
) -> None:
    zone, start = window
    recurrence = Recurrence(cron=" ".join(field.text for field in cron), time_zone=zone, anchor=start - MINUTE)
    end = start + timedelta(days=DAYS)
    cut = start + timedelta(minutes=cuts[0], seconds=cuts[1])

    before, after = slots_between(recurrence, start, cut), slots_between(recurrence, cut, end)

    assert before + after == slots_between(recurrence, start, end)
    following = first_slot(recurrence, cut)
    assert (following is not None and following <= end) == (after > 0)
    if following is not None:
        assert slots_between(recurrence, cut, following) == 1
