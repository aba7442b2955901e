"""Slots of recurrences, over changes of clocks too, and what may be asked for."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from perdure.core.calendar import Recurrence, first_slot, is_shifted, parse_when, slots_between
from perdure.core.codec import decode, encode
from perdure.errors import InvalidRequestError

LONG_AGO = datetime(1990, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


def cron(text: str, zone: str = "UTC", *, anchor: datetime = LONG_AGO) -> Recurrence:
    return Recurrence(cron=text, time_zone=zone, anchor=anchor)


def local_slots(recurrence: Recurrence, after: str, until: str) -> list[str]:
    """Return the slots between two local times, as local times with their offset."""
    zone = ZoneInfo(recurrence.time_zone)
    start, end = (datetime.fromisoformat(local).replace(tzinfo=zone).astimezone(UTC) for local in (after, until))
    found: list[str] = []
    slot = first_slot(recurrence, start)
    while slot is not None and slot < end:
        found.append(slot.astimezone(zone).strftime("%m-%dT%H:%M%z"))
        slot = first_slot(recurrence, slot)
    return found


# --- when clocks are changed -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "after", "until", "slots"),
    [
        (
            "America/New_York",
            "2026-03-07T00:00",
            "2026-03-11T00:00",
            ["03-07T02:30-0500", "03-08T03:00-0400", "03-09T02:30-0400", "03-10T02:30-0400"],
        ),
        (
            "Europe/Berlin",
            "2026-03-28T00:00",
            "2026-03-31T00:00",
            ["03-28T02:30+0100", "03-29T03:00+0200", "03-30T02:30+0200"],
        ),
    ],
)
def test_f140_a_daily_time_that_is_missing_fires_at_the_first_instant_after_the_gap(
    zone: str, after: str, until: str, slots: list[str]
) -> None:
    daily = cron("30 2 * * *", zone)

    assert local_slots(daily, after, until) == slots
    assert [is_shifted(daily, datetime.strptime(f"2026-{slot}", "%Y-%m-%dT%H:%M%z")) for slot in slots] == [
        "T02" not in slot for slot in slots
    ]


@pytest.mark.parametrize(
    ("text", "zone", "day", "slots"),
    [
        # Spring: one slot for all that are missing, and none of its own where one is there anyway.
        ("*/20 2 * * *", "Europe/Berlin", "2026-03-29", ["03:00+0200"]),
        ("30 1,2,3 * * *", "Europe/Berlin", "2026-03-29", ["01:30+0100", "03:00+0200", "03:30+0200"]),
        ("0 2,3 * * *", "Europe/Berlin", "2026-03-29", ["03:00+0200"]),
        ("30 0-4/2 * * *", "Europe/Berlin", "2026-03-29", ["00:30+0100", "03:00+0200", "04:30+0200"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-04", ["02:30+1100"]),
        ("30 2 * * *", "Australia/Lord_Howe", "2026-10-04", ["02:30+1100"]),
        ("0 0 * * *", "Africa/Cairo", "2026-04-24", ["01:00+0300"]),  # midnight is missing
        # Autumn: once, unless the minute begins with * or every hour is named.
        ("30 2 * * *", "Europe/Berlin", "2026-10-25", ["02:30+0200"]),
        ("0,30 2 * * *", "Europe/Berlin", "2026-10-25", ["02:00+0200", "02:30+0200"]),
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-25", ["02:00+0200", "02:30+0200", "02:00+0100", "02:30+0100"]),
        ("30 0-4/2 * * *", "Europe/Berlin", "2026-10-25", ["00:30+0200", "02:30+0200", "04:30+0100"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-05", ["01:45+1100"]),
        ("15 1 * * *", "Australia/Lord_Howe", "2026-04-05", ["01:15+1100"]),
        ("*/15 1 * * *", "Australia/Lord_Howe", "2026-04-05", [
            "01:00+1100", "01:15+1100", "01:30+1100", "01:45+1100", "01:30+1030", "01:45+1030",
        ]),
        ("30 23 * * *", "Africa/Cairo", "2026-10-29", ["23:30+0300"]),  # back from midnight to 23:00
        ("30 1 * * *", "America/New_York", "2026-11-01", ["01:30-0400"]),
        # No change of clocks at all.
        ("15 2 * * *", "Asia/Kathmandu", "2026-03-29", ["02:15+0545"]),
        ("30 2 * * *", "UTC", "2026-03-29", ["02:30+0000"]),
    ],
)  # fmt: skip
def test_on_the_day_of_a_change_a_cron_that_names_its_hours_fires_once_for_each(
    text: str, zone: str, day: str, slots: list[str]
) -> None:
    until = (datetime.fromisoformat(day) + timedelta(days=1)).isoformat()
    before = (datetime.fromisoformat(day) - timedelta(seconds=1)).isoformat()

    found = local_slots(cron(text, zone), before, until)

    assert found == [f"{day[5:]}T{slot}" for slot in slots]


@pytest.mark.parametrize(
    ("text", "zone", "midnight"),
    [
        ("0 * * * *", "Europe/Berlin", utc(2026, 3, 28, 23)),
        ("15 * * * *", "Europe/Berlin", utc(2026, 3, 28, 23)),
        ("0 0-23 * * *", "Europe/Berlin", utc(2026, 10, 24, 22)),
        ("30 * * * *", "America/New_York", utc(2026, 11, 1, 4)),
        ("0 * * * *", "America/New_York", utc(2026, 3, 8, 5)),
    ],
)
def test_an_hourly_cron_fires_at_every_real_hour(text: str, zone: str, midnight: datetime) -> None:
    slots = [midnight]
    for _ in range(8):
        slots.append(first_slot(cron(text, zone), slots[-1]) or LONG_AGO)

    assert {late - early for early, late in pairwise(slots[1:])} == {timedelta(hours=1)}


def test_a_day_that_a_zone_left_out_is_made_up_for_at_the_next_midnight() -> None:
    # Samoa had no 30 December 2011.
    found = local_slots(cron("0 9 * * *", "Pacific/Apia"), "2011-12-29T00:00", "2012-01-01T00:00")

    assert found == ["12-29T09:00-1000", "12-31T00:00+1400", "12-31T09:00+1400"]


def test_a_slot_that_is_made_up_for_at_a_slot_of_the_next_day_counts_once() -> None:
    midnights = cron("0 0 * * *", "Pacific/Apia")

    assert slots_between(midnights, utc(2011, 12, 29, 12), utc(2011, 12, 31)) == 1
    assert local_slots(midnights, "2011-12-29T12:00", "2012-01-01T00:00") == ["12-31T00:00+1400"]


def test_slots_come_in_order_where_midnight_comes_twice() -> None:
    # In Goose Bay clocks went back from 00:01 to 23:01.
    every_minute = cron("* * * * *", "America/Goose_Bay")
    moment = utc(2010, 11, 7, 1)
    for _ in range(240):
        found = first_slot(every_minute, moment)
        assert found == moment + timedelta(minutes=1)
        moment = found


def test_a_time_that_somebody_moved_an_occurrence_to_is_not_shifted() -> None:
    assert not is_shifted(cron("30 2 * * *", "Europe/Berlin"), utc(2026, 3, 29, 1, 1))
    assert not is_shifted(cron("30 2 * * *", "Europe/Berlin"), utc(2026, 3, 30, 1))


# --- days --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "after", "slot"),
    [
        ("0 0 29 2 *", utc(2026, 5, 1), utc(2028, 2, 29)),
        ("0 0 29 2 *", utc(2096, 2, 29), utc(2104, 2, 29)),  # 2100 is no leap year
        ("0 0 31 * *", utc(2026, 3, 31), utc(2026, 5, 31)),
        ("59 23 31 12 *", utc(2026, 12, 31, 23, 59), utc(2027, 12, 31, 23, 59)),
        ("0 12 * * fri", utc(2026, 5, 1, 12), utc(2026, 5, 8, 12)),
        ("0 12 13 * fri", utc(2026, 5, 8, 12), utc(2026, 5, 13, 12)),
        ("30 9 * * mon-fri", utc(2026, 5, 1, 9, 30), utc(2026, 5, 4, 9, 30)),
        ("*/5 * * * *", utc(2026, 5, 1, 12, 4, 59, 999_999), utc(2026, 5, 1, 12, 5)),
        ("*/5 * * * *", utc(2026, 5, 1, 12, 5), utc(2026, 5, 1, 12, 10)),
    ],
)
def test_the_first_slot_lies_strictly_after_an_instant(text: str, after: datetime, slot: datetime) -> None:
    assert first_slot(cron(text), after) == slot


def test_no_slot_lies_at_or_before_the_anchor() -> None:
    recurrence = cron("0 12 * * *", anchor=utc(2026, 5, 1, 12))

    assert first_slot(recurrence, LONG_AGO) == utc(2026, 5, 2, 12)
    assert slots_between(recurrence, LONG_AGO, utc(2026, 5, 3, 12)) == 2


@pytest.mark.parametrize("after", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)], ids=str)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Adak"])
def test_the_ends_of_time_are_no_error(after: datetime, zone: str) -> None:
    recurrence = cron("0 12 * * *", zone, anchor=datetime.min.replace(tzinfo=UTC))

    found = first_slot(recurrence, after)

    assert found is None if after.year > 9000 else found is not None
    assert slots_between(recurrence, after, after) == 0


# --- intervals ---------------------------------------------------------------------------------------------------


def test_an_interval_is_real_time_from_its_anchor_whatever_clocks_do() -> None:
    anchor = utc(2026, 3, 28, 20, 0, 0, 250_000)
    recurrence = Recurrence(interval=timedelta(hours=12), time_zone="Europe/Berlin", anchor=anchor)

    found = local_slots(recurrence, "2026-03-28T21:30", "2026-03-30T00:00")

    assert found == ["03-29T10:00+0200", "03-29T22:00+0200"]
    assert first_slot(recurrence, anchor) == anchor + timedelta(hours=12)
    assert first_slot(recurrence, anchor + timedelta(hours=12)) == anchor + timedelta(hours=24)
    assert not is_shifted(recurrence, anchor + timedelta(hours=12))


@pytest.mark.parametrize(
    ("after", "until", "count"),
    [(0, 0, 0), (0, 89, 0), (0, 90, 1), (90, 90, 0), (89, 180, 2), (90, 180, 1), (200, 100, 0), (-500, 900, 10)],
)
def test_the_slots_of_an_interval_are_counted(after: int, until: int, count: int) -> None:
    recurrence = Recurrence(interval=timedelta(minutes=90), time_zone="UTC", anchor=NOW)

    assert slots_between(recurrence, NOW + timedelta(minutes=after), NOW + timedelta(minutes=until)) == count


def test_years_of_missed_slots_are_counted_without_going_through_them() -> None:
    assert slots_between(cron("* * * * *", "Europe/Berlin"), utc(2020, 1, 1), utc(2030, 1, 1)) == 3653 * 24 * 60


# --- what was asked for ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "when"),
    [
        ({"at": "2026-05-01T14:00:00+02:00"}, utc(2026, 5, 1, 12)),  # a moment ago
        ({"at": "2026-12-24T18:00:00Z"}, utc(2026, 12, 24, 18)),
        ({"at": "2026-12-24T18:00", "time_zone": "Europe/Berlin"}, utc(2026, 12, 24, 17)),
        ({"at": "2027-03-28T02:30", "time_zone": "Europe/Berlin"}, utc(2027, 3, 28, 1)),  # missing: after the gap
        ({"at": "2026-10-25T02:30", "time_zone": "Europe/Berlin"}, utc(2026, 10, 25, 0, 30)),  # the first of two
        ({"after": {"hours": 1, "minutes": 30}}, NOW + timedelta(minutes=90)),
        ({"after": {"seconds": 1}, "every": None}, NOW + timedelta(seconds=1)),
        ({"after": {"days": 365}, "time_zone": "UTC"}, NOW + timedelta(days=365)),
        (
            {"every": "  0  9 * * mon-fri", "time_zone": "Europe/Berlin"},
            Recurrence(cron="0 9 * * mon-fri", time_zone="Europe/Berlin", anchor=NOW),
        ),
        (
            {"every": {"minutes": 90}, "time_zone": "UTC"},
            Recurrence(interval=timedelta(minutes=90), time_zone="UTC", anchor=NOW),
        ),
    ],
    ids=str,
)
def test_exactly_one_of_at_after_and_every_is_read(value: dict[str, Any], when: datetime | Recurrence) -> None:
    # SCHD-01
    assert parse_when(value, now=NOW) == when


UTC_ZONE = {"time_zone": "UTC"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "give exactly one of at, after and every: none is there"),
        ({"at": "x", "every": "x"}, "give exactly one of at, after and every: at and every are there"),
        ({"after": {"hours": 1}, "zone": "UTC"}, "'zone' is unknown here: use at, after or every, and time_zone"),
        ({"at": "tomorrow"}, "at is 'tomorrow': write RFC 3339"),
        ({"at": 5}, "at is 5: write RFC 3339"),
        ({"at": "2026-12-24T18:00"}, "at is '2026-12-24T18:00', which is no instant without an offset"),
        ({"at": "2026-12-24T18:00Z", "time_zone": "UTC"}, "has an offset already: leave time_zone out"),
        ({"at": "2026-05-01T11:58:00Z"}, "which has passed: it is 2026-05-01T12:00:00.250Z, so give a later time"),
        ({"at": "2036-05-01T12:00:00Z"}, "at is 2036-05-01T12:00:00.000Z, and 8 years ahead are the most"),
        ({"at": "9999-12-31T23:59:59-10:00"}, "no such year is possible here"),
        ({"after": {"days": 365, "seconds": 1}}, "after is longer than 365 days, which are the most there may be"),
        ({"after": {"weeks": 10**30}}, "after is longer than 365 days"),
        ({"after": {"seconds": 0}}, "after is 0 s: the shortest that there may be is 1 s"),
        ({"after": {"hours": -1}}, "after has -1 hours: write after as an object"),
        ({"after": {"hours": True}}, "after has True hours"),
        ({"after": {"hours": 1.5}}, "after has 1.5 hours"),
        ({"after": {"fortnights": 1}}, "after has the unit 'fortnights': units are weeks, days, hours, minutes, s"),
        ({"after": {}}, 'after is {}: write after as an object such as {"minutes": 90}'),
        ({"after": 60}, "after is 60: write after as an object"),
        ({"every": "0 9 * * *"}, "every needs a time_zone: give an IANA name such as 'Europe/Berlin', or 'UTC'"),
        ({"every": {"seconds": 59}} | UTC_ZONE, "every is 59 s: the shortest that there may be is 60 s"),
        ({"every": {"days": 366}} | UTC_ZONE, "every is longer than 365 days"),
        ({"every": ["0 9 * * *"]} | UTC_ZONE, "every is ['0 9 * * *']: write every as an object such as"),
        ({"every": "0 25 * * *"} | UTC_ZONE, "cron field 2 (hour) is '25'"),
        ({"every": "0 0 30 2 *"} | UTC_ZONE, "cron expression '0 0 30 2 *' names no day within 8 years: check its day"),
        ({"every": "0 0 31 4,6,9,11 *"} | UTC_ZONE, "names no day within 8 years"),
        ({"every": "0 9 * * *", "time_zone": 5}, "time_zone is 5: give a name such as 'Europe/Berlin'"),
        ({"after": {"hours": 1}, "time_zone": "CET/Berlin"}, "time_zone 'CET/Berlin' is unknown"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_time_is_refused_and_says_what_to_write(value: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_when(value, now=NOW)

    assert message in refused.value.message


@pytest.mark.parametrize(
    "name",
    ["", "Berlin", "Europe", "europe/../Europe/Berlin", "/etc/passwd", "UTC\0", "\ud800", "localtime", "posix/UTC",
     "right/UTC", "posixrules", "zone.tab", "x" * 5000, "+02:00", "tzdata.zi", "Factory"],
    ids=ascii,
)  # fmt: skip
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="is unknown: give an IANA name"):
        parse_when({"every": {"hours": 1}, "time_zone": name}, now=NOW)


@pytest.mark.parametrize(
    "recurrence",
    [
        Recurrence(cron="0 9 * * *", time_zone="Europe/Berlin", anchor=NOW),
        Recurrence(interval=timedelta(minutes=90), time_zone="UTC", anchor=NOW),
    ],
    ids=["cron", "interval"],
)
def test_a_recurrence_is_stored_as_json(recurrence: Recurrence) -> None:
    stored = json.loads(json.dumps(encode(recurrence)))

    assert decode(Recurrence, stored) == recurrence
