"""Bodies of tools: where they run, what they may do to the worker, and the text that comes out."""

import asyncio
import contextvars
import dataclasses
import enum
import json
import subprocess
import sys
import threading
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from perdure import ToolContext, current_tool_context, function_tool
from perdure.agents.execution import output_text
from perdure.agents.tools import running_tool
from perdure.errors import PerdureError, ToolExecutionError
from tests.unit.agents.builders import a_context

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Reading(BaseModel):
    value: float
    at: datetime


@dataclasses.dataclass
class Pair:
    left: float
    right: Any


class Word(str, enum.Enum):  # noqa: UP042 - its str() is its name
    YES = "yes"


@pytest.mark.parametrize(
    ("result", "output"),
    [
        ("as it is\x00 ", "as it is\x00 "),
        ("", '""'),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (["ä", {"n": 3}], '["ä", {"n": 3}]'),
        ((1, 2), "[1, 2]"),
        ({"score": 0.1, "t": 1753000000.123456, "neg0": -0.0}, '{"score": 0.1, "t": 1753000000.123456, "neg0": -0.0}'),
        ({"big": 1e400, "nan": float("nan"), "small": [-1e400]}, '{"big": null, "nan": null, "small": [null]}'),
        (Reading(value=float("nan"), at=NOON), '{"value": null, "at": "2026-01-31T12:00:00Z"}'),
        (Pair(left=float("inf"), right=Decimal("1.10")), '{"left": null, "right": "1.10"}'),
        ({"set": {1}}, '{"set": [1]}'),
        (Word.YES, "yes"),
        ("half \ud83d", "half \ufffd"),
        ("\ud83d\ude00 whole", "😀 whole"),
        ({"x": "\ud83d"}, '{"x": "\ufffd"}'),
    ],
    ids=repr,
)
def test_a_result_has_one_documented_text(result: Any, output: str) -> None:
    assert output_text("tool", result) == output


def a_circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


def a_deep_list() -> list[Any]:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    "result", [object(), {"f": print}, a_circle(), a_deep_list()], ids=["object", "function", "circle", "deep"]
)
def test_a_result_that_is_no_json_is_told_as_run_and_not_tried_again(result: Any) -> None:
    with pytest.raises(ToolExecutionError, match="the tool find ran, but returned something that is no JSON"):
        output_text("find", result)


# --- where a body runs --------------------------------------------------------------------------


async def test_many_def_tools_run_at_the_same_time_and_leave_the_pool_alone() -> None:
    everybody_is_here = threading.Barrier(40)
    names = set()

    @function_tool
    def meet() -> str:
        everybody_is_here.wait(timeout=20)
        names.add(threading.current_thread().name)
        return "met"

    outputs = await asyncio.gather(*(meet.execute({}, a_context()) for _ in range(40)))

    assert outputs == ["met"] * 40
    assert names == {"perdure-tool"}


async def test_an_async_tool_runs_on_the_loop() -> None:
    @function_tool
    async def where() -> bool:
        return asyncio.get_running_loop() is loop

    loop = asyncio.get_running_loop()

    assert await where.execute({}, a_context()) == "true"


async def test_a_def_that_returns_an_awaitable_is_awaited() -> None:
    async def later() -> str:
        return "later"

    @function_tool
    def soon() -> Any:
        return later()

    assert await soon.execute({}, a_context()) == "later"


# --- the context --------------------------------------------------------------------------------


async def test_the_context_is_reachable_anywhere_below_a_tool() -> None:
    def deep_down() -> str:
        return current_tool_context().tool_call_id

    @function_tool
    def in_a_thread() -> str:
        return deep_down()

    @function_tool
    async def on_the_loop() -> str:
        await asyncio.sleep(0)
        return deep_down()

    outputs = await asyncio.gather(
        in_a_thread.execute({}, a_context(tool_call_id="call-1-0")),
        on_the_loop.execute({}, a_context(tool_call_id="call-1-1")),
    )

    assert list(outputs) == ["call-1-0", "call-1-1"]


async def test_outside_a_tool_there_is_no_context() -> None:
    @function_tool
    async def ping() -> str:
        return "pong"

    await ping.execute({}, a_context())

    with pytest.raises(LookupError) as raised:
        current_tool_context()
    assert isinstance(raised.value, PerdureError)


def test_a_test_can_install_a_context() -> None:
    context: ToolContext = a_context()

    with running_tool(context):
        assert current_tool_context() is context


async def test_context_variables_of_the_step_reach_a_def_tool() -> None:
    trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace")
    trace.set("t-1")

    @function_tool
    def read_trace() -> str:
        return trace.get()

    assert await read_trace.execute({}, a_context()) == "t-1"


# --- what a body raises -------------------------------------------------------------------------


def raising(error: BaseException, *, is_async: bool) -> Any:
    if is_async:

        async def fail_async() -> str:
            raise error

        return function_tool(name="fail")(fail_async)

    def fail() -> str:
        raise error

    return function_tool(fail)


@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async-def"])
@pytest.mark.parametrize("error", [ToolExecutionError("no such order"), ValueError("bug")])
async def test_what_a_body_raises_comes_out_as_it_is(error: Exception, is_async: bool) -> None:
    with pytest.raises(type(error)) as raised:
        await raising(error, is_async=is_async).execute({}, a_context())

    assert raised.value is error


@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async-def"])
@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), StopIteration("a")], ids=repr)
async def test_a_body_ends_neither_the_worker_nor_the_step(error: BaseException, is_async: bool) -> None:
    with pytest.raises(RuntimeError):
        await asyncio.wait_for(raising(error, is_async=is_async).execute({}, a_context()), timeout=20)


async def test_a_cancelled_step_stops_its_async_body() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @function_tool
    async def hang() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    running = asyncio.ensure_future(hang.execute({}, a_context()))
    await started.wait()

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert stopped.is_set()


async def test_a_cancelled_step_leaves_its_thread_and_what_comes_out_later() -> None:
    loop = asyncio.get_running_loop()
    reports: list[Any] = []
    loop.set_exception_handler(lambda _, report: reports.append(report))
    started, release = asyncio.Event(), threading.Event()
    threads: list[threading.Thread] = []

    @function_tool
    def hang() -> str:
        threads.append(threading.current_thread())
        loop.call_soon_threadsafe(started.set)
        release.wait()
        return "too late"

    running = asyncio.ensure_future(hang.execute({}, a_context()))
    await started.wait()

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    release.set()
    threads[0].join()
    await asyncio.sleep(0)
    assert reports == []


def test_a_hanging_tool_does_not_keep_the_process_from_ending() -> None:
    script = """
import asyncio, threading
from perdure.agents.execution import run_body
async def main():
    started = asyncio.Event()
    loop = asyncio.get_running_loop()
    def hang():
        loop.call_soon_threadsafe(started.set)
        threading.Event().wait()
    task = asyncio.create_task(run_body(hang, {}))
    await started.wait()
    task.cancel()
asyncio.run(main())
print("ended")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout.strip()) == (0, "ended"), done.stderr


async def test_a_json_result_reads_back_as_the_same_numbers() -> None:
    @function_tool
    def measure() -> dict[str, Any]:
        return {"score": 0.1, "n": 3, "t": 1753000000.123456}

    read = json.loads(str(await measure.execute({}, a_context())))

    assert read == {"score": 0.1, "n": 3, "t": 1753000000.123456}
    assert isinstance(read["n"], int)
