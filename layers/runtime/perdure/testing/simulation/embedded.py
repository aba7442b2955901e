"""The embedded runtime in a simulation: one database that outlives its processes, and ports with faults around them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import random
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any, cast

from perdure.agents.definition import AgentRegistry
from perdure.embedded.database import Database
from perdure.embedded.leases import SqliteLeases
from perdure.embedded.live import EmbeddedLive
from perdure.embedded.queue import EmbeddedQueue, EmbeddedTimers
from perdure.embedded.sinks import SinkPumps
from perdure.embedded.store import SqliteSessionStore
from perdure.embedded.turnstile import Turnstiles
from perdure.embedded.worker import EmbeddedWorker
from perdure.errors import StoreUnavailableError
from perdure.ports import Clock, Ports
from perdure.service import Service
from perdure.sinks import EventSink
from perdure.steps.base import HotTurn, StepDeps
from perdure.testing.simulation import faults
from perdure.testing.simulation.faults import Crash, Kind, Plan

LONGEST_CALL_SECONDS = 0.004
"""A call takes between nothing and this, by seed; that is what shuffles who comes first."""

KINDS: dict[str, Kind] = {
    "load": "read",
    "peek": "read",
    "read": "read",
    "find_commit": "read",
    "list_sessions": "read",
    "sessions_due": "read",
    "read_lease": "read",
    "commit": "write",
    "postpone": "write",
    "claim": "write",
    "renew": "write",
    "revoke": "write",
    "save_checkpoint": "write",
    "send": "send",
    "set": "send",
    "cancel": "send",
    "publish": "word",
    "changed": "word",
}
"""Methods of the ports that are fault points. The others belong to the process itself."""

NOT_IN_ANY_WAY_LATE = ("set", "cancel")
"""Of a timer that is set late or twice nobody would notice."""

looking_on: contextvars.ContextVar[bool] = contextvars.ContextVar("looking_on", default=False)
"""Set where somebody only looks: such calls are no points, and nothing strikes them."""


class Process:
    """One life of the embedded runtime.

    Args:
        committed: Called after every commit that may have landed.
        died: Called once, when a crash strikes.
        sinks: Where events are delivered.
        hot: Whether a worker goes on with the next step itself, as the product's embedded runtime does.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        ids: count[int],
        agents: AgentRegistry,
        plan: Plan,
        chance: random.Random,
        committed: Callable[[], Awaitable[None]],
        died: Callable[[], None],
        *,
        sinks: Sequence[EventSink] = (),
        hot: bool = True,
    ) -> None:
        self.alive = True
        self._clock = clock
        self._plan = plan
        self._chance = chance
        self._committed = committed
        self._died = died
        self._refusing = 0
        self._looked = False
        self._late: set[asyncio.Task[None]] = set()
        queue, timers = EmbeddedQueue(clock), EmbeddedTimers(clock)
        leases = SqliteLeases(database)
        self._pumps = SinkPumps(sinks, database, clock) if sinks else None
        told = self._pumps.committed if self._pumps is not None else None
        self.ports = Ports(
            store=self._around("store", SqliteSessionStore(database, committed=told)),
            leases=self._around("leases", leases),
            queue=self._around("queue", queue),
            timers=self._around("timers", timers),
            live=self._around("live", EmbeddedLive(clock)),
            clock=clock,
            new_id=lambda: f"id{next(ids):08d}",
            in_process=True,
            turnstile=Turnstiles(),
        )
        deps = StepDeps(ports=self.ports, agents=agents, hot=HotTurn(any_tool=True) if hot else None)
        self.service = Service(deps)
        self.worker = EmbeddedWorker(deps, queue, timers, leases)
        self._close = (queue.close, timers.close)

    async def start(self) -> None:
        """Pick up what the last process left, and begin to work."""
        if self._pumps is not None:
            await self._pumps.start(self.ports.store)
        await self.worker.start()

    def close(self) -> None:
        """Let nothing more happen."""
        self.alive = False
        for close in self._close:
            close()

    def crash(self) -> Crash:
        """Die. Every further call of this process fails, and nothing of it has an effect."""
        if self.alive:
            self.alive = False
            self._died()
        return Crash()

    async def point(self, name: str) -> None:
        """Be a point in the body of a model or a tool."""
        if not self.alive:
            raise Crash
        fault = self._plan.passes(f"body.{name}", "body")
        await self._take_time()
        if fault == faults.CRASH_BEFORE:
            raise self.crash()
        if fault == faults.SLOW:
            await self._clock.sleep(faults.SLOW_SECONDS)
        if not self.alive:
            raise Crash

    def _around(self, port_name: str, port: Any) -> Any:
        return _Around(self, port_name, port)

    async def call(self, name: str, method: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Make one call, with whatever the plan has in store for it."""
        if not self.alive:
            raise Crash
        if looking_on.get() or (method == "sessions_due" and await self._looks_again(work)):
            return await work()
        fault = self._plan.passes(name, KINDS[method])
        await self._take_time()
        await self._before(fault, KINDS[method])
        if fault in (faults.LATE, faults.REORDER) and method not in NOT_IN_ANY_WAY_LATE:
            seconds = faults.LATE_SECONDS if fault == faults.LATE else faults.REORDER_SECONDS
            self._later(seconds, work)
            return None
        try:
            answer = await work()
        finally:
            if method == "commit":
                self._looked = False
                await self._committed()
        if fault == faults.DUPLICATE:
            await work()
        if fault == faults.CRASH_AFTER:
            raise self.crash()
        if fault == faults.LOST_ANSWER:
            raise StoreUnavailableError("the answer was lost")
        await asyncio.sleep(0)
        return answer

    async def _looks_again(self, look: Callable[[], Awaitable[Any]]) -> bool:
        """Whether a sweep finds nothing, as the one before it since the last commit: of a long wait one is a point."""
        if self._plan.armed and await look():
            return False
        looked, self._looked = self._looked, True
        return looked

    async def _before(self, fault: str | None, kind: Kind) -> None:
        if not self.alive:
            raise Crash
        if fault == faults.CRASH_BEFORE:
            raise self.crash()
        if fault == faults.SLOW:
            await self._clock.sleep(faults.SLOW_SECONDS)
            if not self.alive:
                raise Crash
        if fault == faults.THROTTLE:
            self._refusing = 3
        if self._refusing and kind in ("read", "write"):
            self._refusing -= 1
            raise StoreUnavailableError("too many requests")
        if fault == faults.ERROR:
            raise StoreUnavailableError("no answer")

    async def _take_time(self) -> None:
        if self._plan.armed:
            await self._clock.sleep(self._chance.random() * LONGEST_CALL_SECONDS)

    def _later(self, seconds: float, work: Callable[[], Awaitable[Any]]) -> None:
        async def deliver() -> None:
            await self._clock.sleep(seconds)
            if self.alive:
                await work()

        task = asyncio.get_running_loop().create_task(deliver())
        self._late.add(task)
        task.add_done_callback(self._late.discard)


class _Around:
    """A port whose calls are fault points."""

    def __init__(self, process: Process, name: str, port: Any) -> None:
        self._process = process
        self._name = name
        self._port = port

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._port, method)
        if method not in KINDS:
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._process.call(f"{self._name}.{method}", method, lambda: found(*args, **kwargs))

        setattr(self, method, call)
        return cast(Any, call)


async def end_tasks(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel the tasks of a process that is gone, and wait until none of them is left."""
    for _ in range(100):
        left = {task for task in tasks if not task.done()}
        if not left:
            return
        for task in left:
            task.cancel()
        with contextlib.suppress(BaseException):
            await asyncio.wait(left, timeout=1)
    raise AssertionError(f"tasks of a dead process live on: {tasks}")
