"""Questions, waits and changed arguments in `perdure chat`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure.cli.asking import edited
from perdure.cli.waits import time_of
from tests.unit.cli import askers
from tests.unit.cli.terminal import Person, at_a_terminal

NOON = datetime(2027, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(askers, "booked", [])
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)


@contextlib.asynccontextmanager
async def talking(monkeypatch: pytest.MonkeyPatch, folder: Path) -> AsyncIterator[Person]:
    async with at_a_terminal(monkeypatch, folder / "sessions.db", agents="tests.unit.cli.askers:agent") as person:
        await person.sees("> ")
        yield person


async def says(person: Person, line: str, *answers: str) -> None:
    person.types(line)
    for answer in answers:
        await person.sees(answer)


async def test_a_question_is_answered_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with talking(monkeypatch, tmp_path) as person:
        await says(person, "ask", "Which colour?\nyour answer: ")
        await says(person, "", "your answer: ")  # a slip of the pen answers nothing

        await says(person, "deep red", 'agent: I heard: {"status": "answered", "answer": "deep red"}\n> ')


async def test_a_choice_is_made_by_its_number_and_another_word_is_refused_and_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with talking(monkeypatch, tmp_path) as person:
        await says(person, "choose", "Which size?\n  1. small\n  2. large\na number: ")
        await says(person, "huge", "not accepted: ", "Which size?\n", "a number: ")

        await says(person, "2", '"answer": "large"}\n> ')


async def test_a_number_that_is_itself_a_choice_means_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with talking(monkeypatch, tmp_path) as person:
        await says(person, "suggest", "  1. 2\n  2. today\na number or your own words: ")

        await says(person, "2", '"answer": "2"}\n> ')


async def test_a_question_is_declined_with_a_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with talking(monkeypatch, tmp_path) as person:
        await says(person, "ask", "your answer: ")

        await says(person, "/decline ask my boss", "agent: I heard: ask my boss\n> ")
        await says(person, "/decline", "(nothing is asked)\n> ")


async def test_a_wait_is_listed_moved_and_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with talking(monkeypatch, tmp_path) as person:
        await says(person, "sleep", "(waits until ", " for the shop to open: /skip, /until, /cancel)")
        await says(person, "/waits", "  1. timer: The agent waits for its time to come: the shop to open [call-2-0]")
        await says(person, "/until +2h", "(until 20")
        await says(person, "/until 1 2001-01-01", "not accepted: ")
        await says(person, "/until call-2-0 never", "not accepted: ")
        await says(person, "/skip 1", "(skipped)", '"status": "skipped"', "\n> ")
        await says(person, "/waits", "(it waits for nothing)")
        await says(person, "/skip", "(nothing waits that this could change)")
        await says(person, "/skip call-2-0", "not accepted: ")


async def test_a_wait_is_cancelled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with talking(monkeypatch, tmp_path) as person:
        await says(person, "sleep", "/cancel)")

        await says(person, "/cancel", "(cancelled)", "\n> ")


async def test_a_call_is_approved_with_arguments_on_the_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with talking(monkeypatch, tmp_path) as person:
        await says(person, "book", 'approve book {"room": "r1"}?\n')
        await says(person, "/edit {", "(this is no JSON: ", "no with a reason: ")
        await says(person, '/edit {"room": 7}', "not accepted: invalid book arguments: room", "approve book ")
        await says(person, "/edit", "(type /edit and the arguments whole", "no with a reason: ")

        await says(person, '/edit {"room": "r2"}', "agent: I heard: booked r2")

        assert askers.booked == ["r2"]


async def test_a_decision_that_is_refused_is_asked_for_again_behind_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with talking(monkeypatch, tmp_path) as person:
        await says(person, "book two", 'approve book {"room": "r1"}?\n', "with a reason: ")
        await says(person, '/edit {"room": 7}', "not accepted: ", 'approve book {"room": "r2"}?\n', "with a reason: ")
        await says(person, "y", 'approve book {"room": "r1"}?\n', "with a reason: ")
        await says(person, "y", "agent: I heard: ")

        assert sorted(askers.booked) == ["r1", "r2"]


async def test_a_call_is_approved_with_arguments_from_an_editor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with talking(monkeypatch, tmp_path) as person:
        script = tmp_path / "edit.py"
        script.write_text(
            "import pathlib, sys\np = pathlib.Path(sys.argv[1])\np.write_text(p.read_text().replace('r1', 'r3'))\n"
        )
        monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
        await says(person, "book", "approve book")

        await says(person, "/edit", "agent: I heard: booked r3")

        assert askers.booked == ["r3"]


async def test_while_nothing_is_approved_edit_means_a_waiting_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with talking(monkeypatch, tmp_path) as person:
        await says(person, "ask", "your answer: ")

        await says(person, "/edit", "/edit needs something behind it", "your answer: ")


@pytest.mark.parametrize("editor", ["false", "/no/such/editor", "'"])
async def test_an_editor_that_fails_changes_nothing(editor: str) -> None:
    assert await edited(editor, "{}") is None


@pytest.mark.parametrize(
    ("word", "time"),
    [
        ("+90s", "2027-01-31T12:01:30+00:00"),
        ("+30m", "2027-01-31T12:30:00+00:00"),
        ("+2h", "2027-01-31T14:00:00+00:00"),
        ("+3d", "2027-02-03T12:00:00+00:00"),
        ("2027-02-01T00:00:00Z", "2027-02-01T00:00:00Z"),
        ("+2w", "+2w"),
        ("+999999999d", "+999999999d"),
    ],
)
def test_a_time_may_be_told_from_now(word: str, time: str) -> None:
    assert time_of(word, NOON) == time
