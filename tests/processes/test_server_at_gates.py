"""A `perdure dev` that is killed at chosen points of a turn while a client talks to it, and comes to the same end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import perdure
from perdure.testing.gates import FileGate, InvocationLog
from perdure.testing.processes import ChildProcess, again_until_answered, decide, finished, free_port
from tests.processes.builders import ROOT, all_events, the_turn, transcript

pytestmark = [pytest.mark.processes, pytest.mark.slow]

GATES = {
    "commit-send_input-1.after": ("succeeded", 1),
    "model-0.during": ("succeeded", 1),
    "change.after": ("succeeded", 1),
    "commit-model_finished-2.after": ("succeeded", 1),
    "commit-resolve_interrupt-1.before": ("succeeded", 1),
    "refund.before": ("outcome_unknown", 0),
    "refund.after": ("outcome_unknown", 1),
    "commit-model_finished-3.before": ("succeeded", 1),
}
"""Where the server is killed: what becomes of the refund, and how often it was really paid."""


class GatedServer(ChildProcess):
    """The development server over agents with gates; it comes back at the same address."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.gates = FileGate(folder / "gates")
        self.log = InvocationLog(folder / "invocations.jsonl")
        super().__init__(
            *(sys.executable, "-m", "perdure", "dev", "--agents", "tests.processes.gated_agents:agent"),
            *("--db", "sessions.db", "--port", str(port)),
            cwd=folder,
            environment={"PYTHONPATH": str(ROOT), "PERDURE_TEST_FOLDER": str(folder)},
        )


async def play(session: perdure.Session) -> None:
    await again_until_answered(lambda: session.send("Refund order 7", idempotency_key="m-1"), timeout_seconds=30)
    await decide(session, timeout_seconds=30)
    await finished(session, timeout_seconds=30)


@pytest.mark.parametrize("gate", GATES)
async def test_a_server_killed_at_a_gate_ends_the_turn_as_if_nothing_had_happened(tmp_path: Path, gate: str) -> None:
    async with GatedServer(tmp_path) as server, perdure.connect(server.url) as client:
        session = client.session("s-1")
        server.gates.close(gate)
        user = asyncio.create_task(play(session))
        await server.gates.wait_reached(gate)

        await server.kill()
        server.gates.open(gate)
        await server.start()
        await user

        status, paid = GATES[gate]
        assert transcript(await session.snapshot()) == the_turn(status)
        assert list(server.log.by_key("refund").values()) == [1] * paid
        sequences = [event["sequence"] for event in await all_events(session)]
        assert sequences == list(range(1, len(sequences) + 1))
