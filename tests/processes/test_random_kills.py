"""A minute of kills at any moment, of a worker and of a server, while many sessions are busy on both."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.core import texts
from perdure.core.entries import Entry
from perdure.core.fates import TURN_ENDS
from perdure.embedded.database import Database
from perdure.embedded.store import SqliteSessionStore
from perdure.errors import StoreUnavailableError
from perdure.ports import LogSlice, SessionKey
from perdure.session import Session
from perdure.testing.processes import ChildProcess, again_until_answered, decide, finished
from perdure.testing.providers import FaultProvider
from perdure.testing.simulation.ending import UNKNOWN, Ending
from perdure.testing.simulation.invariants import check_log
from tests.processes.builders import Scene, the_turn
from tests.processes.dev_servers import DevServer, slowly

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SEED = 20261130
SECONDS = 60.0
SESSIONS = 4
"""Of each process. Two cores are busy with them."""

PATIENCE_SECONDS = 60.0
MAX_ATTEMPTS = 3


async def test_a_minute_of_kills_loses_nothing_repeats_no_payment_and_leaves_nothing_undone(tmp_path: Path) -> None:
    (tmp_path / "worker").mkdir()
    (tmp_path / "server").mkdir()

    kills = await asyncio.gather(_worker(tmp_path / "worker"), _server(tmp_path / "server"))

    assert min(kills) >= 10  # a machine that is too slow to be killed shows nothing


# --- the worker: three tools, of which two run side by side, and an approval ----------------------------------------


async def _worker(folder: Path) -> int:
    enough = asyncio.Event()
    async with Scene(folder, "slow_agent") as scene:
        users = [_User(scene.worker.session(f"s-{number}")) for number in range(SESSIONS)]
        playing = [asyncio.create_task(user.play(enough)) for user in users]
        kills = await _killed_for(SECONDS, scene.worker)
        enough.set()
        await asyncio.gather(*playing)
        await scene.worker.stop()

        paid = Counter(scene.log.by_key("refund"))
        assert max(paid.values()) == 1
        for user in users:
            log = await _log(scene.database, user.session.session_id)
            turns = [_worker_turn(status) for status in _refunds(log, "refund")]
            _check(user.session.session_id, log, user.turns, "refund", paid, turns)
        _nobody_is_left(scene.database)
    return kills


class _User:
    """Sends one message after another, approves what is asked, and never gives up."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.turns = 0

    async def play(self, enough: asyncio.Event) -> None:
        while not enough.is_set():
            key = f"m-{self.turns + 1}"

            async def send(key: str = key) -> Any:
                return await self.session.send("Refund order 7", idempotency_key=key)

            await again_until_answered(send, timeout_seconds=PATIENCE_SECONDS)
            self.turns += 1
            deciding = asyncio.create_task(decide(self.session, timeout_seconds=PATIENCE_SECONDS))
            await finished(self.session, turns=self.turns, timeout_seconds=PATIENCE_SECONDS)
            deciding.cancel()
            await asyncio.wait({deciding})
            await _hold_ended(self.session)


def _worker_turn(refund: str) -> list[tuple[str, str]]:
    lines = []
    for role, what, text in the_turn(refund):
        spoken = f"{what} {text}" if isinstance(text, dict) else f"{what}: {text}" if role == "tool" else text
        lines.append((role, spoken))
    return lines


# --- the server: a real client over HTTP, a real provider, one payment a turn ---------------------------------------


async def _server(folder: Path) -> int:
    enough = asyncio.Event()
    async with FaultProvider(slowly) as provider, DevServer(folder, OPENAI_BASE_URL=provider.base_url) as server:
        async with perdure.connect(server.url) as client:
            customers = [_Customer(client.session(f"c-{number}")) for number in range(SESSIONS)]
            playing = [asyncio.create_task(customer.play(enough)) for customer in customers]
            kills = await _killed_for(SECONDS, server)
            enough.set()
            await asyncio.gather(*playing)
        await server.stop()

        books = server.refunds.read_text().splitlines()
        paid = Counter(line.split()[2] for line in books)
        assert max(paid.values()) == 1
        for customer in customers:
            log = await _log(folder / "sessions.db", customer.session.session_id)
            turns = [_server_turn(status) for status in _refunds(log, "refund_order")]
            _check(customer.session.session_id, log, customer.turns, "refund_order", paid, turns)
            ends = [event.sequence for event in _events(log.entries) if event.type in TURN_ENDS]
            assert customer.sequences == list(range(1, max(ends) + 1))  # none missed, none twice
            behind = [event.type for event in _events(log.entries) if event.sequence > max(ends)]
            assert set(behind) <= {"hold.released"}  # they followed no further than to the end of their last turn
        _nobody_is_left(folder / "sessions.db")
    return kills


