"""`docs/concepts/time.md` is right: what it gives as examples is taken, and happens when it says."""

from __future__ import annotations

import ast
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from perdure.core.calendar import Recurrence, first_slot, parse_when
from perdure.core.cron import parse_cron

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "concepts" / "time.md").read_text(encoding="utf-8")
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")

CHANGES = re.findall(r"^\| `([^`|]+)` \| ([0-9:, ]+) \| ([0-9:, ]+) \|$", PAGE, re.MULTILINE)
EXAMPLES = re.findall(r"^\| `\w+` \| `(\{[^|]+\})` \|", PAGE, re.MULTILINE)
EXPRESSIONS = dict(re.findall(r"^\| `([^`|{]+ [^`|{]+)` \| ([^|]*[a-z][^|]*) \|$", PAGE, re.MULTILINE))


def times_on(text: str, day: date) -> list[str]:
    """Return what a clock in Berlin shows at each slot of a day."""
    start = datetime(day.year, day.month, day.day, tzinfo=BERLIN).astimezone(UTC)
    end = start + timedelta(hours=24)
    recurrence = Recurrence(cron=text, time_zone="Europe/Berlin", anchor=start - timedelta(days=1))
    shown = []
    slot = first_slot(recurrence, start - timedelta(seconds=1))
    while slot is not None and slot < end:
        shown.append(slot.astimezone(BERLIN).strftime("%H:%M"))
        slot = first_slot(recurrence, slot)
    return shown


def test_the_page_is_read() -> None:
    assert (len(EXAMPLES), len(CHANGES), len(EXPRESSIONS)) == (4, 4, 5)


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_example_is_taken(example: str) -> None:
    parse_when(ast.literal_eval(example), now=NOW)


@pytest.mark.parametrize(("text", "spring", "autumn"), CHANGES)
def test_clocks_are_changed_as_the_table_says(text: str, spring: str, autumn: str) -> None:
    assert times_on(text, date(2026, 3, 29)) == spring.split(", ")
    assert times_on(text, date(2026, 10, 25)) == autumn.split(", ")


def test_the_expressions_name_what_the_table_says() -> None:
    crons = {text: parse_cron(text) for text in EXPRESSIONS}
    friday_13, friday, first, leap = date(2026, 2, 13), date(2026, 5, 1), date(2026, 6, 1), date(2028, 2, 29)
    days = (friday_13, friday, first, leap)

    assert {text: [day for day in days if cron.names_day(day)] for text, cron in crons.items()} == {
        "30 8 * * mon-fri": [friday_13, friday, first, leap],
        "*/15 9-17 * * *": [friday_13, friday, first, leap],
        "0 0 1,15 * *": [friday, first],
        "0 12 13 * fri": [friday_13, friday],
        "0 12 29 2 *": [leap],
    }
    quarters = [f"{moment:%H:%M}" for moment in crons["*/15 9-17 * * *"].times()]
    assert (quarters[0], quarters[1], quarters[-1], len(quarters)) == ("09:00", "09:15", "17:45", 36)
