"""Races in a chosen order (spec TEST-05): every port call stops, and a driver says which one goes on.

    async with Race(clock) as race:
        race.start("anna", execute(race.around(ports, "anna"), key, approve))
        race.start("bert", execute(race.around(ports, "bert"), key, reject))
        outcomes = await race.run(in_order("anna store.load", "bert store.load", "bert store.commit"))

Between two port calls a worker shares nothing with the others, so the order of the calls is the whole race. Calls are
made one at a time, or several at once where an order says so; `Race.trace` keeps when each began and ended.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from types import TracebackType
from typing import Any, Self, cast

from perdure.errors import StaleSessionError
from perdure.ports import Leases, Ports, Results, SessionStore, StepQueue, Timers
from perdure.testing.clock import VirtualClock

MAX_CALLS = 100_000
"""Port calls after which a race is called endless. Our own choice: 64 writers in lockstep need about 20,000."""

TEARDOWN_SECONDS = 10.0
"""Real time that cancelled workers have to end."""


class BarrierError(AssertionError):
    """A race went on in a way that its order does not allow, or did not end."""


@dataclass(frozen=True, slots=True)
class PortCall:
    """One call of a port: who makes it, and which method, such as `store.commit`."""

    number: int
    worker: str
    method: str

    def __str__(self) -> str:
        return f"{self.worker} {self.method}"


@dataclass(slots=True)
class Span:
    """When a call began and ended, in moments of the race; `error` is the class of what it raised."""

    call: PortCall
    began: int
    ended: int | None = None
    error: str | None = None

    def __str__(self) -> str:
        return f"{self.call}{f' ({self.error})' if self.error else ''}"


@dataclass(slots=True)
class Trace:
    """What happened, as an exact partial order: a call precedes another if it ended before the other began."""

    spans: list[Span] = field(default_factory=list)

    def find(self, worker: str, method: str, index: int = 0) -> Span:
        """Return a worker's n-th call of a method; -1 is its last."""
        found = [span for span in self.spans if (span.call.worker, span.call.method) == (worker, method)]
        if not found:
            raise BarrierError(f"{worker} never called {method}; there were:\n{self}")
        return found[index]

    @staticmethod
    def precedes(first: Span, second: Span) -> bool:
        """Whether one call ended before the other began; False both ways: they ran at once."""
        return first.ended is not None and first.ended < second.began

    def lost(self) -> Counter[str]:
        """Return how often each worker's commit came too late."""
        return Counter(span.call.worker for span in self.spans if span.error == StaleSessionError.__name__)

    def calls(self, method: str) -> int:
        """Return how often a method was called."""
        return sum(span.call.method == method for span in self.spans)

    def __str__(self) -> str:
        return "\n".join(str(span) for span in self.spans)


Order = Callable[[Sequence[PortCall]], Sequence[PortCall]]
"""Chooses of the calls that wait, oldest first, those that go on together; none of them: the order can't be kept."""


def in_order(*steps: str) -> Order:
    """Let these calls go on one after another, `"<worker> <method>"` each, then the others as they come.

    Calls that the order does not name wait until it is over, unless nothing else can bring the next one about.
    """
    left = list(steps)

    def choose(waiting: Sequence[PortCall]) -> Sequence[PortCall]:
        if not left:
            return waiting[:1]
        for call in waiting:
            if str(call) == left[0]:
                left.pop(0)
                return [call]
        worker = left[0].split(" ", maxsplit=1)[0]
        on_its_way = [call for call in waiting if call.worker == worker and str(call) not in left]
        return on_its_way[:1]

    return choose


def seeded(seed: int) -> Order:
    """Let one call at a time go on, drawn at random; the same seed makes the same race."""
    chance = random.Random(seed)  # noqa: S311  a race, no secret
    return lambda waiting: [chance.choice(waiting)]


def together(waiting: Sequence[PortCall]) -> Sequence[PortCall]:
    """Let everybody go on at once, so that the calls race in the adapter itself."""
    return waiting


def lockstep(waiting: Sequence[PortCall]) -> Sequence[PortCall]:
    """Let nobody commit before all are about to: of each round one wins. No order makes more commits too late."""
    first = next((call for call in waiting if call.method != "store.commit"), waiting[0])
    return [first]


