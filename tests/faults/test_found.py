"""What sweeps have found, each as a test of its own."""

from __future__ import annotations

import pytest

from perdure.testing.simulation.faults import Fault
from perdure.testing.simulation.sweep import Case, clean_run, run_case


@pytest.mark.parametrize("scenario", ["payment", "stop-in-payment"])
def test_a_worker_runs_the_call_that_it_took_though_the_answer_to_that_commit_was_lost(scenario: str) -> None:
    """The commit said `started` for this worker, which then took itself for somebody else (as races.md X8)."""
    _, points = clean_run(scenario, "embedded")
    commits = [point.number for point in points if point.name == "store.commit"]

    results = [run_case(Case(scenario, "embedded", (Fault("lost_answer", at),))) for at in commits]

    assert [str(result) for result in results if result.problem] == []
