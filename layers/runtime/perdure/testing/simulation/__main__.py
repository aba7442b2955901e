"""`python -m perdure.testing.simulation`: sweep everything, or run one case again."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from perdure.testing.simulation.faults import FAULTS, Fault
from perdure.testing.simulation.scenarios import SCENARIOS
from perdure.testing.simulation.sweep import (
    ADAPTERS,
    Case,
    Report,
    Result,
    clean_run,
    pairs,
    run_all,
    run_case,
    sample,
    seeds,
    single_faults,
)

SEEDS = 5
"""Clean runs of each scenario under other seeds."""

PAIRS = {"embedded": 20, "aws": 2}
"""Pairs of faults of each scenario, by adapter."""

WHOLE_ON_AWS = ("t1", "payment")
"""Scenarios whose every point is swept on AWS, where a run takes ten times as long; of the others, a sample."""

SAMPLE_ON_AWS = 6
"""Cases of each other scenario on AWS; `--seed` draws others, `--all` runs all of them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every run ended like its clean run, 1 if one did not."""
    options = _parser().parse_args(arguments)
    if options.at:
        return _run_again(options)
    names = options.scenario.split(",") if options.scenario else [scenario.name for scenario in SCENARIOS]
    adapters = (options.adapter,) if options.adapter else ADAPTERS
    return _sweep(names, adapters, options)


def _run_again(options: argparse.Namespace) -> int:
    ats = [int(at) for at in options.at.split(",")]
    faults = tuple(Fault(name, at) for name, at in zip(options.fault.split(","), ats, strict=True))
    result = run_case(Case(options.scenario, options.adapter, faults, options.seed))
    print(result if result.problem else f"as the clean run: {'; '.join(result.struck)}")  # noqa: T201
    return 1 if result.problem else 0


def _sweep(names: Sequence[str], adapters: Sequence[str], options: argparse.Namespace) -> int:
    report = Report()
    todo: list[Case] = []
    faults = options.fault.split(",") if options.fault else []
    for name in names:
        for adapter in adapters:
            clean = run_case(Case(name, adapter))
            if clean.problem:  # there is nothing to compare with
                report.points[name, adapter] = 0
                _fails(report, clean)
                continue
            report.points[name, adapter] = len(clean_run(name, adapter)[1])
            todo += _cases(name, adapter, faults, options)
    if options.first and report.failures:
        return 1
    for result in run_all(todo, jobs=options.jobs):
        place = result.case.scenario, result.case.adapter
        report.runs[place] = report.runs.get(place, 0) + 1
        if result.problem:
            _fails(report, result)
            if options.first:
                return 1
    for name, adapter in report.points:
        runs = report.runs.get((name, adapter), 0)
        print(f"{name:18}{adapter:10}{report.points[name, adapter]:5} points {runs:6} runs")  # noqa: T201
    print(report.summary)  # noqa: T201
    return 1 if report.failures else 0


def _fails(report: Report, result: Result) -> None:
    report.failures.append(result)
    print(result, flush=True)  # noqa: T201


def _cases(name: str, adapter: str, faults: Sequence[str], options: argparse.Namespace) -> list[Case]:
    cases = single_faults(name, adapter, faults, then=options.then)
    if faults:
        return cases
    whole = options.all or adapter == "embedded" or name in WHOLE_ON_AWS
    found = cases if whole else sample(cases, SAMPLE_ON_AWS, options.seed)
    found = [*found, *pairs(name, adapter, PAIRS[adapter], options.seed)]
    return [*found, *seeds(name, SEEDS)] if adapter == "embedded" else found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perdure.testing.simulation", description=__doc__)
    parser.add_argument("--scenario", help="one or several, with commas; all of them by default")
    parser.add_argument("--adapter", choices=ADAPTERS, help="both by default")
    parser.add_argument("--fault", help=f"one or several of {', '.join(FAULTS)}; all of them by default")
    parser.add_argument("--then", help="another fault, which strikes at the very next point")
    parser.add_argument("--at", help="run one case again: the point of each fault, with commas")
    parser.add_argument("--seed", type=int, default=0, help="of the scheduler and the samples")
    parser.add_argument("--all", action="store_true", help="sweep every point on AWS, too")
    parser.add_argument("--first", action="store_true", help="stop at the first failure")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; one per core by default")
    return parser


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of what a number of a point means
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606
    sys.exit(main())