class Race:
    """Several workers, the order of whose port calls a test chooses.

    Args:
        clock: The clock of their ports. It moves on only while no call waits and no worker can go on.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self.trace = Trace()
        self._clock = clock
        self._workers: dict[str, asyncio.Task[Any]] = {}
        self._waiting: dict[PortCall, asyncio.Future[None]] = {}
        self._numbers = count(1)
        self._moments = count(1)
        self._open = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel what still runs, and make sure that it has ended."""
        self._open = True
        for task in self._workers.values():
            task.cancel()
        if self._workers:
            _, left = await asyncio.wait(self._workers.values(), timeout=TEARDOWN_SECONDS)
            if left and error is None:
                raise BarrierError(f"{len(left)} workers did not end in {TEARDOWN_SECONDS} s of being cancelled")

    def around(self, ports: Ports, worker: str) -> Ports:
        """Return ports whose store, leases, results, queue and timers stop before each call that this worker makes."""
        return replace(
            ports,
            store=cast(SessionStore, _Stopping(self, worker, "store", ports.store)),
            leases=cast(Leases, _Stopping(self, worker, "leases", ports.leases)),
            results=ports.results and cast(Results, _Stopping(self, worker, "results", ports.results)),
            queue=cast(StepQueue, _Stopping(self, worker, "queue", ports.queue)),
            timers=cast(Timers, _Stopping(self, worker, "timers", ports.timers)),
        )

    def start(self, worker: str, work: Coroutine[Any, Any, Any]) -> None:
        """Have a worker begin; it goes on with `run`."""
        if worker in self._workers:
            work.close()
            raise BarrierError(f"there is a worker {worker!r} already: give each one a name of its own")
        self._workers[worker] = asyncio.create_task(work, name=worker)

    async def run(self, order: Order, *, until: Callable[[], bool] = lambda: False) -> dict[str, Any]:
        """Drive the race to its end, or until something holds; afterwards calls no longer stop.

        Returns:
            What each worker that has ended returned, or the error that it raised.

        Raises:
            BarrierError: The order can't be kept, or the race has no end.
        """
        for _ in range(MAX_CALLS):
            await self._clock.settle()
            if until() or all(task.done() for task in self._workers.values()):
                break
            if not self._waiting:
                if not await self._clock.skip():
                    raise BarrierError(f"nobody can go on; so far:\n{self.trace}")
                continue
            waiting = sorted(self._waiting, key=lambda call: call.number)
            chosen = order(waiting)
            if not chosen:
                raise BarrierError(f"the order can't be kept: {_listed(waiting)} wait; so far:\n{self.trace}")
            for call in chosen:
                self._waiting.pop(call).set_result(None)
        else:
            raise BarrierError(f"no end after {MAX_CALLS} port calls; of the latest:\n{Trace(self.trace.spans[-40:])}")
        return {name: _outcome(task) for name, task in self._workers.items() if task.done()}

    async def through(self, worker: str, method: str) -> None:
        """Let one worker alone go on until it has made this call, and no further."""
        order = in_order(f"{worker} {method}")
        before = len(self.trace.spans)

        def is_made() -> bool:
            return any(str(span.call) == f"{worker} {method}" and span.ended for span in self.trace.spans[before:])

        await self.run(order, until=is_made)

    async def free(self) -> dict[str, Any]:
        """Let everybody go on to the end without stops, and return their outcomes."""
        return await self.run(together)

    async def stop(self, worker: str, method: str) -> Span:
        """Stop a worker before a call until it is chosen. For `_Stopping`."""
        call = PortCall(next(self._numbers), worker, method)
        if not self._open:
            self._waiting[call] = asyncio.get_running_loop().create_future()
            try:
                await self._waiting[call]
            finally:
                self._waiting.pop(call, None)
        span = Span(call, next(self._moments))
        self.trace.spans.append(span)
        return span

    def ended(self, span: Span, error: BaseException | None) -> None:
        """Note how a call ended. For `_Stopping`."""
        span.ended = next(self._moments)
        span.error = type(error).__name__ if error is not None else None


class _Stopping:
    """A port of one worker."""

    def __init__(self, race: Race, worker: str, name: str, port: Any) -> None:
        self._race = race
        self._worker = worker
        self._name = name
        self._port = port

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if not callable(method) or name.startswith("_"):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            span = await self._race.stop(self._worker, f"{self._name}.{name}")
            try:
                answer = method(*args, **kwargs)
                if inspect.isawaitable(answer):
                    answer = await answer
            except BaseException as error:
                self._race.ended(span, error)
                raise
            self._race.ended(span, None)
            return answer

        return call


def _outcome(task: asyncio.Task[Any]) -> Any:
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception() or task.result()


def _listed(calls: Sequence[PortCall]) -> str:
    return ", ".join(str(call) for call in calls)
