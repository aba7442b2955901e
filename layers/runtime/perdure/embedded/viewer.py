"""Looking at a database beside the runtime that owns it: read-only, no lock, no worker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Unpack

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.core.listing import SessionSearch
from perdure.embedded.clock import SystemClock, new_id
from perdure.embedded.database import Database
from perdure.embedded.leases import SqliteLeases
from perdure.embedded.live import EmbeddedLive
from perdure.embedded.queue import EmbeddedQueue, EmbeddedTimers
from perdure.embedded.store import SqliteSessionStore
from perdure.models.scripted import ScriptedModel
from perdure.ports import Ports
from perdure.service import LOCAL_CALLER, Service
from perdure.session import BoundService, Session
from perdure.steps.base import StepDeps

JsonObject = dict[str, Any]


class Viewer:
    """The sessions of a database, to be looked at."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def session(self, session_id: str, *, agent: str | None = None) -> Session:
        """Return a session; whatever would write to it fails with `DatabaseUnusableError`."""
        return Session(BoundService(self._service, LOCAL_CALLER), session_id, agent=agent)

    async def sessions(
        self, *, cursor: str | None = None, limit: int = 50, **search: Unpack[SessionSearch]
    ) -> JsonObject:
        """Return `{sessions, next_cursor?}`, newest activity first (`EmbeddedRuntime.sessions`)."""
        return await self._service.list_sessions(LOCAL_CALLER, cursor=cursor, limit=limit, **search)


@contextlib.asynccontextmanager
async def open_viewer(path: str | Path) -> AsyncIterator[Viewer]:
    """Open a database file for looking only.

    Raises:
        DatabaseUnusableError: There is no such file, or it is no database of ours.
    """
    database = await Database.open_aside(path, read_only=True)
    clock = SystemClock()
    ports = Ports(
        store=SqliteSessionStore(database),
        leases=SqliteLeases(database),
        queue=EmbeddedQueue(clock),
        timers=EmbeddedTimers(clock),
        live=EmbeddedLive(),
        clock=clock,
        new_id=new_id,
    )
    nobody = AgentDefinition(name="nobody", model=ScriptedModel(lambda _: ""))
    try:
        yield Viewer(Service(StepDeps(ports=ports, agents=AgentRegistry([nobody])), knows_agents=False))
    finally:
        await asyncio.to_thread(database.close)