class _Customer:
    """Sends one wish after another over HTTP and follows the events, through every restart."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.turns = 0
        self.sequences: list[int] = []
        self.cursor = ""

    async def play(self, enough: asyncio.Event) -> None:
        while not enough.is_set():
            key = f"m-{self.turns + 1}"

            async def send(key: str = key) -> Any:
                return await self.session.send("Refund order 7, all 12.5 euros", idempotency_key=key)

            receipt = await again_until_answered(send, timeout_seconds=PATIENCE_SECONDS)
            self.turns += 1
            self.cursor = self.cursor or receipt.cursor  # once: a hold that ended in between has events, too
            while not await self._followed():
                pass
            await _hold_ended(self.session)

    async def _followed(self) -> bool:
        """Follow the events from where they were left. False: the server was away for longer than a client waits."""
        try:
            async for event in self.session.events(after=self.cursor):
                self.cursor = event.cursor
                if event.sequence is not None:
                    self.sequences.append(event.sequence)
                if event.type == "interrupt_raised":
                    await self._approve(event.payload["interrupt_id"])
        except StoreUnavailableError:
            return False
        return True

    async def _approve(self, interrupt_id: str) -> None:
        async def resolve() -> None:
            await self.session.resolve(interrupt_id, approved=True, idempotency_key=f"a-{interrupt_id}")

        await again_until_answered(resolve, timeout_seconds=PATIENCE_SECONDS)


def _server_turn(refund: str) -> list[tuple[str, str]]:
    said = "refunded 12.5" if refund == "succeeded" else texts.OUTCOME_UNKNOWN
    return [
        ("user", "Refund order 7, all 12.5 euros"),
        ("assistant", "refund_order {'order_id': '7', 'amount': 12.5}"),
        ("tool", f"refund_order: {said}"),
        ("assistant", f"I did that: {said}"),
    ]


# --- what has to be true in the end ---------------------------------------------------------------------------------


async def _hold_ended(session: Session) -> None:
    """Go on after a turn that failed, as one does in which three kills hit a model step: later messages would wait."""
    snapshot = await again_until_answered(session.snapshot, timeout_seconds=PATIENCE_SECONDS)
    if "last_turn_error" in snapshot["state"]:
        key = f"go-on-{snapshot['state']['turn_count']}"
        await again_until_answered(lambda: session.stop(idempotency_key=key), timeout_seconds=PATIENCE_SECONDS)


async def _killed_for(seconds: float, process: ChildProcess) -> int:
    chance, until, kills = random.Random(SEED), time.monotonic() + seconds, 0
    while time.monotonic() < until:
        await asyncio.sleep(chance.uniform(0.0, 1.5))
        await process.kill()
        await process.start()
        kills += 1
    return kills


async def _log(file: Path, session_id: str) -> LogSlice:
    async with Database.open(file, read_only=True) as database:
        return await SqliteSessionStore(database).read(SessionKey("local", session_id))


def _refunds(log: LogSlice, tool: str) -> list[str]:
    """Return what became of the refund of each turn; `none` for a turn that never came to it."""
    statuses = {
        event.turn_id: event.payload["status"]
        for event in _events(log.entries)
        if event.type == "tool_call_finished" and event.payload["tool_name"] == tool
    }
    return [statuses.get(f"turn-{number}", "none") for number in range(1, log.head.turn_count + 1)]


def _check(
    session_id: str, log: LogSlice, turns: int, tool: str, paid: Counter[str], expected: list[list[tuple[str, str]]]
) -> None:
    """Check a session: counters, transcript, at most one payment a call, and that everything came to its end."""
    check_log(log.head, log.entries)
    ending = Ending.of(log.head, log.entries)
    assert log.head.turn_count == turns > 0
    assert (ending.work, ending.pending, ending.waiting) == ((), (), ())
    given_up = _given_up(log.entries)
    for number, end in enumerate(ending.turns, start=1):
        shown = [(line.role, line.text) for line in ending.results_in_order() if line.turn == number]
        if (end, shown) != ("turn_completed", expected[number - 1]):
            assert f"turn-{number}" in given_up, (end, shown)
    turn_of = {line.call: line.turn for line in ending.transcript}
    for call_id, number in ending.call_ids.items():
        name, _, status = ending.calls[number]
        if name == tool:
            times = paid[f"local/{session_id}/turn-{turn_of[number]}/{call_id}"]
            assert times in {"succeeded": (1,), UNKNOWN: (0, 1), "failed": (0,)}[str(status)], (call_id, status)


def _given_up(entries: Iterable[Entry]) -> set[str | None]:
    """Return the turns in which a step was killed so often that it may have been given up, which is then said."""
    lost: Counter[tuple[str | None, str | None]] = Counter()
    for event in _events(entries):
        if event.type == "attempt_reset":
            lost[event.turn_id, event.step_execution_id] += 1
    return {turn_id for (turn_id, _), times in lost.items() if times >= MAX_ATTEMPTS - 1}


def _events(entries: Iterable[Entry]) -> list[Any]:
    return [event for entry in entries for event in entry.events]


def _nobody_is_left(file: Path) -> None:
    """Check that no session waits for a sweep: whatever was begun has ended."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM heads WHERE due_at IS NOT NULL").fetchone() == (0,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
