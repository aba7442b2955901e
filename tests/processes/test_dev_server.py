"""`perdure dev` as a user runs it: their agents, their provider, and a SIGKILL whenever anything can be seen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.core import texts
from perdure.embedded.viewer import open_viewer
from perdure.session import Session
from perdure.testing.processes import again_until_answered, free_port
from perdure.testing.provider_plans import answer
from perdure.testing.providers import FaultProvider
from tests.processes.dev_servers import DevServer, slowly

pytestmark = pytest.mark.processes

WISH = "Refund order 7, all 12.5 euros"

MOMENTS = [
    "accepted",
    "turn_started",
    "model_started",
    "tool_call_deferred",
    "interrupt_raised",
    "approved",
    "interrupt_resolved",
    "tool_call_started",
    "tool_call_finished",
    "text_delta",
    "model_finished",
    "turn_completed",
]
"""What a client can see of the turn: answers to its requests, and each type of event when it comes first."""

EVERY_DAY = {None, "accepted", "interrupt_raised", "tool_call_started", "text_delta"}
"""Moments of the everyday suite; each takes seconds. The slow suite has the others."""

WHILE_IT_PAYS = {"approved", "interrupt_resolved", "tool_call_started"}
"""A kill behind these may hit the refund after its start was recorded. It is not tried again, and that is said."""


@pytest.fixture
async def provider() -> AsyncIterator[FaultProvider]:
    async with FaultProvider(slowly) as provider:
        yield provider


class User:
    """Sends a wish, approves what is asked, and watches all along; the server is killed behind one moment."""

    def __init__(self, server: DevServer, kill_at: str | None) -> None:
        self._server = server
        self.kill_at = kill_at
        self.seen: list[perdure.SessionEvent] = []

    async def play(self, session: Session) -> None:
        receipt = await session.send(WISH, idempotency_key="m-1")
        await self._reached("accepted")
        async for event in session.events(after=receipt.cursor):
            self.seen.append(event)
            await self._reached(event.type)
            if event.type == "interrupt_raised":
                interrupt_id = event.payload["interrupt_id"]
                await again_until_answered(lambda: session.resolve(interrupt_id, approved=True, idempotency_key="a-1"))  # noqa: B023
                await self._reached("approved")

    async def _reached(self, moment: str) -> None:
        if moment == self.kill_at:
            self.kill_at = None
            await self._server.restart()


def transcript(snapshot: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return what a reader sees of every message, ids and times left out."""
    return [
        (part.get("tool_name", message["role"]), part.get("text") or part.get("output") or part.get("arguments"))
        for message in snapshot["messages"]
        for part in message["parts"]
    ]


def the_turn(refunded: str) -> list[tuple[str, Any]]:
    return [
        ("user", WISH),
        ("refund_order", {"order_id": "7", "amount": 12.5}),
        ("refund_order", refunded),
        ("assistant", f"I did that: {refunded}"),
    ]


@pytest.mark.parametrize(
    "moment",
    [moment if moment in EVERY_DAY else pytest.param(moment, marks=pytest.mark.slow) for moment in (None, *MOMENTS)],
)
async def test_a_kill_behind_anything_that_can_be_seen_leads_to_the_same_end(
    tmp_path: Path, provider: FaultProvider, moment: str | None
) -> None:
    async with DevServer(tmp_path, OPENAI_BASE_URL=provider.base_url) as server:
        user = User(server, moment)
        async with perdure.connect(server.url) as client:
            session = client.session("s-1")
            await user.play(session)
            snapshot = await again_until_answered(session.snapshot)

        shown, paid = transcript(snapshot), server.count_refunds()
        if moment in WHILE_IT_PAYS and shown != the_turn("refunded 12.5"):
            assert shown == the_turn(texts.OUTCOME_UNKNOWN)
            assert paid <= 1
        else:
            assert shown == the_turn("refunded 12.5")
            assert paid == 1
        assert user.kill_at is None  # the moment has come
        if moment is None:
            assert set(MOMENTS) - {"accepted", "approved"} <= {event.type for event in user.seen}
        sequences = [event.sequence for event in user.seen if event.sequence is not None]
        assert sequences == list(range(1, len(sequences) + 1))


