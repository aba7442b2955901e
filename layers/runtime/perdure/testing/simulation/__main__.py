"""`python -m perdure.testing.simulation`: sweep everything, or run one case again."""

from __future__ import annotations

import argparse
import importlib
import math
import os
import sys
import time
from collections.abc import Collection, Sequence
from itertools import groupby

from perdure.testing.simulation.faults import FAULTS, Fault
from perdure.testing.simulation.scenarios import BY_NAME, SCENARIOS
from perdure.testing.simulation.sweep import (
    ADAPTERS,
    NO_FAULT,
    Case,
    Report,
    Result,
    clean_run,
    clean_runs,
    orders,
    pairs,
    rotating,
    run_all,
    run_case,
    single_faults,
)

WHOLE = ("t1", "two-reads", "payment", "approved")
"""Scenarios of which each fault strikes at each point on AWS, where a run takes four times as long; embedded all that
are not large, unless it is to be `--sparse`. Of the others one fault strikes at each point, another one than at the
point before; on AWS, with a larger `--every`, at as many fewer points as of the large ones."""

EVERY = 3
"""Of a large scenario one fault strikes at every third point only."""

ORDERS = {"embedded": 5, "aws": 2}
"""Runs of each scenario without a fault in which others come first, by adapter."""

PAIRS = {"embedded": 10, "aws": 3}
"""Pairs of faults of each scenario, by adapter."""

DEEPER = 5
"""How many times as many pairs and orders a deep sweep takes, besides each fault at each point of all scenarios."""

SPARSER = 3
"""How many times fewer of them a sparse one does."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every run ended like its clean run, 1 if one did not."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.load:
        importlib.import_module(options.load)
    names = options.scenario.split(",") if options.scenario else [scenario.name for scenario in SCENARIOS]
    faults = [*(options.fault or "").split(","), options.then or ""]
    _check_names(parser, "scenario", names, BY_NAME)
    _check_names(parser, "fault", [fault for fault in faults if fault], (*FAULTS, NO_FAULT))
    if options.at or options.order:
        if len(names) != 1 or not options.adapter:
            parser.error("one case is run again with its one --scenario and its --adapter")
        return _run_again(options)
    adapters = (options.adapter,) if options.adapter else ADAPTERS
    return _sweep(names, adapters, options)


def _check_names(parser: argparse.ArgumentParser, kind: str, names: Sequence[str], known: Collection[str]) -> None:
    """Leave with a word on what there is if a name is none of those that are known."""
    for name in names:
        if name not in known:
            parser.error(f"there is no {kind} {name!r}: use one of {', '.join(sorted(known))}")


def _run_again(options: argparse.Namespace) -> int:
    ats = [int(at) for at in options.at.split(",")] if options.at else []
    names = options.fault.split(",") if options.fault else []
    faults = tuple(Fault(name, at) for name, at in zip(names, ats, strict=True))
    result = run_case(Case(options.scenario, options.adapter, faults, options.order))
    print(result if result.problem else f"as the clean run: {result.struck}")  # noqa: T201
    return 1 if result.problem else 0


def _sweep(names: Sequence[str], adapters: Sequence[str], options: argparse.Namespace) -> int:
    began = time.monotonic()
    report = Report()
    todo: list[Case] = []
    places = [(name, adapter) for name in names for adapter in adapters]
    for place, clean in clean_runs(places, jobs=options.jobs):
        if clean.problem:  # there is nothing to compare with
            report.points[place] = 0
            _fails(report, clean)
            continue
        report.points[place] = len(clean_run(*place)[1])
        todo += _cases(*place, options, report)
    if options.first and report.failures:
        return 1
    print(f"{len(todo)} runs to do", file=sys.stderr, flush=True)  # noqa: T201
    for place, results in groupby(run_all(todo, jobs=options.jobs), key=lambda result: result.case.place):
        for result in results:
            report.runs[place] = report.runs.get(place, 0) + 1
            if result.problem:
                _fails(report, result)
                if options.first:
                    return 1
        print(report.line(place), flush=True)  # noqa: T201
    report.seconds = time.monotonic() - began
    print(report)  # noqa: T201
    return 1 if report.failures else 0


def _fails(report: Report, result: Result) -> None:
    report.failures.append(result)
    print(result, flush=True)  # noqa: T201


def _cases(name: str, adapter: str, options: argparse.Namespace, report: Report) -> list[Case]:
    """Return what is run of one scenario, and note in the report how much of it all that is."""
    faults = options.fault.split(",") if options.fault else []
    cases = single_faults(name, adapter, [f for f in faults if f != NO_FAULT], then=options.then)
    if faults == [NO_FAULT]:
        cases = []
    if not (faults or options.deep):
        if BY_NAME[name].large:
            cases = rotating(cases, options.seed, every=options.every)
            report.sampled[name, adapter] = f"one fault at one point of {options.every}"
        elif name not in WHOLE and (options.sparse or adapter == "aws"):
            every = max(options.every // EVERY, 1) if adapter == "aws" else 1
            cases = rotating(cases, options.seed, every=every)
            each = "every point" if every == 1 else f"one point of {every}"
            report.sampled[name, adapter] = f"one fault at {each}"
    if not faults:
        cases += pairs(name, adapter, _share(PAIRS[adapter], options), options.seed)
    if not faults or NO_FAULT in faults:
        cases += orders(name, adapter, options.orders or _share(ORDERS[adapter], options))
    return cases


def _share(number: int, options: argparse.Namespace) -> int:
    if options.deep:
        return number * DEEPER
    return math.ceil(number / SPARSER) if options.sparse else number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perdure.testing.simulation", description=__doc__)
    parser.add_argument("--scenario", help="one or several, with commas; all of them by default")
    parser.add_argument(
        "--every", type=int, default=EVERY, help="of a large scenario, one point of so many; %(default)s"
    )
    parser.add_argument(
        "--sparse",
        action="store_true",
        help=f"embedded, too, one fault at a point, but of {', '.join(WHOLE)}; a third of the pairs and orders",
    )
    parser.add_argument("--adapter", choices=ADAPTERS, help="both by default")
    parser.add_argument(
        "--fault", help=f"one or several of {', '.join(FAULTS)}, or `{NO_FAULT}`: only other orders; all by default"
    )
    parser.add_argument("--then", help="another fault, which strikes at the very next point")
    parser.add_argument("--at", help="run one case again: the point of each fault, with commas")
    parser.add_argument("--order", type=int, default=0, help="run one order again, by its number")
    parser.add_argument("--orders", type=int, default=0, help="runs without a fault in which others come first")
    parser.add_argument("--seed", type=int, default=0, help="of the samples")
    parser.add_argument("--deep", action="store_true", help="no samples of single faults, and more of the rest")
    parser.add_argument("--first", action="store_true", help="stop at the first failure")
    parser.add_argument(
        "--load", help="a module to import first; it may watch every harness (perdure.testing.permissions)"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; one per core by default")
    return parser


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of what a number of a point means
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606
    sys.exit(main())
