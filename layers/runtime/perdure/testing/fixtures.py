"""A stage for steps: all ports in one process, on a virtual clock, and nothing runs but what a test runs.

    async with open_stage(agent) as stage:
        await stage.send("Where is order 7?")
        await stage.run_all()
        assert (await stage.snapshot())["state"]["status"] == "waiting_for_user_message"

State is in SQLite `:memory:`; the queue and the timers only collect what was sent.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any, cast

from perdure.access import Authorize
from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.core.commands import ToolFinished
from perdure.core.entries import Entry
from perdure.core.expected import Dispatch, Timer
from perdure.core.head import Head
from perdure.core.public import public_calls
from perdure.core.schedules import TIMER_PREFIX as SCHEDULES
from perdure.embedded.database import Database
from perdure.embedded.leases import SqliteLeases
from perdure.embedded.live import EmbeddedLive
from perdure.embedded.store import SqliteSessionStore
from perdure.ports import Leases, Ports, Results, SessionKey, SessionStore
from perdure.service import LOCAL_CALLER, Caller, Service
from perdure.session import BoundService, Session
from perdure.steps.base import HotTurn, StepDeps, StepMessage
from perdure.steps.call_tool import call_single_attempt_tool, call_tool
from perdure.steps.run_model import run_model
from perdure.steps.tasks import cancel_tool_task, poll_tool_task
from perdure.steps.waking import fire_timer
from perdure.steps.write_title import write_title
from perdure.testing.clock import VirtualClock

JsonObject = dict[str, Any]

STEPS = {
    "run_model": run_model,
    "call_tool": call_tool,
    "call_single_attempt_tool": call_single_attempt_tool,
    "poll_tool_task": poll_tool_task,
    "write_title": write_title,
    "cancel_tool_task": cancel_tool_task,
}

SESSION = SessionKey("local", "s-1")


@dataclass
class CollectingQueue:
    """`StepQueue` that delivers nothing by itself. `sent` holds what waits, `all_sent` everything ever sent."""

    clock: VirtualClock
    sent: list[tuple[SessionKey, Dispatch]] = field(default_factory=list)
    all_sent: list[tuple[SessionKey, Dispatch]] = field(default_factory=list)

    async def send(self, key: SessionKey, dispatch: Dispatch) -> None:
        self.sent.append((key, dispatch))
        self.all_sent.append((key, dispatch))

    def take(self) -> StepMessage | None:
        """Take the oldest message whose time has come, or None."""
        now = self.clock.now()
        for place, (key, dispatch) in enumerate(self.sent):
            if dispatch.not_before is None or dispatch.not_before <= now:
                del self.sent[place]
                return StepMessage.of(key, dispatch)
        return None

    def next_time(self) -> datetime | None:
        """Return when the next message that waits may be taken, or None when none waits."""
        return min((d.not_before for _, d in self.sent if d.not_before is not None), default=None)


@dataclass
class CollectingTimers:
    """`Timers` that fire only by a test's hand. `pending` holds what is set."""

    pending: list[tuple[SessionKey, Timer]] = field(default_factory=list)

    async def set(self, key: SessionKey, timer: Timer) -> None:
        if (key, timer) not in self.pending:
            self.pending.append((key, timer))

    async def cancel(self, key: SessionKey, timer: Timer) -> None:
        if (key, timer) in self.pending:
            self.pending.remove((key, timer))


@dataclass
class CollectingResults:
    """`Results` in memory. `put_count` says how often one was put."""

    kept: dict[tuple[SessionKey, str, int], ToolFinished] = field(default_factory=dict)
    put_count: int = 0

    async def put(self, key: SessionKey, result: ToolFinished) -> None:
        self.put_count += 1
        self.kept.setdefault((key, result.call_id, result.attempt), result)

    async def of_turn(self, key: SessionKey, turn_id: str) -> Sequence[ToolFinished]:
        return [result for (owner, _, _), result in self.kept.items() if owner == key and result.turn_id == turn_id]