async def test_port_0_takes_a_free_one_and_the_ready_line_tells_which(tmp_path: Path, provider: FaultProvider) -> None:
    server = DevServer(tmp_path, port=0, OPENAI_BASE_URL=provider.base_url)
    try:
        ready = await server.start()

        assert ready.startswith("ready http://127.0.0.1:")
        async with perdure.connect(ready.split()[1]) as client:
            assert await client.sessions() == {"sessions": []}
        assert not ready.endswith(":0")
    finally:
        await server.kill()


async def test_sigterm_finishes_what_runs_and_ends_with_0(tmp_path: Path) -> None:
    async with FaultProvider([answer("A long answer.").paused(after=2)]) as provider:
        server = DevServer(tmp_path, OPENAI_BASE_URL=provider.base_url)
        await server.start()
        process = server.running
        async with perdure.connect(server.url) as client:
            await client.session("s-1").send("hello")
            await provider.paused()

            stopping = asyncio.create_task(server.stop())

            await again_until_refused(server.port)
            provider.release()
            await stopping

        assert process.returncode == 0
        async with open_viewer(tmp_path / "sessions.db") as viewer:
            snapshot = await viewer.session("s-1").snapshot()
        assert snapshot["messages"][-1]["parts"] == [{"type": "text", "text": "A long answer."}]


STUBBORN = """
import asyncio
from perdure import AgentDefinition, function_tool
from perdure.models import ScriptedModel
from perdure.models.scripted import Reply, call


@function_tool(effect="read")
async def hang() -> str:
    while True:
        try:
            await asyncio.sleep(1000)
        except BaseException:
            pass


agent = AgentDefinition(name="mine", model=ScriptedModel(lambda _: Reply(calls=(call("hang"),))), tools=[hang])
"""


@pytest.mark.slow
async def test_sigterm_ends_a_server_whose_tool_takes_no_cancellation(tmp_path: Path) -> None:
    server = DevServer(tmp_path)
    (tmp_path / "my_agents.py").write_text(STUBBORN, encoding="utf-8")
    await server.start()
    process = server.running
    async with perdure.connect(server.url) as client:
        session = client.session("s-1")
        await session.send("go")
        async for event in session.events(follow=True):
            if event.type == "tool_call_started":
                break

    await server.stop()

    assert process.returncode == 0


async def again_until_refused(port: int) -> None:
    """Wait until nobody listens at a port any more."""
    async with asyncio.timeout(15):
        with contextlib.suppress(ConnectionRefusedError):
            while True:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await asyncio.sleep(0.02)


async def test_a_second_server_on_the_same_database_gives_up_and_harms_nothing(
    tmp_path: Path, provider: FaultProvider
) -> None:
    async with DevServer(tmp_path, OPENAI_BASE_URL=provider.base_url) as server:
        second = await DevServer(tmp_path).run_to_its_end()

        assert second.code == 2
        assert second.output == ""
        assert f"sessions.db is in use by process {server.running.pid}: stop that one first" in second.complaint
        assert "Traceback" not in second.complaint
        async with perdure.connect(server.url) as client:
            assert (await client.session("s-1").send("hello")).turn_id == "turn-1"


async def test_a_taken_port_is_told(tmp_path: Path, provider: FaultProvider) -> None:
    port = free_port()
    async with DevServer(tmp_path, port=port, OPENAI_BASE_URL=provider.base_url):
        second = await DevServer(tmp_path, "--db", "other.db", port=port).run_to_its_end()

    assert second.code == 2
    assert f"can't listen at 127.0.0.1 port {port}: Address already in use; choose another port" in second.complaint


@pytest.mark.parametrize(
    ("agents", "complaint"),
    [
        ("nowhere:agent", "there is no module 'nowhere'"),
        ("my_agents:nobody", "module my_agents has no 'nobody'"),
        ("my_agents:AGENTS", "module my_agents has no 'AGENTS'"),
        ("my_agents", "must be MODULE:NAME"),
    ],
    ids=["module", "name", "other-name", "form"],
)
async def test_agents_that_are_not_there_are_told(tmp_path: Path, agents: str, complaint: str) -> None:
    ended = await DevServer(tmp_path, "--agents", agents).run_to_its_end()

    assert ended.code == 2
    assert complaint in ended.complaint
    assert ended.complaint.count("\n") == 1
    assert not (tmp_path / "sessions.db").exists()
