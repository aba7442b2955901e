"""Perdure, embedded: one SQLite file, every model and tool call its own durable step.

A module of the peers' bench, which imports it beside its own `common`; `run.py` here brings the two together.
"""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import common  # type: ignore[import-not-found]

import perdure
from perdure import AgentDefinition, ToolPolicy, function_tool
from perdure.models import ModelRequest, Reply, ScriptedModel, call, tool_results, user_texts

APPROVAL_LIMIT_SECONDS = 20


def versions() -> dict[str, str]:
    """Return what was measured."""
    import sqlite3

    return {"perdure": perdure.__version__, "sqlite": sqlite3.sqlite_version}


@function_tool(effect="read")
async def read_note(key: str) -> str:
    """Read a note by its key."""
    return await common.read_note_async(key)


@function_tool(effect="read")
async def slow_read(key: str) -> str:
    """Read a note slowly."""
    return await common.slow_read_async(key)


@function_tool(effect="read")
async def gated_read(key: str) -> str:
    """Read a note once a person has approved it."""
    return await common.read_note_async(key)


def scripted(request: ModelRequest) -> Reply:
    """Answer as the peers' script wants it, from the history that the model was given."""
    users = user_texts(request)
    kind, what = common.Script.decide(len(users), users[-1], [result.output for result in tool_results(request)])
    if kind == "text":
        return Reply(text=what)
    return Reply(calls=tuple(call(name, **arguments) for name, arguments in what))


class Perdure(common.Peer):  # type: ignore[misc]
    """The embedded runtime, used as a program uses it: send, follow the events to the end, read the answer."""

    name = "perdure"
    notes = (
        "embedded runtime, one SQLite file (WAL, synchronous=FULL for commits); each model and tool call its own step"
    )
    phases = ("seq", "conc", "t2", "sync", "crash", "approval")

    async def open(self, state: pathlib.Path) -> None:
        agent = AgentDefinition(
            name="bench",
            model=ScriptedModel(scripted, chunk=4096),
            tools=[read_note, slow_read, gated_read],
            tool_policies={"gated_read": ToolPolicy(requires_approval=True)},
        )
        self.runtime = await perdure.open(state / "sessions.db", agents=[agent]).__aenter__()

    async def close(self) -> None:
        await self.runtime.__aexit__(None, None, None)

    async def turn(self, session: str, n: int, kind: str = "read") -> str:
        opened = self.runtime.session(session)
        receipt = await opened.send(common.user_text(n, kind), idempotency_key=f"{session}-{n}")
        return await self._answer(opened, receipt.cursor)

    async def recover(self, session: str) -> str:
        """Send the message again, as a client does that never heard how it ended; its key makes it the same one."""
        return await self.turn(session, 1)

    async def ask(self, session: str) -> None:
        opened = self.runtime.session(session)
        await opened.send(common.user_text(1, "gated"), idempotency_key=f"{session}-1")
        async with asyncio.timeout(APPROVAL_LIMIT_SECONDS):
            async for event in opened.events(follow=True):
                if event.type == "interrupt_raised":
                    return

    async def approve(self, session: str) -> str:
        opened = self.runtime.session(session)
        snapshot = await opened.snapshot()
        await opened.resolve(snapshot["pending_interrupts"][0]["interrupt_id"], approved=True)
        return await self._answer(opened, snapshot["cursor"])

    async def _answer(self, session: Any, cursor: str) -> str:
        async for _ in session.events(after=cursor):
            pass
        newest = (await session.messages(limit=1))["messages"][-1]
        return str(newest["parts"][-1]["text"])


PEERS = {Perdure.name: Perdure}
