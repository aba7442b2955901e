"""The embedded runtime: agents, one SQLite file, and a worker in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from perdure.access import Authorize
from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.core.listing import SessionSearch
from perdure.embedded.clock import SystemClock, new_id
from perdure.embedded.database import Database
from perdure.embedded.leases import SqliteLeases
from perdure.embedded.live import EmbeddedLive
from perdure.embedded.queue import EmbeddedQueue, EmbeddedTimers
from perdure.embedded.sinks import SinkPumps
from perdure.embedded.store import SqliteSessionStore
from perdure.embedded.turnstile import Turnstiles
from perdure.embedded.worker import EmbeddedWorker
from perdure.ports import Clock, NewId, Ports
from perdure.service import LOCAL_CALLER, Caller, Service
from perdure.session import BoundService, Session
from perdure.signed_approvals import secret_bytes
from perdure.sinks import EventSink, check_sinks
from perdure.steps.base import HotTurn, StepDeps
from perdure.webhooks import Webhook

JsonObject = dict[str, Any]


FORCE_SECONDS = 5.0
"""How long steps that are aborted may take to let go, in seconds. Our own choice: a connection closes in less."""


SINK_GRACE_SECONDS = 5.0
"""How long sinks may take for the last events when a runtime closes, in seconds; the rest waits for the next start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """How a runtime closed. `remaining` steps were aborted, and are taken up at the next start; 0 when it settled."""

    outcome: Literal["settled", "timed_out"]
    remaining: int


class EmbeddedRuntime:
    """Durable sessions in one process. Use it as an async context manager; leaving it drains running steps.

    Attributes:
        service: The operations, for hosts that bring their own callers.
    """

    def __init__(
        self,
        path: str | Path,
        agents: Sequence[AgentDefinition],
        *,
        clock: Clock | None = None,
        new_id: NewId = new_id,
        grace_seconds: float = 10.0,
        authorize: Authorize | None = None,
        webhooks: Sequence[Webhook] = (),
        approval_secret: str | None = None,
        sinks: Sequence[EventSink] = (),
    ) -> None:
        check_sinks(sinks)
        for webhook in webhooks:
            webhook.secret()  # a server that could verify nothing must not start
        if approval_secret is not None:
            secret_bytes(approval_secret)
        self._path = path
        self._agents = AgentRegistry(agents)
        self._clock = clock or SystemClock()
        self._new_id = new_id
        self._grace_seconds = grace_seconds
        self._authorize = authorize
        self._webhooks = webhooks
        self._approval_secret = approval_secret
        self._sinks = sinks
        self._pumps: SinkPumps | None = None
        self._database: Database | None = None
        self._worker: EmbeddedWorker | None = None
        self.service: Service

    async def __aenter__(self) -> Self:
        database = await Database.open_aside(self._path)
        self._database = database
        queue, timers = EmbeddedQueue(self._clock), EmbeddedTimers(self._clock)
        leases = SqliteLeases(database)
        pumps = SinkPumps(self._sinks, database, self._clock) if self._sinks else None
        store = SqliteSessionStore(database, committed=pumps.committed if pumps is not None else None)
        ports = Ports(
            store=store,
            leases=leases,
            queue=queue,
            timers=timers,
            live=EmbeddedLive(self._clock),
            clock=self._clock,
            new_id=self._new_id,
            in_process=True,
            turnstile=Turnstiles(),
        )
        deps = StepDeps(ports=ports, agents=self._agents, hot=HotTurn(any_tool=True))
        self.service = Service(
            deps, authorize=self._authorize, webhooks=self._webhooks, approval_secret=self._approval_secret
        )
        self._worker = EmbeddedWorker(deps, queue, timers, leases)
        try:
            if pumps is not None:
                await pumps.start(store)
                self._pumps = pumps
            await self._worker.start()
        except BaseException:
            if pumps is not None:
                await pumps.stop(0)
            await asyncio.to_thread(database.close)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, grace_seconds: float | None = None, force_seconds: float = FORCE_SECONDS) -> Closed:
        """Begin nothing new, let steps that run finish, then abort the rest; spec SESS-23. Again, it does nothing.

        Cancelled, it aborts what runs, waits for nothing more, and lets go of the file.

        Args:
            grace_seconds: How long running steps may take to finish; None: what the runtime was opened with.
            force_seconds: How long aborted ones may take to let go; then they are left alone.
        """
        worker, database = self._worker, self._database
        self._worker = self._database = None
        pumps, self._pumps = self._pumps, None
        remaining, sink_grace = 0, 0.0
        try:
            if worker is not None:
                grace = self._grace_seconds if grace_seconds is None else grace_seconds
                remaining = await worker.stop(grace_seconds=grace, force_seconds=force_seconds)
            sink_grace = SINK_GRACE_SECONDS
        finally:
            try:
                if pumps is not None:
                    await pumps.stop(sink_grace)
            finally:
                if database is not None:
                    await asyncio.to_thread(database.close)
        return Closed(outcome="timed_out" if remaining else "settled", remaining=remaining)

    def session(self, session_id: str, *, agent: str | None = None, caller: Caller = LOCAL_CALLER) -> Session:
        """Return a session by its id; it is made by the first message.

        Args:
            session_id: `[A-Za-z0-9._:-]{1,128}`.
            agent: Which agent a new session gets; None: the first one.
        """
        return Session(BoundService(self.service, caller), session_id, agent=agent)

    async def sessions(
        self, *, cursor: str | None = None, limit: int = 50, **search: Unpack[SessionSearch]
    ) -> JsonObject:
        """Return `{sessions, next_cursor?}`, newest activity first; `limit` is 1 to 200, clamped.

        Args:
            search: `query`: a text in the id, title or preview, in any case; `waiting_for`: `approval`, `question`,
                `input`, `timer`, `event`, `task`, `retry` or `any`; `status`: one of a state, or `active`; `agent`. A
                search looks at 500 sessions at most: while there is a `next_cursor`, there may be more.
        """
        return await self.service.list_sessions(LOCAL_CALLER, cursor=cursor, limit=limit, **search)


