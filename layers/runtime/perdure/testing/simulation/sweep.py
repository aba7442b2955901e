"""The sweep: count the fault points of a clean run, then run again with each fault at each point, and with pairs."""

from __future__ import annotations

import logging
import random
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing import get_context

from perdure.testing.simulation.branches import Outcome, Trunk
from perdure.testing.simulation.ending import Ending
from perdure.testing.simulation.faults import Fault, Plan, Point
from perdure.testing.simulation.scenarios import BY_NAME

Place = tuple[str, str]
"""A scenario and an adapter."""

Clean = tuple[Ending, tuple[Point, ...]]
"""How a run without a fault ended, and its points."""

ADAPTERS = ("embedded", "aws")

NO_FAULT = "none"
"""Instead of the name of a fault: only other orders."""

SHARD = 48
"""Cases that run in one go, after a clean run of their own: few, so that cores share the work, `--first` stops soon."""

LATER_POINTS = 1.25
"""How far behind the last point of the clean run the second of a pair may strike: after the first, more follow."""


@dataclass(frozen=True)
class Case:
    """One run that has to end like the clean one.

    Attributes:
        order: Who comes first of those that run at once; 0: as in the clean run. On AWS any other order has
            invocations that overlap, and no faults.
    """

    scenario: str
    adapter: str
    faults: tuple[Fault, ...] = ()
    order: int = 0

    @property
    def place(self) -> Place:
        return self.scenario, self.adapter

    @property
    def command(self) -> str:
        """The line that runs it again."""
        line = f"python -m perdure.testing.simulation --scenario {self.scenario} --adapter {self.adapter}"
        if self.faults:
            line += f" --fault {','.join(f.name for f in self.faults)} --at {','.join(str(f.at) for f in self.faults)}"
        return line + (f" --order {self.order}" if self.order else "")


@dataclass(frozen=True)
class Result:
    """What came of a case."""

    case: Case
    outcome: Outcome

    @property
    def problem(self) -> str | None:
        return self.outcome.problem

    @property
    def struck(self) -> str:
        return "; ".join(self.outcome.struck) or "no fault struck"

    def __str__(self) -> str:
        return f"{self.case.command}\n    {self.struck}\n    {self.problem}"


@dataclass
class Report:
    """What a sweep came to.

    Attributes:
        sampled: Where not each fault struck at each point, and what did instead.
    """

    points: dict[Place, int] = field(default_factory=dict)
    runs: dict[Place, int] = field(default_factory=dict)
    sampled: dict[Place, str] = field(default_factory=dict)
    failures: list[Result] = field(default_factory=list)
    seconds: float = 0.0

    def line(self, place: Place) -> str:
        """What the sweep of one scenario came to."""
        return (
            f"{place[0]:28}{place[1]:10}{self.points[place]:5} points {self.runs.get(place, 0):6} runs, "
            f"{self._how(*place)}"
        )

    def __str__(self) -> str:
        """What the whole sweep came to, in one line."""
        scenarios = len({scenario for scenario, _ in self.points})
        how = Counter(f"{self._how(name, adapter)} ({adapter}: " for name, adapter in self.points)
        return (
            f"{scenarios} scenarios, {sum(self.points.values())} fault points, {sum(self.runs.values())} runs, "
            f"{len(self.failures)} failures, {self.seconds:.0f} s; "
            + "; ".join(f"{what}{number} scenarios)" for what, number in how.items())
        )

    def _how(self, name: str, adapter: str) -> str:
        return self.sampled.get((name, adapter), "every fault at every point")


_clean: dict[Place, Clean] = {}


def clean_run(scenario: str, adapter: str) -> Clean:
    """Run a scenario without a fault, once per process; returns how it ended and its points."""
    place = scenario, adapter
    if place not in _clean:
        plan = Plan(adapter)
        ending = _run(Case(scenario, adapter), plan)
        _clean[place] = ending, tuple(plan.points)
    return _clean[place]


def clean_runs(places: Sequence[Place], *, jobs: int = 1) -> Iterator[tuple[Place, Result]]:
    """Run places without a fault, twice, in several processes if asked; this process then knows how they end."""
    if jobs <= 1:
        yield from ((place, run_case(Case(*place))) for place in places)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        for place, (result, known) in zip(places, pool.map(_looked_at, places), strict=True):
            _clean.update(known)
            yield place, result


