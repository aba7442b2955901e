"""The embedded runtime in one process: it works what is ready, fires what is due, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import AgentDefinition, ToolPolicy, function_tool
from perdure.core import texts
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.testing.clock import VirtualClock
from perdure.testing.history import shape
from perdure.testing.processes import finished, poll_until


@function_tool(effect="non_idempotent_write")
async def refund() -> str:
    """Pay back."""
    return "paid"


def a_desk(deadline: timedelta | None = None) -> AgentDefinition:
    model = ScriptedModel(lambda r: tool_results(r)[-1].output if tool_results(r) else Reply(calls=(call("refund"),)))
    policy = ToolPolicy(approval_deadline=deadline)
    return AgentDefinition(name="desk", model=model, tools=[refund], tool_policies={"refund": policy})


def an_echo() -> AgentDefinition:
    return AgentDefinition(name="echo", model=ScriptedModel(lambda _: "hello"))


async def test_a_deadline_passes_in_a_running_process(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with EmbeddedRuntime(tmp_path / "s.db", [a_desk(timedelta(hours=1))], clock=clock) as runtime:
        session = runtime.session("s-1")
        await session.send("go")
        await poll_until(lambda: pending_of(session))

        await clock.advance(3600)
        snapshot = await finished(session)

        assert snapshot["tool_calls"][0]["error"] == texts.APPROVAL_DEADLINE_PASSED


async def pending_of(session: Any) -> Any:
    return (await session.snapshot())["pending_interrupts"]


async def test_a_deadline_that_passed_while_nothing_ran_is_found_at_the_start(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with EmbeddedRuntime(tmp_path / "s.db", [a_desk(timedelta(hours=1))], clock=clock) as runtime:
        await runtime.session("s-1").send("go")
        await poll_until(lambda: pending_of(runtime.session("s-1")))
    await clock.advance(7200)

    async with EmbeddedRuntime(tmp_path / "s.db", [a_desk()], clock=clock) as runtime:
        snapshot = await finished(runtime.session("s-1"))

        assert snapshot["tool_calls"][0]["status"] == "rejected"


async def test_a_deadline_that_is_still_ahead_at_the_start_is_kept(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with EmbeddedRuntime(tmp_path / "s.db", [a_desk(timedelta(hours=2))], clock=clock) as runtime:
        await runtime.session("s-1").send("go")
        await poll_until(lambda: pending_of(runtime.session("s-1")))

    async with EmbeddedRuntime(tmp_path / "s.db", [a_desk()], clock=clock) as runtime:
        await clock.advance(7199)
        assert len(await pending_of(runtime.session("s-1"))) == 1
        await clock.advance(1)
        await finished(runtime.session("s-1"))


async def test_a_step_that_was_cut_off_is_taken_up_at_the_next_start(tmp_path: Path) -> None:
    hanging = asyncio.Event()

    async def hang(_: Any) -> str:
        hanging.set()
        await asyncio.Event().wait()
        return "never"

    stuck = AgentDefinition(name="echo", model=ScriptedModel(hang))
    async with EmbeddedRuntime(tmp_path / "s.db", [stuck], grace_seconds=0.01) as runtime:
        await runtime.session("s-1").send("hi")
        await hanging.wait()

    async with EmbeddedRuntime(tmp_path / "s.db", [an_echo()]) as runtime:
        session = runtime.session("s-1")
        await finished(session)

        events = (await session.event_page())["events"]
        assert shape(events) == ["model: lost", "model #2: completed"]


async def test_a_session_that_can_not_be_read_does_not_keep_the_others_from_starting(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    hanging = asyncio.Event()

    async def hang(_: Any) -> str:
        hanging.set()
        await asyncio.Event().wait()
        return "never"

    stuck = AgentDefinition(name="echo", model=ScriptedModel(hang))
    async with EmbeddedRuntime(file, [stuck], grace_seconds=0.01) as runtime:
        for session_id in ("s-0", "s-1"):
            await runtime.session(session_id).send("hi")
        await hanging.wait()
    from_a_newer_version(file, "s-0")

    async with EmbeddedRuntime(file, [an_echo()]) as runtime:
        snapshot = await finished(runtime.session("s-1"))

    assert [message["role"] for message in snapshot["messages"]] == ["user", "assistant"]


def from_a_newer_version(file: Path, session_id: str) -> None:
    connection = sqlite3.connect(file)
    (text,) = connection.execute("SELECT head FROM heads WHERE session_id = ?", (session_id,)).fetchone()
    head = json.loads(text) | {"schema_version": 999}
    connection.execute("UPDATE heads SET head = ? WHERE session_id = ?", (json.dumps(head), session_id))
    connection.commit()
    connection.close()


async def test_leaving_leaves_no_task_behind(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    async with EmbeddedRuntime(tmp_path / "s.db", [a_desk(timedelta(hours=1))]) as runtime:
        await runtime.session("s-1").send("go")
        await poll_until(lambda: pending_of(runtime.session("s-1")))
    await asyncio.sleep(0)

    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("sessions", [40])
async def test_many_sessions_at_once_all_get_their_answers(tmp_path: Path, sessions: int) -> None:
    async with EmbeddedRuntime(tmp_path / "s.db", [an_echo()]) as runtime:

        async def talk(number: int) -> list[str]:
            session = runtime.session(f"s-{number}")
            ends = []
            for _ in range(3):
                receipt = await session.send("hi")
                ends += [event.type async for event in session.events(after=receipt.cursor)][-1:]
            return ends

        ends = await asyncio.gather(*(talk(number) for number in range(sessions)))

    assert ends == [["turn_completed"] * 3] * sessions
