"""A small part of the sweep for every day, and the simulation itself: it counts, strikes, and says what to rerun."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perdure.testing.simulation import sweep
from perdure.testing.simulation.__main__ import ORDERS, PAIRS, main
from perdure.testing.simulation.faults import Fault, Plan
from perdure.testing.simulation.run_embedded import run_embedded
from perdure.testing.simulation.scenarios import BY_NAME, SCENARIOS
from perdure.testing.simulation.sweep import (
    Case,
    clean_run,
    clean_runs,
    pairs,
    rotating,
    run_case,
    run_cases,
    single_faults,
)

SMALL = [scenario.name for scenario in SCENARIOS if not scenario.large]


def failures(cases: list[Case]) -> list[str]:
    return [str(result) for result in run_cases(cases) if result.problem]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--scenario", "t1,x"], "there is no scenario 'x': use one of"),
        (["--fault", "crash_befor"], "there is no fault 'crash_befor': use one of"),
        (["--scenario", "t1", "--then", "x"], "there is no fault 'x'"),
        (["--at", "3", "--fault", "crash_before"], "with its one --scenario and its --adapter"),
        (["--at", "3", "--fault", "crash_before", "--scenario", "t1"], "with its one --scenario and its --adapter"),
    ],
)
def test_a_case_that_there_is_not_is_told_with_those_that_there_are(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)

    assert left.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("scenario", ["t1", "payment", "t1-cold", "checkpoints"])
def test_a_crash_at_any_point_of_a_small_scenario_changes_nothing(scenario: str) -> None:
    assert failures(single_faults(scenario, "embedded", ["crash_before", "crash_after"])) == []


def test_a_sample_of_all_faults_on_aws_changes_nothing() -> None:
    assert failures(rotating(single_faults("payment", "aws"), seed=1)[::6]) == []


@pytest.mark.parametrize("scenario", SMALL)
def test_every_small_scenario_ends_as_its_clean_run_when_others_come_first(scenario: str) -> None:
    assert failures([Case(scenario, "embedded", order=1)]) == []


@pytest.mark.parametrize("scenario", ["two-reads", "stop-in-payment"])
def test_invocations_that_overlap_on_aws_change_nothing(scenario: str) -> None:
    assert failures([Case(scenario, "aws", order=1)]) == []


def test_a_case_that_branches_off_ends_as_it_does_from_its_beginning() -> None:
    cases = [*rotating(single_faults("t1", "aws"), seed=2)[::6], *pairs("t1", "aws", 1, seed=0)]

    assert run_cases(cases) == [run_case(case) for case in cases]


def test_clean_runs_are_the_same_in_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [("answer", "embedded"), ("answer", "aws")]
    known = {place: clean_run(*place) for place in places}
    monkeypatch.setattr(sweep, "_clean", {})

    found = dict(clean_runs(places, jobs=2))

    assert {place: result.problem for place, result in found.items()} == dict.fromkeys(places)
    assert sweep._clean == known


def test_one_fault_of_each_point_is_another_one_at_the_next() -> None:
    cases = single_faults("t1", "aws")
    _, points = clean_run("t1", "aws")

    taken = rotating(cases, seed=0)

    assert [case.faults[0].at for case in taken] == [point.number for point in points]
    assert {case.faults[0].name for case in taken} > {"crash_before", "error", "slow", "throttle"}
    assert rotating(cases, seed=1) != taken
    assert [case.faults[0].at for case in rotating(cases, seed=1, every=3)] == list(range(2, len(points) + 1, 3))


def test_a_number_names_the_same_call_in_every_run() -> None:
    plans = [Plan("embedded"), Plan("embedded")]
    for plan in plans:
        run_embedded(BY_NAME["eight-tools"], plan)

    assert plans[0].points == plans[1].points


def test_a_fault_that_strikes_is_told_with_the_call_that_it_struck() -> None:
    _, points = clean_run("t1", "embedded")
    at = next(point.number for point in points if point.name == "store.commit")

    result = run_case(Case("t1", "embedded", (Fault("crash_after", at),)))

    assert (result.problem, result.struck) == (None, f"crash_after at {at}: store.commit")


def test_a_case_prints_the_line_that_runs_it_again(capsys: Any) -> None:
    case = Case("t1", "embedded", (Fault("crash_before", 3), Fault("lost_answer", 9)))

    status = main(case.command.removeprefix("python -m perdure.testing.simulation ").split())

    assert case.command.endswith("--scenario t1 --adapter embedded --fault crash_before,lost_answer --at 3,9")
    assert status == 0
    assert "crash_before at 3" in capsys.readouterr().out


def test_an_order_prints_the_line_that_runs_it_again(capsys: Any) -> None:
    case = Case("t1", "aws", order=2)

    status = main(case.command.removeprefix("python -m perdure.testing.simulation ").split())

    assert case.command.endswith("--scenario t1 --adapter aws --order 2")
    assert (status, capsys.readouterr().out) == (0, "as the clean run: no fault struck\n")


def test_an_unknown_fault_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(ValueError, match="crash_before, crash_after"):
        Fault("earthquake", 1)


def test_a_sparse_sweep_takes_one_fault_of_each_point_and_says_so(capsys: Any) -> None:
    status = main(["--scenario", "model-error", "--adapter", "embedded", "--sparse", "--jobs", "1"])

    _, points = clean_run("model-error", "embedded")
    last = capsys.readouterr().out.splitlines()[-1]
    runs = len(points) + math.ceil(PAIRS["embedded"] / 3) + math.ceil(ORDERS["embedded"] / 3)
    assert (status, f" {runs} runs, 0 failures" in last) == (0, True)
    assert last.endswith("one fault at every point (embedded: 1 scenarios)")
