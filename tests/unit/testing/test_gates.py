"""File gates and the log of invocations."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from perdure.testing.gates import FileGate, GateNotReachedError, Invocation, InvocationLog


async def test_an_open_gate_is_passed_and_a_closed_one_holds_until_it_is_opened(tmp_path: Path) -> None:
    gates, other_process = FileGate(tmp_path), FileGate(tmp_path)
    await other_process.reach("door")
    assert not gates.is_reached("door")

    gates.close("door")
    waiting = asyncio.create_task(other_process.reach("door"))
    await gates.wait_reached("door")
    assert not waiting.done()
    gates.open("door")
    await waiting

    assert not gates.is_reached("door")


async def test_code_in_a_thread_is_held_too(tmp_path: Path) -> None:
    gates = FileGate(tmp_path)
    gates.close("a")
    gates.close("b")

    def pass_both() -> None:
        gates.reach_blocking("a")
        gates.reach_blocking("b")

    waiting = threading.Thread(target=pass_both)
    waiting.start()

    await gates.wait_reached("a")
    gates.open_all()
    await asyncio.to_thread(waiting.join)


async def test_a_gate_that_nobody_comes_to_is_named(tmp_path: Path) -> None:
    with pytest.raises(GateNotReachedError, match="'door'"):
        await FileGate(tmp_path).wait_reached("door", timeout_seconds=0.0)


def test_runs_are_counted_by_tool_and_by_key(tmp_path: Path) -> None:
    log, other_process = (InvocationLog(tmp_path / "log") for _ in range(2))
    assert log.all() == []

    log.record("refund", key="k1")
    other_process.record("refund", key="k1", attempt=2)
    other_process.record("look_up", key="k2")

    assert log.count("refund") == 2
    assert log.by_key("refund") == {"k1": 2}
    assert [run.attempt for run in log.of("refund")] == [1, 2]
    assert isinstance(log.all()[2], Invocation)