def open_runtime(
    path: str | Path,
    *,
    agents: Sequence[AgentDefinition],
    clock: Clock | None = None,
    new_id: NewId = new_id,
    grace_seconds: float = 10.0,
    authorize: Authorize | None = None,
    webhooks: Sequence[Webhook] = (),
    approval_secret: str | None = None,
    sinks: Sequence[EventSink] = (),
) -> EmbeddedRuntime:
    """Open the durable sessions of one SQLite file, in this process: `async with perdure.open(...) as runtime`.

    Args:
        path: The file; it is made if there is none. `:memory:` keeps nothing.
        agents: The agents of this deployment; the first is the default of new sessions.
        clock: Where the time comes from; the system's by default.
        grace_seconds: How long leaving waits for running steps; what is cut off is taken up at the next start.
        authorize: Says who else than its owner may do what to a session (`perdure.access`). None: nobody.
        webhooks: Whose signed events become messages (`perdure.webhooks`).
        approval_secret: What signed approvals are signed with, 24 bytes or more; None: the environment variable
            `PERDURE_APPROVAL_SECRET`, if there are any (`Session.approval_request`).
        sinks: Where the events of all sessions go after their commits (`perdure.sinks`). One that was never here before
            begins with what is committed from now on.

    Raises:
        DatabaseInUseError: Another process has the file open.
        DatabaseUnusableError: The file can't be used; the message says why.
        ConfigurationError: Something about the agents, or a secret, is wrong.
    """
    return EmbeddedRuntime(
        path,
        agents,
        clock=clock,
        new_id=new_id,
        grace_seconds=grace_seconds,
        authorize=authorize,
        webhooks=webhooks,
        approval_secret=approval_secret,
        sinks=sinks,
    )
