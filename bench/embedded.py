"""The embedded runtime on a real file, syncs included: latency of T1 and T2, throughput, growth, syncs a turn."""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import perdure
from bench.workload import agent, user_text
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.session import Session

TURNS = 500
SESSIONS = 50
TURNS_PER_SESSION = 6
PARALLEL_TURNS = 30
FOLDER = os.environ.get("PERDURE_BENCH_DIR", ".")
"""Where the databases are made: the disk that is measured."""


def measure() -> dict[str, Any]:
    """Run all phases in one fresh database each."""
    return {
        "sequential": asyncio.run(_in_database(_sequential)),
        "concurrent": asyncio.run(_in_database(_concurrent)),
        "parallel_tools": asyncio.run(_in_database(_parallel_tools)),
        "fdatasync_ms": _sync_cost(),
    }


async def _in_database(phase: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".bench-") as folder:
        async with perdure.open(Path(folder) / "bench.db", agents=[agent()]) as runtime:
            result: dict[str, Any] = await phase(runtime)
            return result


async def _sequential(runtime: EmbeddedRuntime) -> dict[str, Any]:
    session = runtime.session("one")
    cpu = time.process_time()
    times = [await timed_turn(session, turn) for turn in range(1, TURNS + 1)]
    snapshot = await session.snapshot()
    assert snapshot["messages"][-1]["parts"][0]["text"].startswith(f"answer {TURNS}: according to 1 note(s)")
    ordered = sorted(times[:200])
    return {
        "turns": TURNS,
        "median_ms": _ms(statistics.median(ordered)),
        "p95_ms": _ms(ordered[int(len(ordered) * 0.95)]),
        "at_turn_10_to_20_ms": _ms(statistics.median(times[9:20])),
        "at_turn_490_to_500_ms": _ms(statistics.median(times[489:500])),
        "cpu_ms_per_turn": _ms((time.process_time() - cpu) / TURNS),
        "commits_per_turn": snapshot["state"]["version"] / TURNS,
        "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


async def timed_turn(session: Session, turn: int, kind: str = "read") -> float:
    """Run one turn as a caller sees it, from `send` to the event that ends it. Returns seconds."""
    begin = time.perf_counter()
    receipt = await session.send(user_text(turn, kind))
    async for _ in session.events(after=receipt.cursor):
        pass
    return time.perf_counter() - begin


async def _concurrent(runtime: EmbeddedRuntime) -> dict[str, Any]:
    async def one(number: int) -> None:
        session = runtime.session(f"s-{number}")
        for turn in range(1, TURNS_PER_SESSION + 1):
            await timed_turn(session, turn)

    begin = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(SESSIONS)))
    seconds = time.perf_counter() - begin
    return {"sessions": SESSIONS, "turns": SESSIONS * TURNS_PER_SESSION, "turns_per_s": round(300 / seconds, 1)}


async def _parallel_tools(runtime: EmbeddedRuntime) -> dict[str, Any]:
    session = runtime.session("parallel")
    times = [await timed_turn(session, turn, "parallel") for turn in range(1, PARALLEL_TURNS + 1)]
    return {"turns": PARALLEL_TURNS, "median_ms": _ms(statistics.median(times))}


def _sync_cost() -> float:
    """Return the median cost of one fdatasync of 4 KB here, in ms: what the disk adds to each commit at least."""
    with tempfile.NamedTemporaryFile(dir=FOLDER, prefix=".bench-") as file:
        times = []
        for _ in range(200):
            file.write(b"x" * 4096)
            file.flush()
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begin)
    return _ms(statistics.median(times))


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
