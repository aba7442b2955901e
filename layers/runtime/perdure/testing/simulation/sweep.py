"""The sweep: count the fault points of a clean run, then run again with each fault at each point, and with pairs."""

from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

from perdure.testing.simulation.ending import Ending
from perdure.testing.simulation.faults import Fault, Plan, Point
from perdure.testing.simulation.scenarios import BY_NAME

ADAPTERS = ("embedded", "aws")

LATER_POINTS = 1.25
"""How far behind the last point of the clean run the second of a pair may strike: after the first, more follow."""


@dataclass(frozen=True)
class Case:
    """One run that has to end like the clean one."""

    scenario: str
    adapter: str
    faults: tuple[Fault, ...] = ()
    seed: int = 0

    @property
    def command(self) -> str:
        """The line that runs it again."""
        line = f"python -m perdure.testing.simulation --scenario {self.scenario} --adapter {self.adapter}"
        if self.faults:
            line += f" --fault {','.join(f.name for f in self.faults)} --at {','.join(str(f.at) for f in self.faults)}"
        return line + (f" --seed {self.seed}" if self.seed else "")


@dataclass(frozen=True)
class Result:
    """What came of a case.

    Attributes:
        problem: What was wrong; None: nothing was.
        struck: What its faults struck, in words.
    """

    case: Case
    problem: str | None = None
    struck: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = "; ".join(self.struck) or "no fault struck"
        return f"{self.case.command}\n    {where}\n    {self.problem}"


@dataclass
class Report:
    """What a sweep came to."""

    points: dict[tuple[str, str], int] = field(default_factory=dict)
    runs: dict[tuple[str, str], int] = field(default_factory=dict)
    failures: list[Result] = field(default_factory=list)

    @property
    def summary(self) -> str:
        scenarios = len({scenario for scenario, _ in self.points})
        return (
            f"{scenarios} scenarios, {sum(self.points.values())} fault points, "
            f"{sum(self.runs.values())} runs, {len(self.failures)} failures"
        )


@cache
def clean_run(scenario: str, adapter: str) -> tuple[Ending, tuple[Point, ...]]:
    """Run a scenario without a fault, once per process; returns how it ended and its points."""
    plan = Plan(adapter)
    ending = _run(Case(scenario, adapter), plan)
    return ending, tuple(plan.points)


def run_case(case: Case) -> Result:
    """Run one case and compare it with the clean run."""
    with _quiet():
        plan = Plan(case.adapter, case.faults)
        try:
            clean, _ = clean_run(case.scenario, case.adapter)
            ending = _run(case, plan)
            compare = BY_NAME[case.scenario].compare
            found = compare(clean, ending, plan.may_leave_unknown)
            problem = "; ".join(found) or None
        except Exception as error:  # noqa: BLE001  whatever a run raises is a finding
            problem = f"{type(error).__name__}: {error}"
    struck = tuple(f"{fault.name} at {point.number}: {point.name}" for fault, point in plan.struck)
    return Result(case, problem, struck)


def _run(case: Case, plan: Plan) -> Ending:
    scenario = BY_NAME[case.scenario]
    if case.adapter == "aws":
        from perdure.testing.simulation.run_aws import run_aws

        return run_aws(scenario, plan)
    from perdure.testing.simulation.run_embedded import run_embedded

    return run_embedded(scenario, plan, case.seed)


def single_faults(scenario: str, adapter: str, names: Sequence[str] = (), *, then: str | None = None) -> list[Case]:
    """Return a case for each fault at each point of the clean run.

    Args:
        names: These faults only.
        then: Another fault, which strikes at the very next point.
    """
    _, points = clean_run(scenario, adapter)
    return [
        Case(scenario, adapter, (Fault(name, point.number), *([Fault(then, point.number + 1)] if then else [])))
        for point in points
        for name in point.faults(adapter)
        if not names or name in names
    ]


def pairs(scenario: str, adapter: str, number: int, seed: int) -> list[Case]:
    """Return a seeded sample of pairs of faults; the second may strike behind the end of the clean run."""
    _, points = clean_run(scenario, adapter)
    chance = random.Random(f"{scenario} {adapter} {seed}")  # noqa: S311
    found = []
    for _ in range(number):
        first = chance.choice(points)
        at = chance.randint(first.number + 1, max(first.number + 1, int(len(points) * LATER_POINTS)))
        kinds = points[at - 1] if at <= len(points) else chance.choice(points)
        faults = (
            Fault(chance.choice(first.faults(adapter)), first.number),
            Fault(chance.choice(kinds.faults(adapter)), at),
        )
        found.append(Case(scenario, adapter, faults))
    return found


def seeds(scenario: str, number: int) -> list[Case]:
    """Return clean runs under other seeds of the scheduler, which is the embedded runtime's."""
    return [Case(scenario, "embedded", seed=seed) for seed in range(1, number + 1)]


def sample(cases: Sequence[Case], number: int, seed: int) -> list[Case]:
    """Return a seeded sample, in order."""
    if len(cases) <= number:
        return list(cases)
    chance = random.Random(f"{cases[0].scenario} {seed}")  # noqa: S311
    chosen = chance.sample(range(len(cases)), number)
    return [cases[place] for place in sorted(chosen)]


def run_all(cases: Iterable[Case], *, jobs: int = 1) -> Iterator[Result]:
    """Run cases, in several processes if asked; results come in the order of the cases."""
    if jobs <= 1:
        yield from map(run_case, cases)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_case, cases, chunksize=8)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the complaints about every fault to themselves: the product's, and asyncio's about what a crash cut off."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    finally:
        logging.disable(before)
