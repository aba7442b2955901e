"""How the embedded runtime grows: one conversation of 10 to 2,000 turns, and 1 to 1,000 sessions at once.

On a real file, syncs included. The file's size is taken behind a checkpoint, as it is when a runtime was closed.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import perdure
from bench.embedded import FOLDER, timed_turn
from bench.workload import agent

TURNS = (10, 100, 500, 1000, 2000)
SESSIONS = (1, 10, 100, 1000)
TURNS_PER_SESSION = 3
WINDOW = 10
"""Turns before each mark of which the median is taken; at turn 10 all of them."""


def measure() -> dict[str, Any]:
    """Grow one conversation, then run ever more sessions, each number in a fresh database."""
    results = asyncio.run(_one_conversation())
    for number in SESSIONS:
        results[f"{number} sessions"] = asyncio.run(_sessions(number))
    return results


async def _one_conversation() -> dict[str, Any]:
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".bench-") as folder:
        file = Path(folder) / "bench.db"
        times: list[float] = []
        for mark in TURNS:
            async with perdure.open(file, agents=[agent()]) as runtime:  # opened again at each mark, so that it is cold
                session = runtime.session("one")
                began = time.perf_counter()
                await timed_turn(session, len(times) + 1)
                first = time.perf_counter() - began
                times.append(first)
                while len(times) < mark:
                    times.append(await timed_turn(session, len(times) + 1))
            results[f"turn {mark}"] = {
                "median_ms": _ms(statistics.median(times[mark - WINDOW : mark])),
                "first_turn_after_opening_ms": _ms(first),
                "file_kb": round(file.stat().st_size / 1024),
                "kb_per_turn": round(file.stat().st_size / 1024 / mark, 2),
                "max_rss_mb": _rss_mb(),
            }
    return results


async def _sessions(number: int) -> dict[str, Any]:
    times: list[float] = []
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".bench-") as folder:
        file = Path(folder) / "bench.db"

        async def one(session_id: str) -> None:
            session = runtime.session(session_id)
            times.extend([await timed_turn(session, turn) for turn in range(1, TURNS_PER_SESSION + 1)])

        async with perdure.open(file, agents=[agent()]) as runtime:
            began = time.perf_counter()
            await asyncio.gather(*(one(f"s-{n}") for n in range(number)))
            seconds = time.perf_counter() - began
        times.sort()
        return {
            "turns": len(times),
            "turns_per_s": round(len(times) / seconds, 1),
            "median_ms": _ms(statistics.median(times)),
            "p95_ms": _ms(times[int(len(times) * 0.95)]),
            "file_kb": round(file.stat().st_size / 1024),
            "kb_per_turn": round(file.stat().st_size / 1024 / len(times), 2),
            "max_rss_mb": _rss_mb(),
        }


def _rss_mb() -> int:
    """Return the most memory that this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