def _looked_at(place: Place) -> tuple[Result, dict[Place, Clean]]:
    result = run_case(Case(*place))
    return result, {place: _clean[place]} if place in _clean else {}


def run_case(case: Case) -> Result:
    """Run one case from its beginning and compare it with the clean run."""
    return Result(case, _outcome(case, Plan(case.adapter, case.faults)))


def run_cases(cases: Sequence[Case]) -> list[Result]:
    """Run cases of one scenario and adapter. On AWS they share the way to their faults; see `branches`.

    Embedded a run is over about as soon as a copy of the process is made.
    """
    branching = sorted((c for c in cases if c.faults and c.adapter == "aws"), key=lambda case: case.faults[0].at)
    results = {case: run_case(case) for case in cases if case not in branching}
    if branching:
        first = branching[0]
        clean_run(first.scenario, first.adapter)  # now, and not in each branch again
        trunk = Trunk(first.adapter, cases=[case.faults for case in branching])
        outcome = None
        try:
            outcome = _outcome(first, trunk)
        finally:
            if trunk.is_branch:
                trunk.end_branch(outcome)
        never = Outcome(outcome.problem or "the clean run never came to its point")
        results |= {case: Result(case, trunk.outcomes.get(n, never)) for n, case in enumerate(branching)}
    return [results[case] for case in cases]


def _outcome(case: Case, plan: Plan) -> Outcome:
    with _quiet():
        try:
            clean, _ = clean_run(case.scenario, case.adapter)
            ending = _run(case, plan)
            compare = BY_NAME[case.scenario].compare
            found = compare(clean, ending, plan.may_leave_unknown)
            problem = "; ".join(found) or None
        except Exception as error:  # noqa: BLE001  whatever a run raises is a finding
            problem = f"{type(error).__name__}: {error}"
    struck = tuple(f"{fault.name} at {point.number}: {point.name}" for fault, point in plan.struck)
    return Outcome(problem, struck, len(plan.points))


def _run(case: Case, plan: Plan) -> Ending:
    scenario = BY_NAME[case.scenario]
    if case.adapter == "aws" and case.order:
        from perdure.testing.simulation.run_overlapping import run_overlapping

        return run_overlapping(scenario, case.order)
    if case.adapter == "aws":
        from perdure.testing.simulation.run_aws import run_aws

        return run_aws(scenario, plan)
    from perdure.testing.simulation.run_embedded import run_embedded

    return run_embedded(scenario, plan, case.order)


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


def orders(scenario: str, adapter: str, number: int) -> list[Case]:
    """Return runs without a fault in which others come first."""
    return [Case(scenario, adapter, order=order) for order in range(1, number + 1)]


def rotating(cases: Sequence[Case], seed: int, *, every: int = 1) -> list[Case]:
    """Return one case of each point: its first fault, the second at the next point and so on.

    Args:
        seed: Shifts the faults, and the points.
        every: Of each second, third, … point only.
    """
    by_point = [list(these) for _, these in groupby(cases, key=lambda case: case.faults[0].at)]
    return [these[(place + seed) % len(these)] for place, these in enumerate(by_point[seed % every :: every])]


def run_all(cases: Sequence[Case], *, jobs: int = 1) -> Iterator[Result]:
    """Run cases, in several processes if asked; results come in the order of the cases."""
    shards = list(_shards(cases))
    if jobs <= 1:
        for shard in shards:
            yield from run_cases(shard)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        for results in pool.map(run_cases, shards):
            yield from results


def _shards(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Cut cases into pieces that each run in one go, on whichever core is free."""
    for _, together in groupby(cases, key=lambda case: (case.scenario, case.adapter, case.order > 0)):
        piece = list(together)
        for start in range(0, len(piece), SHARD):
            yield piece[start : start + SHARD]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the complaints about every fault to themselves: the product's, and asyncio's about what a crash cut off."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            # Branches (Python 3.12 and later): whatever threads the caller has, a run waits for none of them.
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            yield
    finally:
        logging.disable(before)
