"""`perdure demo`: a conversation that is killed twice with a real SIGKILL, goes on, and loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from perdure.agents import fake_shop
from perdure.agents.demo_model import demo_model
from perdure.agents.example import support_agent
from perdure.cli.inspect import all_events
from perdure.cli.printing import arguments_of, plain, print_message, print_timeline, say, text_of
from perdure.client import connect
from perdure.errors import ConfigurationError
from perdure.session import Session, SessionEvent

SESSION = "demo"

UNHURRIED = timedelta(milliseconds=70)
"""Wait before each piece of an answer, so that the kill in its middle is one on a slow machine, too."""

agents = [support_agent(demo_model(UNHURRIED))]
"""What the worker process runs."""

READY_SECONDS = 60
"""How long a server process may take to start on a slow machine."""


async def demo() -> int:
    """Play the demo. Returns 0 only if everything that was accepted survived."""
    with tempfile.TemporaryDirectory(prefix="perdure-demo-") as folder:
        os.environ["PERDURE_SHOP_FILE"] = str(Path(folder) / "shop.jsonl")
        return await _Demo(Path(folder)).play()


class _Demo:
    """The demo's folder, and the worker process that is killed in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._kills = 0

    async def play(self) -> int:
        say("Perdure demo: one agent, one SQLite file, two kills. No key, no account, no network.\n")
        try:
            await self._look_up_an_order()
            await self._ask_for_a_refund()
            await self._approve_and_kill_the_answer()
            return await self._see_what_survived()
        finally:
            await self._end()

    async def _look_up_an_order(self) -> None:
        say("1. A read: the model asks for a tool, the tool runs, the answer streams.")
        async with self._session() as session:
            await _tell(session, "Where is order 7?")

    async def _ask_for_a_refund(self) -> None:
        say("\n2. A refund waits for a person. The process is killed while it waits.")
        async with self._session() as session:
            await _tell(session, "Refund order 7", until=lambda event: event.type == "interrupt_raised")
        await self._kill()

    async def _approve_and_kill_the_answer(self) -> None:
        say("\n3. A new process finds the approval still pending. It is given, the refund runs once,")
        say("   and the process is killed again in the middle of the model's answer.")
        async with self._session() as session:
            snapshot = await session.snapshot()
            (interrupt,) = snapshot["pending_interrupts"]
            say(f"   pending: {interrupt['tool_name']} {arguments_of(interrupt)}")
            await session.resolve(interrupt["interrupt_id"], approved=True, arguments_hash=interrupt["arguments_hash"])
            await _follow(session, snapshot["cursor"], until=_some_text())
        await self._kill()

    async def _see_what_survived(self) -> int:
        say("\n4. A new process goes on by itself.")
        async with self._session() as session:
            snapshot = await session.snapshot()
            if "turn_id" in snapshot["state"]:
                await _follow(session, snapshot["cursor"])
            snapshot = await session.snapshot()
            events = await all_events(session)
        say("\nTranscript")
        for message in snapshot["messages"]:
            print_message(message)
        say("\nTimeline")
        print_timeline(events)
        return _report(self._kills, snapshot, events)

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        if self._process is None:
            self._url = await self._start()
        async with connect(self._url) as client:
            yield client.session(SESSION)

    async def _start(self) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
        environment.pop("PERDURE_AGENTS", None)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "perdure", "dev", "--agents", "perdure.cli.demo:agents"),
            *("--port", "0", "--db", str(self._folder / "demo.db")),
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(READY_SECONDS):
            async for line in self._process.stdout:
                if line.startswith(b"ready "):
                    say(f"   (worker process {self._process.pid} is ready)")
                    return line.decode().split()[1]
        raise ConfigurationError(
            "the worker process of the demo ended before it was ready: `perdure dev --port 0` tells why"
        )

    async def _kill(self) -> None:
        assert self._process is not None
        say(f"\n   kill -9 {self._process.pid}")
        os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        self._process = None
        self._kills += 1

    async def _end(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()


async def _tell(session: Session, text: str, until: Callable[[SessionEvent], bool] | None = None) -> None:
    say(f"   you: {text}")
    receipt = await session.send(text)
    await _follow(session, receipt.cursor, until)


async def _follow(session: Session, cursor: str, until: Callable[[SessionEvent], bool] | None = None) -> None:
    """Print a turn as it runs, until it ends or an event says to leave."""
    streaming = False
    async for event in session.events(after=cursor):
        if event.type == "text_delta":
            print("" if streaming else "   agent: ", plain(event.payload["text"]), sep="", end="", flush=True)
            streaming = True
        elif event.type in ("tool_call_deferred", "tool_call_finished", "interrupt_raised", "interrupt_resolved"):
            say(f"{_newline(streaming)}   [{event.type}] {event.payload.get('tool_name', '')}".rstrip(" "))
            streaming = False
        if until is not None and until(event):
            break
    say(_newline(streaming), end="")


def _newline(streaming: bool) -> str:
    return "\n" if streaming else ""


def _some_text(characters: int = 24) -> Callable[[SessionEvent], bool]:
    """Return a test that holds once the answer to the refund has begun to stream."""
    seen = 0

    def enough(event: SessionEvent) -> bool:
        nonlocal seen
        if event.type == "text_delta":
            seen += len(event.payload["text"])
        return seen >= characters

    return enough


def _report(kills: int, snapshot: dict[str, Any], events: list[dict[str, Any]]) -> int:
    """Print what was promised and whether it held."""
    state, messages = snapshot["state"], snapshot["messages"]
    users = [message for message in messages if message["role"] == "user"]
    results = [part for message in messages for part in message["parts"] if part["type"] == "tool_result"]
    calls = [part for message in messages for part in message["parts"] if part["type"] == "tool_call"]
    ended = [event for event in events if event["type"] == "turn_completed"]
    checks = {
        f"the worker was killed {kills} times with SIGKILL": kills == 2,
        "both messages were kept and both turns were answered": len(users) == len(ended) == 2
        and state["status"] == "waiting_for_user_message",
        "every tool call has exactly one result": sorted(c["tool_call_id"] for c in calls)
        == sorted(r["tool_call_id"] for r in results),
        f"the refund ran {fake_shop.count_refunds('7')} time(s), as the shop's own books say": fake_shop.count_refunds(
            "7"
        )
        == 1,
        _how_the_answer_survived(events): text_of(messages[-1]).startswith("Good news")
        and "status" not in messages[-1],
        "the events have no gap": [e["sequence"] for e in events] == list(range(1, len(events) + 1)),
    }
    say("\nWhat survived")
    for claim, held in checks.items():
        say(f"  {'ok  ' if held else 'LOST'}  {claim}")
    return 0 if all(checks.values()) else 1


def _how_the_answer_survived(events: list[dict[str, Any]]) -> str:
    if any(event["type"] == "attempt_reset" for event in events):
        return "the answer that the kill cut off was given whole by a second attempt"
    return "the answer is whole (on this machine it was complete before the kill)"
