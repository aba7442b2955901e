"""The Python reducer against the cases that every reducer has to pass (spec BROW-02)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from perdure.reducer import initial_state, reduce, view_of

CASES = sorted((Path(__file__).resolve().parents[3] / "clients" / "vectors").glob("*.json"))


def normalised(value: Any) -> Any:
    """Return a value without what says no more than its absence."""
    if isinstance(value, list):
        return [normalised(item) for item in value]
    if not isinstance(value, dict):
        return value
    told = {name: normalised(inner) for name, inner in value.items()}
    return {
        name: inner
        for name, inner in told.items()
        if inner is not None and inner is not False and inner not in ([], {})
    }


def test_there_are_cases() -> None:
    assert len(CASES) >= 19


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_a_case_leads_to_what_every_reducer_shows(case: Path) -> None:
    told = json.loads(case.read_text(encoding="utf-8"))
    states = [initial_state(told["session_id"])]
    for action in told["actions"]:
        before = copy.deepcopy(states[-1])
        states.append(reduce(states[-1], action))
        assert states[-2] == before, f"{action['type']} changed the state in place"

    for expected in told["expected"]:
        state = states[expected["after"]]
        assert normalised(view_of(state)) == expected["view"], f"after {expected['after']} actions"
        position = {name: state[name] for name in ("sequence", "cursor", "gap")}
        assert normalised(position) == expected.get("position", {}), f"after {expected['after']} actions"
