"""Cron expressions: what they name, and what is said of those that are none."""

from __future__ import annotations

from datetime import date

import pytest

from perdure.core.cron import parse_cron
from perdure.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("5", (5,)),
        ("05", (5,)),
        ("1-4", (1, 2, 3, 4)),
        ("0-59/20", (0, 20, 40)),
        ("*/25", (0, 25, 50)),
        ("10,3,5-6,3", (3, 5, 6, 10)),
        ("58-59,*/30", (0, 30, 58, 59)),
        ("*", tuple(range(60))),
    ],
)
def test_a_field_names_values_ranges_steps_and_lists(field: str, values: tuple[int, ...]) -> None:
    assert parse_cron(f"{field} 0 * * *").minute.values == values


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("mon-fri", (1, 2, 3, 4, 5)),
        ("MON,Wed", (1, 3)),
        ("0", (0,)),
        ("7", (0,)),
        ("sat-sun", (0, 6)),
        ("5-7", (0, 5, 6)),
        ("sun-tue", (0, 1, 2)),
        ("*/2", (0, 2, 4, 6)),
        ("0-7", (0, 1, 2, 3, 4, 5, 6)),
    ],
)
def test_weekdays_have_names_and_sunday_two_numbers(field: str, values: tuple[int, ...]) -> None:
    assert parse_cron(f"0 0 * * {field}").day_of_week.values == values


def test_months_have_names() -> None:
    assert parse_cron("0 0 1 jan,Mar-APR,11-dec *").month.values == (1, 3, 4, 11, 12)


@pytest.mark.parametrize(
    ("cron", "days"),
    [
        ("0 0 13 * *", (13,)),
        ("0 0 * * fri", (6, 13, 20, 27)),
        ("0 0 10 * fri", (6, 10, 13, 20, 27)),  # both are restricted: either is enough
        ("0 0 */10 * fri", ()),  # begins with *, so it has to match as well; the 1st, 11th, 21st, 31st
        ("0 0 1-20 * */5", (1, 6, 8, 13, 15, 20)),  # Sundays and Fridays, of the first twenty days
        ("0 0 1-31 * fri", (6, 13, 20, 27)),  # names every day of a month
        ("0 0 13 1,3-12 *", ()),
    ],
)
def test_days_of_months_and_of_weeks_combine_as_in_crontab(cron: str, days: tuple[int, ...]) -> None:
    february = [date(2026, 2, day) for day in range(1, 29)]

    assert tuple(day.day for day in february if parse_cron(cron).names_day(day)) == days


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        ("60 * * * *", "cron field 1 (minute) is '60': 60 is out of range, values go from 0 to 59"),
        ("* 24 * * *", "cron field 2 (hour) is '24': 24 is out of range, values go from 0 to 23"),
        ("* * 0 * *", "cron field 3 (day of month) is '0': 0 is out of range, values go from 1 to 31"),
        ("* * * 13 *", "cron field 4 (month) is '13': 13 is out of range, values go from 1 to 12"),
        ("* * * * 8", "cron field 5 (day of week) is '8': 8 is out of range, values go from 0 to 7"),
        ("* 22-2 * * *", "cron field 2 (hour) is '22-2': range 22-2 runs backwards: write two, 22-23,0-2"),
        ("5/10 * * * *", "cron field 1 (minute) is '5/10': a step needs a range: write 5-59/10 or */10"),
        ("*/0 * * * *", "cron field 1 (minute) is '*/0': the step after '/' is a whole number from 1 to 59"),
        ("*/ * * * *", "cron field 1 (minute) is '*/': the step after '/' is a whole number from 1 to 59"),
        ("*/99 * * * *", "cron field 1 (minute) is '*/99': the step after '/' is a whole number from 1 to 59"),
        ("* * * * mon-", "cron field 5 (day of week) is 'mon-': '' is none of numbers, names (sun, mon, tue, "),
        ("1, * * * *", "cron field 1 (minute) is '1,': '' is none of numbers, *, ranges a-b, steps /n and lists a,b"),
        ("* * L * *", "cron field 3 (day of month) is 'L': 'L' is none of numbers, *, ranges"),
        ("* * * jan *x", "cron field 5 (day of week) is '*x': '*x' is none of"),
        ("* * ? * *", "cron field 3 (day of month) is '?'"),
        ("-1 * * * *", "cron field 1 (minute) is '-1': '' is none of"),
        ("٣ * * * *", "cron field 1 (minute) is '٣': '٣' is none of"),
        ("mon * * * *", "cron field 1 (minute) is 'mon': 'mon' is none of numbers, *"),
        ("* * * *", "cron expression '* * * *' has not five fields but 4: write minute, hour"),
        ("0 0 * * * *", "has not five fields but 6"),
        ("@daily", "has not five fields but 1"),
        ("", "has not five fields but 0"),
        (",".join(["0"] * 100) + " 0 * * *", "the cron expression has 207 characters, and 200 are the most"),
    ],
)
def test_an_expression_that_is_wrong_is_refused_with_its_field_and_what_to_write(cron: str, message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_cron(cron)

    assert message in refused.value.message
    assert refused.value.code == "invalid_request"
