"""Calls that wait keep the core's promises on walks that go in every direction."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.property.walk import OUTCOMES, Walk

WALKS = 60
STEPS = 50


def test_whatever_people_tools_and_time_do_to_calls_that_wait_the_core_keeps_its_promises() -> None:
    taken: Counter[str] = Counter()
    for seed in range(WALKS):
        walk = Walk(seed)
        try:
            walk.run(STEPS)
        except Exception as error:
            error.add_note(f"seed {seed}; the last commands: {walk.world.done[-5:]}")
            raise
        taken += walk.taken

    seldom = {each.__name__ for each in OUTCOMES if taken[each.__name__] < 5} - {"ModelWaits"}
    assert not seldom, "the walks do not get that far any more"


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(3, id="a-pause-beside-a-cancellation"),
        pytest.param(33, id="a-lost-attempt-before-one-that-asks"),
        pytest.param(129, id="an-unclaimed-attempt-behind-an-answer"),
        pytest.param(157, id="a-steered-turn-of-a-tool-that-asks"),
        pytest.param(316, id="a-read-that-failed-and-then-asks"),
    ],
)
def test_what_a_walk_found_once_stays_found(seed: int) -> None:
    Walk(seed).run(60)


@pytest.mark.slow
def test_longer_walks_find_nothing_either() -> None:
    """PERDURE_DEEP=1 makes them a search of some minutes."""
    for seed in range(1000, 8000 if "PERDURE_DEEP" in os.environ else 1030):
        Walk(seed).run(120)
