"""Faults, the points where they strike, and the plan that says which strikes where.

A point is one call out of the product: of a port (embedded), of boto3 (AWS), or out of a model's or a tool's body.
Points are numbered as they are passed, from 1; with the same scenario, adapter and seed a number names the same call
up to the first fault that strikes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["read", "write", "send", "word", "body"]
"""What a call does: reads, writes, sends a message or sets a timer, tells viewers, or is a model or a tool at work."""

Timing = Literal["before", "after", "instead"]

CRASH_BEFORE = "crash_before"
CRASH_AFTER = "crash_after"
ERROR = "error"
LOST_ANSWER = "lost_answer"
REPEAT = "repeat"
DUPLICATE = "duplicate"
LATE = "late"
REORDER = "reorder"
THROTTLE = "throttle"
SLOW = "slow"

FAULTS: dict[str, str] = {
    CRASH_BEFORE: "the process (on AWS: the invocation) dies, and the call was never made",
    CRASH_AFTER: "the process dies right after the call took effect",
    ERROR: "the call fails and has no effect",
    LOST_ANSWER: "the call takes effect, and its answer is lost",
    REPEAT: "the SDK sends the call twice and returns the second answer (AWS)",
    DUPLICATE: "embedded: the message comes twice; AWS: another container gets the same event right now, and 5 s pass",
    LATE: "the message is delivered 90 s later",
    REORDER: "the message is delivered after those that follow",
    THROTTLE: "the call is refused for being one too many; embedded: so are the next two",
    SLOW: "the call is held up for 200 s, longer than a lease is good for; meanwhile everything else goes on",
}
"""All faults, by name."""

DEADLY = frozenset({CRASH_BEFORE, CRASH_AFTER, SLOW})
"""Faults after which the outcome of a call that runs once may be unknown; after any other one it has to be known."""

LATE_SECONDS = 90.0
"""Delay of a late message, in seconds: longer than the start lease (30 s), so the sweep has sent another by then."""

REORDER_SECONDS = 0.5
SLOW_SECONDS = 200.0
"""How long a slow call is held up, in seconds: longer than a lease and its grace (125 s) and the sweep (60 s)."""

_OF_ALL = (CRASH_BEFORE, ERROR, SLOW)
_OF_WRITES = (*_OF_ALL, CRASH_AFTER, LOST_ANSWER, THROTTLE)
_OF_KIND: dict[str, dict[Kind, tuple[str, ...]]] = {
    "embedded": {
        "read": (*_OF_ALL, THROTTLE),
        "write": _OF_WRITES,
        "send": (CRASH_BEFORE, CRASH_AFTER, DUPLICATE, LATE, REORDER),  # in memory: it neither fails nor takes time
        "word": (CRASH_BEFORE, CRASH_AFTER),
        "body": (CRASH_BEFORE, SLOW),
    },
    "aws": {
        "read": (*_OF_ALL, THROTTLE, DUPLICATE),
        "write": (*_OF_WRITES, REPEAT, DUPLICATE),
        "send": (*_OF_WRITES, REPEAT, DUPLICATE, LATE, REORDER),
        "word": (*_OF_WRITES, REPEAT),
        "body": (CRASH_BEFORE, SLOW, DUPLICATE),
    },
}


class Crash(BaseException):
    """The process is gone: no `except Exception` sees it, and nothing after it has an effect."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault at one point, from 1."""

    name: str
    at: int

    def __post_init__(self) -> None:
        if self.name not in FAULTS:
            raise ValueError(f"there is no fault {self.name!r}: use one of {', '.join(FAULTS)}")


@dataclass(frozen=True, slots=True)
class Point:
    """One call that was made: `name` is `port.method`, `service.Operation of function` or `body.moment`."""

    number: int
    name: str
    kind: Kind

    def faults(self, adapter: str) -> tuple[str, ...]:
        """Return the faults that make a difference at this point."""
        return _OF_KIND[adapter][self.kind]


@dataclass
class Plan:
    """The faults of one run, and the points that it has passed.

    Attributes:
        adapter: `embedded` or `aws`; it says which faults a point may meet.
        faults: In the order in which they strike.
        points: All calls so far.
        struck: The faults that did strike, each with the point.
        armed: Whether calls are counted and faults strike; a run that is over is only looked at.
    """

    adapter: str
    faults: tuple[Fault, ...] = ()
    points: list[Point] = field(default_factory=list)
    struck: list[tuple[Fault, Point]] = field(default_factory=list)
    armed: bool = True

    def passes(self, name: str, kind: Kind) -> str | None:
        """Count a call; returns the fault that strikes it, or None. One that can't happen to such a call does not."""
        if not self.armed:
            return None
        point = Point(len(self.points) + 1, name, kind)
        self.points.append(point)
        for fault in self.faults:
            if fault.at == point.number and fault.name in point.faults(self.adapter):
                self.struck.append((fault, point))
                return fault.name
        return None

    @property
    def may_leave_unknown(self) -> bool:
        """Whether a fault that struck may have made an outcome unknown."""
        return any(fault.name in DEADLY for fault, _ in self.struck)
