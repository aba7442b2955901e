"""A conversation that goes on and on, in one process and one file (spec TEST-10): what may grow, and what may not.

800 turns by default; `PERDURE_SOAK_TURNS=2000` is the long one. Every twentieth turn has eight tools at once, and the
runtime is closed and opened again three times on the way.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import perdure
from bench.workload import PARALLEL_TOOLS, agent, user_text
from perdure.core.entries import Entry
from perdure.session import Session
from perdure.testing.assertions import run_of

TURNS = int(os.environ.get("PERDURE_SOAK_TURNS", "800"))
LIVES = 4
PARALLEL_EVERY = 20
PARALLEL_TURNS = TURNS // PARALLEL_EVERY

MAX_MEMORY_BYTES_A_TURN = 64 * 1024
"""Growth of the process for each turn that its one session has more, in bytes; it keeps a warm session parsed."""

MAX_SLOWER = 3.0
"""CPU of a late turn in CPUs of an early one: the model is shown all that was said, for nothing compacts it yet."""


@dataclass(frozen=True)
class Look:
    """The process at one moment."""

    memory: int
    threads: int
    tasks: int
    files: int

    @classmethod
    def now(cls) -> Look:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(
            memory=pages * os.sysconf("SC_PAGE_SIZE"),
            threads=threading.active_count(),
            tasks=len(asyncio.all_tasks()),
            files=sum(1 for _ in Path("/proc/self/fd").iterdir()),
        )


def is_parallel(turn: int) -> bool:
    return turn % PARALLEL_EVERY == 0


async def a_turn(session: Session, turn: int) -> float:
    """Run one turn, and return the CPU that it took, in seconds."""
    begin = time.process_time()
    receipt = await session.send(user_text(turn, "parallel" if is_parallel(turn) else "read"))
    async for _ in session.events(after=receipt.cursor):
        pass
    return time.process_time() - begin


async def check_whole(session: Session) -> None:
    """Check that nothing is missing, twice or out of order, and that the last answer comes from the whole history."""
    run = await run_of(session)
    run.completed()
    assert list(run.turns) == [f"turn-{turn}" for turn in range(1, TURNS + 1)]
    run.succeeded("read_note", times=TURNS - PARALLEL_TURNS)
    run.succeeded("slow_read", times=PARALLEL_TURNS * PARALLEL_TOOLS)

    snapshot = await session.snapshot()
    most = 4 * (TURNS - PARALLEL_TURNS) + (3 + PARALLEL_TOOLS) * PARALLEL_TURNS
    assert 4 * TURNS <= snapshot["state"]["version"] <= most  # tools that end together share a commit
    assert snapshot["messages"][-1]["parts"][-1]["text"].startswith(f"answer {TURNS}: according to ")

    sequences: list[int] = []
    async for event in session.events(follow=True):
        sequences += [event.sequence] if event.sequence else []
        if (event.type, event.turn_id) == ("turn_completed", f"turn-{TURNS}"):
            break
    assert sequences == list(range(1, len(sequences) + 1))


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the process's memory as Linux tells it")
async def test_a_session_of_many_hundred_turns_stays_fast_small_and_whole(tmp_path: Path) -> None:
    cpu: dict[int, float] = {}
    looks: list[Look] = []
    for life in range(LIVES):
        async with perdure.open(tmp_path / "soak.db", agents=[agent()]) as runtime:
            session = runtime.session("long")
            for turn in range(life * TURNS // LIVES + 1, (life + 1) * TURNS // LIVES + 1):
                cpu[turn] = await a_turn(session, turn)
                if turn % (TURNS // 16) == 0:
                    looks.append(Look.now())
            if life == LIVES - 1:
                await check_whole(session)
        del runtime, session

    early = statistics.median(cpu[turn] for turn in range(TURNS // 8, TURNS // 4))
    late = statistics.median(cpu[turn] for turn in range(TURNS - TURNS // 8, TURNS))
    grown = (looks[-1].memory - looks[0].memory) / (TURNS - TURNS // 16)
    print(f"{TURNS} turns: {early * 1000:.1f} ms CPU early, {late * 1000:.1f} ms late, {grown / 1024:.0f} KB a turn")
    assert late <= MAX_SLOWER * early
    assert grown <= MAX_MEMORY_BYTES_A_TURN
    assert max(look.files for look in looks) <= looks[0].files
    assert max(look.threads for look in looks) <= looks[0].threads + 1
    assert max(look.tasks for look in looks) <= looks[0].tasks + 2
    gc.collect()
    assert not [kept for kept in gc.get_objects() if isinstance(kept, Entry)], "a closed runtime keeps its sessions"
