"""A worker process that is killed at every point of a turn, started again, and comes to the same end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from perdure.embedded.viewer import open_viewer
from perdure.testing.history import shape
from perdure.testing.processes import again_until_answered, decide, finished, pending, poll_until
from tests.processes.builders import Scene, all_events, the_turn, transcript

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

UNKNOWN_AND_NOT_PAID = ("outcome_unknown", 0)
UNKNOWN_AND_PAID = ("outcome_unknown", 1)
PAID = ("succeeded", 1)

GATES = {
    "commit-send_input-1.before": PAID,
    "commit-send_input-1.after": PAID,
    "model-0.before": PAID,
    "model-0.during": PAID,
    "commit-model_finished-1.before": PAID,
    "commit-model_finished-1.after": PAID,
    "look_up.before": PAID,
    "look_up.after": PAID,
    "commit-tool_started-1.before": PAID,
    "commit-tool_started-1.after": PAID,
    "change.after": PAID,
    "commit-tool_finished-1.before": PAID,
    "commit-tool_finished-1.after": PAID,
    "model-2.during": PAID,
    "commit-model_finished-2.after": PAID,
    "commit-resolve_interrupt-1.before": PAID,
    "commit-resolve_interrupt-1.after": PAID,
    "commit-tool_started-2.before": PAID,
    "commit-tool_started-2.after": UNKNOWN_AND_NOT_PAID,
    "refund.before": UNKNOWN_AND_NOT_PAID,
    "refund.after": UNKNOWN_AND_PAID,
    "commit-tool_finished-3.before": UNKNOWN_AND_PAID,
    "commit-tool_finished-3.after": PAID,
    "model-3.during": PAID,
    "commit-model_finished-3.before": PAID,
    "commit-model_finished-3.after": PAID,
}
"""Where the process is killed: what becomes of the refund, and how often it was really paid."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """One database for all stories: each killed process's successor is the one that the next story kills."""
    async with Scene(tmp_path_factory.mktemp("gates")) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(worker: Scene, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    """A session of its own, all gates open, in a process that runs."""
    worker.begin(f"s-{worker.stories}")
    if not worker.worker.is_running:
        await worker.worker.start()
    yield worker
    worker.stories += 1
    worker.gates.open_all()


async def play(scene: Scene) -> None:
    """A user's turn: a message, an approval, and the wait for the end, however often the process dies meanwhile."""
    await again_until_answered(lambda: scene.session.send("Refund order 7", idempotency_key="m-1"))
    await decide(scene.session)
    await finished(scene.session)


async def check(scene: Scene, refund: tuple[str, int]) -> None:
    status, paid = refund
    snapshot = await scene.session.snapshot()
    events = await all_events(scene.session)

    assert transcript(snapshot) == the_turn(status)
    assert scene.runs("refund") == [1] * paid
    assert len(scene.runs("look_up")) == len(scene.runs("change")) == 1  # always with the same key
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    ends = [e["type"] for e in events if e["type"] in ("turn_completed", "turn_failed", "turn_cancelled")]
    assert ends == ["turn_completed"]
    results = [step for step in shape(events) if not step.endswith("lost") and "model" not in step]
    assert len(results) == 3


@pytest.mark.parametrize("gate", GATES)
async def test_a_kill_at_a_gate_changes_nothing_that_the_user_sees(scene: Scene, gate: str) -> None:
    scene.gates.close(gate)
    user = asyncio.create_task(play(scene))
    await scene.gates.wait_reached(gate)

    await scene.worker.kill()
    scene.gates.open(gate)
    await scene.worker.start()
    await user

    await check(scene, GATES[gate])


async def test_a_kill_while_a_person_is_awaited_leaves_the_approval_open(scene: Scene) -> None:
    await scene.session.send("Refund order 7", idempotency_key="m-1")
    before = await pending(scene.session)
    await scene.worker.kill()

    async with open_viewer(scene.database) as viewer:  # it can be looked at while nothing runs
        looked_at = await viewer.session(scene.session.session_id).snapshot()
    await scene.worker.start()

    assert looked_at["pending_interrupts"] == await pending(scene.session) == before
    await play(scene)
    await check(scene, PAID)


async def test_a_kill_right_after_the_approval_was_answered_keeps_it(scene: Scene) -> None:
    await scene.session.send("Refund order 7", idempotency_key="m-1")
    (interrupt,) = await pending(scene.session)
    scene.gates.close("commit-tool_started-2.before")
    await scene.session.resolve(interrupt["interrupt_id"], approved=True)

    await scene.worker.kill()
    scene.gates.open_all()
    await scene.worker.start()
    await finished(scene.session)

    await check(scene, PAID)


@pytest.mark.parametrize("gate", ["model-0.during", "look_up.after", "change.after"])
async def test_interrupted_work_goes_on_within_two_seconds_of_being_ready(scene: Scene, gate: str) -> None:
    scene.gates.close(gate)
    name = gate.partition(".")[0]
    await scene.session.send("Refund order 7", idempotency_key="m-1")
    await scene.gates.wait_reached(gate)
    await scene.worker.kill()
    scene.gates.open(gate)
    before = scene.log.count(name)

    await scene.worker.start()
    ready_at = time.monotonic()
    await poll_until(lambda: scene.log.count(name) > before)

    assert time.monotonic() - ready_at < 2.0
    await play(scene)


async def test_a_worker_that_is_asked_to_stop_finishes_what_runs_first(scene: Scene) -> None:
    scene.gates.close("look_up.after")
    await scene.session.send("Refund order 7", idempotency_key="m-1")
    await scene.gates.wait_reached("look_up.after")

    stopping = asyncio.create_task(scene.worker.stop())
    await asyncio.sleep(0)
    scene.gates.open("look_up.after")
    await stopping
    await scene.worker.start()
    await play(scene)

    assert scene.runs("look_up") == [1]
    assert "look_up: succeeded" in shape(await all_events(scene.session))
    await check(scene, PAID)
