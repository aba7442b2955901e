"""Closing a runtime: what runs may finish, the rest is aborted, and the result says which (spec SESS-23)."""

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

from perdure import AgentDefinition, function_tool
from perdure.embedded import database as databases
from perdure.embedded.runtime import Closed, EmbeddedRuntime
from perdure.errors import DatabaseInUseError
from perdure.models.base import ModelRequest
from perdure.models.scripted import ScriptedModel


class Work:
    """A model that answers when it is let, and notes that it was asked."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.let = asyncio.Event()

    def agents(self) -> list[AgentDefinition]:
        return [AgentDefinition(name="desk", model=ScriptedModel(self._reply))]

    async def _reply(self, _request: ModelRequest) -> str:
        self.asked.set()
        await self.let.wait()
        return "done"


@pytest.fixture
def work() -> Work:
    return Work()


async def test_a_runtime_without_work_settles(tmp_path: Path, work: Work) -> None:
    async with EmbeddedRuntime(tmp_path / "s.db", work.agents()) as runtime:
        assert await runtime.close() == Closed(outcome="settled", remaining=0)
        assert await runtime.close() == Closed(outcome="settled", remaining=0)


async def test_what_runs_is_finished_within_the_grace(tmp_path: Path, work: Work) -> None:
    async with EmbeddedRuntime(tmp_path / "s.db", work.agents()) as runtime:
        await runtime.session("s-1").send("go")
        await work.asked.wait()
        closing = asyncio.create_task(runtime.close(grace_seconds=30))
        work.let.set()

        assert await closing == Closed(outcome="settled", remaining=0)

    async with EmbeddedRuntime(tmp_path / "s.db", work.agents()) as again:
        messages = (await again.session("s-1").messages())["messages"]
        assert messages[-1]["parts"] == [{"type": "text", "text": "done"}]


async def test_what_does_not_finish_is_aborted_counted_and_taken_up_at_the_next_start(
    tmp_path: Path, work: Work
) -> None:
    async with EmbeddedRuntime(tmp_path / "s.db", work.agents()) as runtime:
        await runtime.session("s-1").send("go")
        await work.asked.wait()

        assert await runtime.close(grace_seconds=0) == Closed(outcome="timed_out", remaining=1)

    work.let.set()
    async with EmbeddedRuntime(tmp_path / "s.db", work.agents()) as again:
        events = [event async for event in again.session("s-1").events()]

    assert events[-1].type == "turn_completed"


async def test_work_that_will_not_be_aborted_is_left_alone_after_the_force_time(tmp_path: Path) -> None:
    stubborn, begun = asyncio.Event(), asyncio.Event()

    @function_tool(effect="read")
    async def dig() -> str:
        """Dig."""
        begun.set()
        while not stubborn.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await stubborn.wait()
        return "dug"

    from perdure.models.scripted import Reply, call

    def reply(_request: ModelRequest) -> Any:
        return Reply(calls=(call("dig"),))

    agent = AgentDefinition(name="desk", model=ScriptedModel(reply), tools=[dig], max_model_calls=1)
    async with EmbeddedRuntime(tmp_path / "s.db", [agent]) as runtime:
        await runtime.session("s-1").send("go")
        async with asyncio.timeout(5):
            await begun.wait()
            closed = await runtime.close(grace_seconds=0, force_seconds=0.05)
        stubborn.set()

    assert closed == Closed(outcome="timed_out", remaining=1)


async def test_a_closing_that_is_cut_off_lets_go_of_the_file_and_of_what_runs(tmp_path: Path, work: Work) -> None:
    runtime = await EmbeddedRuntime(tmp_path / "s.db", work.agents()).__aenter__()
    await runtime.session("s-1").send("go")
    await work.asked.wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await runtime.close(grace_seconds=30)

    work.let.set()
    async with EmbeddedRuntime(tmp_path / "s.db", work.agents()) as again:
        events = [event async for event in again.session("s-1").events()]
    assert events[-1].type == "turn_completed"


async def test_an_opening_that_is_cut_off_lets_go_of_the_file(
    tmp_path: Path, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, opened = databases._prepare, threading.Event()

    def prepare_slowly(*arguments: Any) -> None:
        opened.wait(5)
        prepare(*arguments)

    monkeypatch.setattr(databases, "_prepare", prepare_slowly)
    runtime = EmbeddedRuntime(tmp_path / "s.db", work.agents())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await runtime.__aenter__()

    opened.set()
    async with asyncio.timeout(5):
        while True:
            with contextlib.suppress(DatabaseInUseError):
                async with EmbeddedRuntime(tmp_path / "s.db", work.agents()):
                    break
            await asyncio.sleep(0.01)
