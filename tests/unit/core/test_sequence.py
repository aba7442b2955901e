"""Sequences of durable events, as a viewer checks them (spec EVT-05)."""

from __future__ import annotations

import pytest

import perdure
from perdure.core.cursor import advance_sequence


@pytest.mark.parametrize(
    ("last", "sequence", "verdict"),
    [
        (0, 1, "accepted"),
        (7, 8, "accepted"),
        (7, 7, "duplicate"),
        (7, 1, "duplicate"),
        (7, 9, "gap"),
        (0, 2, "gap"),
    ],
)
def test_the_next_event_is_accepted_and_any_other_is_a_duplicate_or_a_gap(
    last: int, sequence: int, verdict: str
) -> None:
    assert advance_sequence(last, sequence) == verdict


@pytest.mark.parametrize("sequence", [1, 2, 900])
def test_a_viewer_that_begins_anywhere_accepts_whatever_comes_first(sequence: int) -> None:
    assert advance_sequence(None, sequence) == "accepted"


def test_what_was_lost_and_repeated_on_the_way_is_noticed_by_the_sequences_alone() -> None:
    last: int | None = 0
    verdicts = []

    for sequence in [1, 2, 2, 4, 3, 4, 5]:  # 3 comes late; 4 is sent again behind it
        verdict = advance_sequence(last, sequence)
        verdicts.append(verdict)
        last = sequence if verdict == "accepted" else last

    assert verdicts == ["accepted", "accepted", "duplicate", "gap", "accepted", "accepted", "accepted"]


def test_viewers_find_it_in_the_package() -> None:
    assert perdure.advance_sequence is advance_sequence
