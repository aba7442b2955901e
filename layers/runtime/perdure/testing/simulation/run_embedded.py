"""One run on the embedded adapters: the loop, the user, the viewer, and processes that die and start again."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Coroutine
from datetime import datetime, timedelta
from itertools import count
from typing import Any, TypeVar

from perdure.agents.definition import AgentRegistry
from perdure.core.expected import expected_dispatches
from perdure.core.head import Head
from perdure.embedded.store import SqliteSessionStore
from perdure.errors import PerdureError, RequestError, StoreUnavailableError
from perdure.ports import Ports, SessionKey
from perdure.service import LOCAL_CALLER
from perdure.sinks import EventSink, Notice
from perdure.steps.commit import execute
from perdure.testing.simulation.deadlines import postpone_deadlines
from perdure.testing.simulation.embedded import Process, end_tasks, looking_on
from perdure.testing.simulation.ending import Ending, pending, waits
from perdure.testing.simulation.faults import Plan
from perdure.testing.simulation.inline import InlineLoop, open_inline
from perdure.testing.simulation.invariants import (
    ViolationError,
    check,
    check_books,
    check_calm,
    check_head,
    check_log,
    check_told,
)
from perdure.testing.simulation.scenario import Scenario
from perdure.testing.simulation.world import Told, World
from perdure.testing.virtual_time import LoopClock

T = TypeVar("T")

SESSION = "case-42"
KEY = SessionKey("local", SESSION)

LONGEST_SETTLING = timedelta(hours=3)
"""Virtual time after which work that is still expected counts as work that nobody will ever do."""

RESTART_SECONDS = 1.0
AFTERWARDS = timedelta(minutes=5)
"""Virtual time that passes at the end, in which late messages must not change anything."""

LONGEST_AWAY_SECONDS = AFTERWARDS.total_seconds() / 2
"""So that a viewer is back before the end."""

MAX_TRIES = 20


class _GoneError(Exception):
    """The process died while a client waited for its answer."""


class EmbeddedRun:
    """One scenario under one plan."""

    def __init__(self, scenario: Scenario, plan: Plan, seed: int) -> None:
        self.scenario = scenario
        self.plan = plan
        self.clock = LoopClock()
        self.world = World(self.clock, self._point, self._reach)
        self._chance = random.Random(seed)  # noqa: S311
        self._ids = count(1)
        self._keys = count(1)
        self._agents = AgentRegistry([scenario.agent(self.world)])
        self._database = open_inline()
        self._observer = SqliteSessionStore(self._database, warm_bytes=0)
        self._head = Head()
        self._violation: ViolationError | None = None
        self._ours: set[asyncio.Task[Any]] = set()
        self._reached: dict[str, asyncio.Event] = {}
        self._process: Process | None = None
        self._up = asyncio.Event()
        self._death = asyncio.Event()
        self._seen: list[int] = []
        self._delivered: list[int] = []
        self._refused = False

    def run(self) -> Ending:
        """Run it to its end.

        Raises:
            ViolationError: Something does not hold, or the session is stuck.
        """
        loop = InlineLoop(self.clock)
        try:
            return loop.run_until_complete(self._run())
        finally:
            loop.close()
            self._database.close()

    # --- the course of events ------------------------------------------------------------------------------------

    async def _run(self) -> Ending:
        self._ours.add(_current())
        course = self._task(self._go_through())
        aside: list[asyncio.Task[None]] = [self._task(self._keep_alive()), self._task(self._watch())]
        try:
            everybody: set[asyncio.Task[Any]] = {course, *aside}
            await asyncio.wait(everybody, return_when=asyncio.FIRST_COMPLETED)
            for task in aside:
                if task.done():  # neither ever ends by itself
                    task.result()
            return await course
        finally:
            course.cancel()
            for task in aside:
                task.cancel()
            await asyncio.gather(course, *aside, return_exceptions=True)
            await self._end_process()

    async def _go_through(self) -> Ending:
        await self.scenario.script(self)
        await self.settled()
        self.plan.armed = False
        before = await self._ending()
        await self.clock.sleep(AFTERWARDS.total_seconds())
        after = await self._ending()
        check(before == after, "something changed after everything was over")
        await self._check_viewer()
        if self.scenario.sink:
            check_told(self._delivered, await self._stored(), "a sink")
        if self._violation is not None:
            raise self._violation
        return after

    async def _keep_alive(self) -> None:
        """Start a process, and another one whenever it died."""
        while True:
            self._death.clear()
            process = Process(
                self._database,
                self.clock,
                self._ids,
                self._agents,
                self.plan,
                self._chance,
                self._committed,
                self._death.set,
                sinks=[EventSink("audit", self._take)] if self.scenario.sink else (),
                hot=self.scenario.hot,
            )
            self._process = process
            starting = asyncio.get_running_loop().create_task(process.start())
            dying = self._task(_wait(self._death))
            await asyncio.wait({starting, dying}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not self._death.is_set():
                with contextlib.suppress(
                    PerdureError
                ):  # a store that is silent: the process ends, and is started again
                    starting.result()
                    self._up.set()
                    await dying
            self._up.clear()
            dying.cancel()
            await self._end_process()
            await self.clock.sleep(RESTART_SECONDS)

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()
            await end_tasks(asyncio.all_tasks() - {task for task in self._ours if not task.done()})

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._ours.add(task)
        return task

    async def _ask(self, work: Any) -> Any:
        """Let the process answer a client, who hears of it when the process dies."""
        if not self._up.is_set():
            await self._up.wait()
        process = self._process
        assert process is not None
        asking = asyncio.get_running_loop().create_task(work(process.service))
        await asyncio.wait({asking})
        if asking.cancelled() or not process.alive:
            if not asking.cancelled():
                asking.exception()
            raise _GoneError
        return asking.result()

    # --- the world's -----------------------------------------------------------------------------------------------

    async def _point(self, name: str) -> None:
        process = self._process
        assert process is not None
        await process.point(name)

    async def _reach(self, moment: str) -> None:
        self._reached.setdefault(moment, asyncio.Event()).set()

    async def _committed(self) -> None:
        """Check HEAD after a commit that may have landed."""
        head = await self._stored()
        if head.version != self._head.version:
            try:
                check_head(self._head, head)
            except ViolationError as violation:
                self._violation = self._violation or violation
            self._head = head

    async def _stored(self) -> Head:
        self._observer.forget()
        return (await self._observer.load(KEY)).head

    async def _ending(self) -> Ending:
        self._observer.forget()
        log = await self._observer.read(KEY)
        if self._violation is not None:
            raise self._violation
        check_log(log.head, log.entries)
        if not self.plan.struck:
            check_calm(log.entries)
        ending = Ending.of(log.head, log.entries)
        check_books(ending, self.world)
        return ending

    async def _watch(self) -> None:
        """Be a viewer that comes back with its cursor whenever it was cut off, and goes away when nothing happens."""
        looking_on.set(True)
        cursor: str | None = None
        away = 0.0
        while True:
            try:
                page = await self._ask(lambda s, c=cursor: s.events(LOCAL_CALLER, SESSION, after=c, wait_seconds=20))
            except (_GoneError, PerdureError):
                await self.clock.sleep(RESTART_SECONDS)
                continue
            cursor = page["cursor"]
            self._seen += [event["sequence"] for event in page["events"] if "sequence" in event]
            away = 0.0 if page["events"] else min(2 * away + 1, LONGEST_AWAY_SECONDS)
            await self.clock.sleep(away)

    async def _take(self, notice: Notice) -> None:
        """Be a sink that does not take what it is given first."""
        await self._point("sink")
        if not self._refused:
            self._refused = True
            raise ConnectionError("the sink is down")
        self._delivered += [event["sequence"] for event in notice.events]

    async def _check_viewer(self) -> None:
        head = await self._stored()
        check(self._seen == list(range(1, head.event_sequence + 1)), f"a viewer saw the events {self._seen}")

    # --- the user --------------------------------------------------------------------------------------------------

    async def send(self, text: str, *, key: str | None = None, **more: str) -> str:
        key = key or f"key-{next(self._keys)}"
        reply = await self._persist(
            lambda s: s.send_input(LOCAL_CALLER, SESSION, text=text, idempotency_key=key, **more)
        )
        return reply if isinstance(reply, str) else "duplicate" if reply["duplicate"] else "accepted"

    async def approve(self, approved: bool = True) -> str:
        return await self._decide("approval", approved=approved)

    async def answer(self, text: str) -> str:
        return await self._decide("question", answer=text)

    async def _decide(self, kind: str, **decision: Any) -> str:
        head = await self._stored()
        answer = "nothing"
        for interrupt in pending(head, kind):
            key = f"key-{next(self._keys)}"
            reply = await self._persist(
                lambda s, i=interrupt, k=key: s.resolve_interrupt(
                    LOCAL_CALLER, SESSION, i, **decision, idempotency_key=k
                )
            )
            answer = reply if isinstance(reply, str) else reply["result"]
        return answer

    async def stop(self) -> str:
        key = f"key-{next(self._keys)}"
        reply = await self._persist(lambda s: s.stop(LOCAL_CALLER, SESSION, idempotency_key=key))
        return reply if isinstance(reply, str) else str(reply["result"])

    async def stop_as_shown(self) -> str:
        shown = await self._persist(lambda s: s.events(LOCAL_CALLER, SESSION))
        return await self.do("stop", frontier=shown["cursor"])

    async def do(self, operation: str, **arguments: Any) -> str:
        key = f"key-{next(self._keys)}"
        reply = await self._persist(
            lambda s: getattr(s, operation)(LOCAL_CALLER, SESSION, **arguments, idempotency_key=key)
        )
        return reply if isinstance(reply, str) else str(reply.get("result", reply.get("delivered_as")))

    async def waits(self) -> tuple[str, ...]:
        return waits(await self._stored())

    def now(self) -> datetime:
        return self.clock.now()

    async def tell(self, command: Told) -> str:
        told = command(await self._stored())
        if told is None:
            return "nothing"
        done = await self._persist(lambda _: execute(self._ports, KEY, told))
        return done if isinstance(done, str) else str(done.reply["result"])

    @property
    def _ports(self) -> Ports:
        assert self._process is not None
        return self._process.ports

    async def inbox(self) -> tuple[str, ...]:
        return tuple(message.message_id for message in (await self._stored()).inbox)

    async def _persist(self, work: Any) -> Any:
        for _ in range(MAX_TRIES):
            try:
                return await self._ask(work)
            except RequestError as error:
                return error.code
            except (_GoneError, StoreUnavailableError):
                await self.clock.sleep(RESTART_SECONDS)
        raise ViolationError("the runtime never answered its user")

    async def postpone_deadlines(self, by: timedelta) -> bool:
        async def unstruck() -> bool:
            looking_on.set(True)
            await self._up.wait()
            assert self._process is not None
            moved = await postpone_deadlines(self._process.ports, KEY, by)
            await self._committed()
            return moved

        return await self._task(unstruck())

    async def when(self, moment: str) -> None:
        reached = self._reached.setdefault(moment, asyncio.Event())
        settled = self._task(self.settled())
        waiting = self._task(_wait(reached))
        await asyncio.wait({settled, waiting}, return_when=asyncio.FIRST_COMPLETED)
        for task in (settled, waiting):
            task.cancel()
        await asyncio.gather(settled, waiting, return_exceptions=True)

    async def settled(self) -> None:
        give_up_at = self.clock.now() + LONGEST_SETTLING
        quiet = 0
        while quiet < 2:
            await self.clock.sleep(1)
            head = await self._stored()
            expected = expected_dispatches(head)
            quiet = quiet + 1 if self._up.is_set() and not expected else 0
            if self.clock.now() > give_up_at:
                raise ViolationError(f"nobody will ever run {[(d.step_id, d.attempt) for d in expected]}")

    async def wait(self, time: timedelta) -> None:
        await self.clock.sleep(time.total_seconds())


def _current() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def run_embedded(scenario: Scenario, plan: Plan, seed: int = 0) -> Ending:
    """Run a scenario on the embedded adapters; see `EmbeddedRun.run`."""
    return EmbeddedRun(scenario, plan, seed).run()
