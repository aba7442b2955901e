"""Branches: the cases of a scenario share the way to their faults.

The clean run goes on in this process. At each point where the first fault of a case strikes, a copy of the process
(`fork`) goes on with the faults of that case, to its end, and says how it ended. So nothing is run again only to come
to the next point. One copy lives at a time, and the clean run waits for it: the order of results is always the same.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from perdure.testing.simulation.faults import Fault, Kind, Plan

LONGEST_BRANCH_SECONDS = 120
"""Real time after which a branch counts as one that never ends."""


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        problem: What was wrong; None: nothing was.
        struck: What its faults struck, in words.
        points: How many points it passed.
    """

    problem: str | None
    struck: tuple[str, ...] = ()
    points: int = 0


@dataclass
class Trunk(Plan):
    """The plan of a clean run that other runs branch off from.

    Attributes:
        cases: The faults of each case; every case has one, and they are passed in order of their first.
        outcomes: By number of the case, from 0. One whose point was never passed has none.
    """

    cases: Sequence[tuple[Fault, ...]] = ()
    outcomes: dict[int, Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._waiting: dict[int, list[int]] = defaultdict(list)
        for number, faults in enumerate(self.cases):
            self._waiting[faults[0].at].append(number)
        self._answer: int | None = None

    def passes(self, name: str, kind: Kind) -> str | None:
        if self.armed:
            for number in self._waiting.pop(len(self.points) + 1, ()):
                if self._branches_off(number):
                    break
        return super().passes(name, kind)

    @property
    def is_branch(self) -> bool:
        """Whether this process is a copy, which has to end by `end_branch`."""
        return self._answer is not None

    def end_branch(self, outcome: Outcome | None) -> NoReturn:
        """Tell how this branch ended, and end the process; nothing of what it took over from its parent is tidied."""
        assert self._answer is not None, "only a branch ends like this"
        if outcome is not None:
            with os.fdopen(self._answer, "wb") as answer:
                pickle.dump(outcome, answer)
        os._exit(0)

    def _branches_off(self, number: int) -> bool:
        """Split. Returns True in the copy; in the original, False, once the copy has ended."""
        here, there = os.pipe()
        loop = asyncio._get_running_loop()
        child = os.fork()
        if child == 0:
            asyncio._set_running_loop(loop)  # asyncio forgets it, because it knows the process by its number
            os.close(here)
            self._answer = there
            self._waiting.clear()
            self.faults = self.cases[number]
            gc.disable()  # it would only touch, and so copy, what the parent has in memory
            signal.alarm(LONGEST_BRANCH_SECONDS)
            return True
        os.close(there)
        with os.fdopen(here, "rb") as answer:
            told = answer.read()
        os.waitpid(child, 0)
        lost = f"the branch died, or did not end within {LONGEST_BRANCH_SECONDS} s"
        self.outcomes[number] = pickle.loads(told) if told else Outcome(lost)  # noqa: S301  our own child wrote it
        return False
