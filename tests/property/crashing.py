"""A deployment whose process dies at one exact port call, or whose store keeps silent there, and what follows."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.core.expected import expected_dispatches, sweep_due_at
from perdure.embedded.live import EmbeddedLive
from perdure.errors import StoreUnavailableError
from perdure.service import Service
from perdure.steps.base import StepDeps, StepMessage
from perdure.steps.recover import sweep, sweep_session_safely
from perdure.testing.clock import VirtualClock
from perdure.testing.fixtures import SESSION, STEPS, Stage, open_stage

FOR_EVER = datetime(9999, 1, 1, tzinfo=UTC)

MOST_MOVES = 60
"""Messages, waits and sweeps after which a session counts as stuck; a turn of the scenarios takes about 10."""


class Crash(BaseException):
    """The process is gone: nothing of it happens after this."""


@dataclass
class Fault:
    """What happens at one port call, from 1; at 0 nothing does, and the calls are only counted.

    Attributes:
        landed: Whether that call takes effect.
        crash: The process dies there. False: the store does not answer, and the process lives on.
        calls: The calls so far, as `port.method`.
        hit: Whether the call was reached.
    """

    at: int = 0
    landed: bool = False
    crash: bool = True
    calls: list[str] = field(default_factory=list)
    hit: bool = False
    dead: bool = False

    async def around(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if self.dead:
            raise Crash
        self.calls.append(name)
        if len(self.calls) != self.at:
            return await call()
        self.hit = True
        if self.landed:
            await call()
        if self.crash:
            self.dead = True
            raise Crash
        raise StoreUnavailableError("no answer came")


class Faulty:
    """One port behind a fault."""

    def __init__(self, name: str, port: Any, fault: Fault) -> None:
        self._name = name
        self._port = port
        self._fault = fault

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._port, method)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._fault.around(f"{self._name}.{method}", lambda: found(*args, **kwargs))

        return call


@dataclass(kw_only=True)
class World:
    """One deployment under a fault.

    Attributes:
        real: The same deployment without it, to be looked at.
        at_once: After a crash another process starts on the same file, and looks after everything. False: as on AWS,
            queue and timers outlive a crash, and only the sweep finds what was in the hands of the dead.
    """

    real: Stage
    fault: Fault
    at_once: bool
    deps: StepDeps

    @property
    def service(self) -> Service:
        return Service(self.deps)

    @property
    def clock(self) -> VirtualClock:
        return self.real.clock

    async def ask(self, request: Callable[[Stage], Awaitable[Any]], *, meanwhile: float | None = None) -> Any:
        """Make a request as clients do: again, with the same key, when no answer came.

        Args:
            meanwhile: The steps in the queue run, and the first try comes this many seconds after they began.
        """
        stage = replace(self.real, deps=self.deps, service=self.service)
        messages = self._taken() if meanwhile is not None else []

        async def later() -> Any:
            await self.clock.sleep(meanwhile or 0)
            return await request(stage)

        while True:
            with contextlib.suppress(StoreUnavailableError):
                return (await self._survive([later(), *map(self._step, messages)]))[0]
            messages, meanwhile = [], None

    async def work(self) -> None:
        """Run steps, wait and sweep until only a person is awaited. What is expected can always be found."""
        for _ in range(MOST_MOVES):
            if messages := self._taken():
                with contextlib.suppress(StoreUnavailableError):
                    await self._survive(list(map(self._step, messages)))
            elif (later := self.real.queue.next_time()) is not None:
                await self.clock.advance((later - self.clock.now()).total_seconds())
            elif not await self._look_after():
                return
        raise AssertionError("the session never comes to rest")

    def _taken(self) -> list[StepMessage]:
        messages = []
        while (message := self.real.queue.take()) is not None:
            messages.append(message)
        return messages

    async def _step(self, message: StepMessage) -> None:
        with contextlib.suppress(StoreUnavailableError):  # the worker logs it and takes the next
            await STEPS[message.kind](self.deps, message)

    async def _survive(self, works: Sequence[Awaitable[Any]]) -> list[Any]:
        """Do several things at once; a crash ends them all."""

        async def together() -> list[Any]:
            tasks = [asyncio.ensure_future(work) for work in works]
            try:
                return await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        try:
            return await self.clock.run(together())
        except Crash:
            self.fault.dead = False
            if self.at_once:
                await self._start_again()
            raise StoreUnavailableError("the server died") from None

    async def _start_again(self) -> None:
        """Lose what was in memory, and do what the embedded worker does when it starts."""
        real = self.real
        real.queue.sent.clear()
        real.timers.pending.clear()
        real.store.forget()  # type: ignore[attr-defined]
        self.deps = _deps(real, self.fault, self.deps.agents)
        await real.leases.expire_earlier_leases()  # type: ignore[attr-defined]
        for key in await real.store.sessions_due(FOR_EVER):
            await sweep_session_safely(real.deps, key, at_start=True)

    async def _look_after(self) -> bool:
        """Let the time come at which the sweep looks, and sweep. False: nothing is expected any more."""
        head = await self.real.head()
        if not expected_dispatches(head):
            return False
        assert sweep_due_at(head) is not None
        assert list(await self.real.store.sessions_due(FOR_EVER)) == [SESSION], "the sweep would never find it"
        await self.clock.advance(30)
        with contextlib.suppress(StoreUnavailableError):
            await self._survive([sweep(self.deps)])
        return True


def _deps(real: Stage, fault: Fault, agents: AgentRegistry) -> StepDeps:
    ports = real.ports
    live = EmbeddedLive(real.clock)
    faulty: dict[str, Any] = {
        "store": Faulty("store", ports.store, fault),
        "leases": Faulty("leases", ports.leases, fault),
    }
    if fault.crash:  # the other ports are promised to answer, or lie in the same process
        faulty |= {
            "queue": Faulty("queue", ports.queue, fault),
            "timers": Faulty("timers", ports.timers, fault),
            "live": Faulty("live", live, fault),
        }
    return StepDeps(ports=replace(ports, **faulty), agents=agents)


@asynccontextmanager
async def open_world(
    agent: AgentDefinition, fault: Fault, *, at_once: bool, clock: VirtualClock
) -> AsyncIterator[World]:
    """Open a deployment of one agent under a fault."""
    async with open_stage(agent, clock=clock) as stage:
        yield World(real=stage, fault=fault, at_once=at_once, deps=_deps(stage, fault, stage.deps.agents))