class Outside:
    """A port whose answers come from outside the event loop: no virtual time passes while one is awaited."""

    def __init__(self, port: Any, clock: VirtualClock) -> None:
        self._port = port
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if not inspect.iscoroutinefunction(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            with self._clock.working():
                return await method(*args, **kwargs)

        return call


@dataclass(kw_only=True)
class Stage:
    """One deployment, in which a test says what happens next. Methods act on the session `s-1` of the local user."""

    clock: VirtualClock
    deps: StepDeps
    service: Service
    queue: CollectingQueue
    timers: CollectingTimers
    live: EmbeddedLive
    database: Database

    @property
    def ports(self) -> Ports:
        return self.deps.ports

    @property
    def store(self) -> SessionStore:
        return self.deps.ports.store

    @property
    def leases(self) -> Leases:
        return self.deps.ports.leases

    async def send(self, text: str, session_id: str = "s-1", *, caller: Caller = LOCAL_CALLER, **more: Any) -> Any:
        """Send a message; returns the receipt."""
        return await self.service.send_input(caller, session_id, text=text, **more)

    async def approve(self, interrupt_id: str, *, approved: bool = True, **more: Any) -> Any:
        """Decide on an approval."""
        return await self.service.resolve_interrupt(LOCAL_CALLER, "s-1", interrupt_id, approved=approved, **more)

    async def stop(self, **more: Any) -> Any:
        """Stop the running turn."""
        return await self.service.stop(LOCAL_CALLER, "s-1", **more)

    def session(self, session_id: str = "s-1") -> Session:
        """Return the session as an application holds it."""
        return Session(BoundService(self.service, LOCAL_CALLER), session_id)

    def taken(self) -> StepMessage:
        """Take the next message off the queue; there has to be one."""
        message = self.queue.take()
        assert message is not None, f"no step is ready; waiting: {self.queue.sent}"
        return message

    async def run(self, message: StepMessage, **more: Any) -> None:
        """Run one step; the time jumps ahead while it can do nothing but wait."""
        await self.clock.run(STEPS[message.kind](self.deps, message, **more))

    async def run_next(self, **more: Any) -> StepMessage:
        """Run the step that is next in the queue, and return its message."""
        message = self.taken()
        await self.run(message, **more)
        return message

    async def run_all(self) -> list[StepMessage]:
        """Run steps until none is left, those that were sent for later included; returns their messages."""
        ran = []
        while True:
            message = self.queue.take()
            if message is not None:
                await self.run(message)
                ran.append(message)
            elif (later := self.queue.next_time()) is not None:
                await self.clock.advance((later - self.clock.now()).total_seconds())
            else:
                return ran

    async def skip_timers(self) -> int:
        """Jump to every timer that is set, one after another, and fire it; returns how many fired.

        What a timer makes ready is left to `run_all`. A schedule that comes again and again is skipped to once: its
        next occurrence stays set, unless another timer is as late or later.
        """
        fired = 0
        skipped: set[tuple[SessionKey, str]] = set()
        while waiting := [(key, timer) for key, timer in self.timers.pending if (key, timer.timer_id) not in skipped]:
            due_at = min(timer.due_at for _, timer in waiting)
            await self.clock.advance(max((due_at - self.clock.now()).total_seconds(), 0))
            due = [(key, timer) for key, timer in self.timers.pending if timer.due_at <= self.clock.now()]
            skipped |= {(key, timer.timer_id) for key, timer in due if timer.timer_id.startswith(SCHEDULES)}
            fired += len(due)
            await self.fire_timers()
        return fired

    async def fire_timers(self) -> None:
        """Fire the timers whose time has come."""
        for key, timer in list(self.timers.pending):
            if timer.due_at <= self.clock.now():
                self.timers.pending.remove((key, timer))
                await fire_timer(self.deps, key, timer.timer_id, timer.fence)

    async def head(self, session_id: str = "s-1") -> Head:
        """Return HEAD as it is stored."""
        return (await self.store.load(SessionKey("local", session_id))).head

    async def entries(self, session_id: str = "s-1") -> tuple[Entry, ...]:
        """Return the session's log."""
        return (await self.store.read(SessionKey("local", session_id))).entries

    async def events(self, session_id: str = "s-1", **more: Any) -> list[JsonObject]:
        """Return the durable events, and the progress of what runs."""
        page = await self.service.events(LOCAL_CALLER, session_id, **more)
        return cast("list[JsonObject]", page["events"])

    async def event_types(self) -> list[str]:
        return [event["type"] for event in await self.events()]

    async def snapshot(self, session_id: str = "s-1") -> JsonObject:
        return await self.service.snapshot(LOCAL_CALLER, session_id)

    async def results(self) -> dict[str, tuple[str, str]]:
        """Return status and whole text of every tool call of the latest turn, by the tool's name."""
        head = await self.head()
        turn = head.turn or head.last_turn
        calls = public_calls(await self.entries(), turn.turn_id if turn else "", head)
        return {call["tool_name"]: (call["status"], call.get("output") or call.get("error", "")) for call in calls}

    async def transcript(self) -> list[tuple[str, str]]:
        """Return `(role, text)` of every message; a call is shown as `name(…)`, a result as `status: output`."""
        return [(m["role"], " ".join(map(_shown, m["parts"]))) for m in (await self.snapshot())["messages"]]


def _shown(part: JsonObject) -> str:
    if part["type"] == "tool_call":
        return f"{part['tool_name']}(…)"
    if part["type"] == "tool_result":
        return f"{part['status']}: {part['output']}"
    return f"file {part['reference']}" if part["type"] == "file" else str(part["text"])


@asynccontextmanager
async def open_stage(
    *agents: AgentDefinition,
    clock: VirtualClock | None = None,
    wrap_store: Callable[[SessionStore], Any] = lambda store: store,
    in_process: bool = True,
    progress_interval_seconds: float = 0.0,
    hot: HotTurn | None = None,
    results: Results | None = None,
    authorize: Authorize | None = None,
) -> AsyncIterator[Stage]:
    """Open a stage with these agents; the first is the default.

    Args:
        clock: Share one with a `ScriptedModel` that takes its time.
        wrap_store: Puts something between the steps and the store, such as a fault.
        in_process: False: act as on AWS, where two ports are asked side by side.
        hot: Whether a model step's worker goes on with the next step itself.
        authorize: Says who else than its owner may do what to a session.
        results: Where outcomes wait for a common commit, such as `CollectingResults`.
    """
    clock = clock or VirtualClock()
    ids = count(1)
    async with Database.open(":memory:") as database:
        queue, timers, live = CollectingQueue(clock), CollectingTimers(), EmbeddedLive(clock)
        ports = Ports(
            store=wrap_store(cast(SessionStore, Outside(SqliteSessionStore(database), clock))),
            leases=cast(Leases, Outside(SqliteLeases(database), clock)),
            queue=queue,
            timers=timers,
            live=live,
            clock=clock,
            new_id=lambda: f"id{next(ids):030d}",
            in_process=in_process,
            progress_interval_seconds=progress_interval_seconds,
            results=results,
        )
        deps = StepDeps(ports=ports, agents=AgentRegistry(_as_list(agents)), hot=hot)
        yield Stage(
            clock=clock,
            deps=deps,
            service=Service(deps, authorize=authorize),
            queue=queue,
            timers=timers,
            live=live,
            database=database,
        )


def redeployed(stage: Stage, *agents: AgentDefinition) -> Stage:
    """Return the same sessions under a new deployment with other agents."""
    deps = StepDeps(ports=stage.ports, agents=AgentRegistry(_as_list(agents)))
    return Stage(
        clock=stage.clock,
        deps=deps,
        service=Service(deps),
        queue=stage.queue,
        timers=stage.timers,
        live=stage.live,
        database=stage.database,
    )


def _as_list(agents: Sequence[AgentDefinition]) -> list[AgentDefinition]:
    return list(agents)
