"""What a scenario of the catalogue is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from perdure.testing.simulation.agents import Build
from perdure.testing.simulation.ending import Ending, differences
from perdure.testing.simulation.world import User

Compare = Callable[[Ending, Ending, bool], list[str]]


def same(clean: Ending, run: Ending, may_be_unknown: bool) -> list[str]:
    """Return what differs, where nothing may differ but an unknown outcome."""
    return differences(clean, run, may_be_unknown=may_be_unknown)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One course of events.

    Attributes:
        script: What the user does.
        compare: Returns what may not differ between the clean run and another.
        large: Whether a run takes long; on AWS only a sample of its cases is run.
        hot: Whether the embedded runtime goes on with the next step itself; else each goes through the queue.
        viewer: Whether somebody watches: on AWS through a WebSocket, whose calls are points too.
        sink: Whether events are delivered to a sink, which fails the first time; the calls on their way are points too.
        given_up: Whether each message of a call becomes a dead letter, too, as one of its copies may on AWS that
            was received too often while another copy is with a worker.
    """

    name: str
    about: str
    agent: Build
    script: Callable[[User], Awaitable[None]]
    compare: Compare = same
    large: bool = False
    hot: bool = True
    viewer: bool = False
    sink: bool = False
    given_up: bool = False
