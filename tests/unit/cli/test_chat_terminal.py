"""`perdure chat` with a person at a terminal, who types, interrupts and leaves at any time (spec DEV-04)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.embedded.runtime import open_runtime
from perdure.embedded.server import create_app, serve
from perdure.session import Session
from perdure.testing.processes import finished, pending
from tests.unit.cli import talkers
from tests.unit.cli.terminal import at_a_terminal

QUESTION = "[y]es, [n]o, or no with a reason: "
TALKERS = "tests.unit.cli.talkers:agent"


@contextlib.asynccontextmanager
async def a_server(database: Path) -> AsyncIterator[tuple[str, Session]]:
    """Run a server on a database; give its address and a session of somebody else's who uses it too."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    async with open_runtime(database, agents=[talkers.agent]) as runtime:
        app = create_app(runtime.service)
        serving = asyncio.create_task(serve(app, port=0, announce=ready.set_result, stop=stop))
        try:
            yield (await ready).split()[1], runtime.session("s-1")
        finally:
            stop.set()
            await serving


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


async def test_text_is_seen_while_it_streams_and_only_once(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("slowly, a long answer please")
        await person.sees("agent: you said: ")

        talkers.gate.opened.set()
        await person.sees("> ")

        assert person.screen.endswith("agent: you said: slowly, a long answer please\n> ")
        assert person.screen.count("agent: ") == 1


async def test_ctrl_c_stops_the_running_turn_and_the_conversation_goes_on(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("slowly")
        await person.sees("agent: you said")

        person.interrupts()
        await person.sees("(stopped)\n> ")
        person.types("hello")

        await person.sees("agent: you said: hello\n> ")


async def test_ctrl_c_at_a_question_stops_the_turn_and_the_next_one_leaves(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("wipe disk")
        await person.sees(QUESTION)

        person.interrupts()
        await person.sees("stopping")
        await person.sees("> ")
        person.interrupts()

        assert await person.has_left() == 0
        assert f"come back with: perdure chat s-1 --agents {TALKERS} --db {database}" in person.screen
        assert talkers.wiped == []


@pytest.mark.parametrize("way", ["ctrl-c", "ctrl-d", "/quit", "sigterm"])
async def test_there_are_four_ways_out_of_the_prompt(monkeypatch: pytest.MonkeyPatch, database: Path, way: str) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")

        if way == "ctrl-c":
            person.interrupts()
        elif way == "ctrl-d":
            person.ends_the_input()
        elif way == "sigterm":
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            person.types(way)

        assert await person.has_left() == 0
        assert "come back with: perdure chat s-1" in person.screen


@pytest.mark.parametrize("command", ["/stop", "/quit"])
async def test_a_command_is_no_reason_for_a_rejection(
    monkeypatch: pytest.MonkeyPatch, database: Path, command: str
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("wipe disk")
        await person.sees(QUESTION)

        person.types(command)

        if command == "/stop":
            await person.sees("-> wipe rejected\n  (stopped)\n> ")
        else:
            assert await person.has_left() == 0
            assert "left open: it waits for you" in person.screen
    assert "They wrote" not in person.screen


async def test_enter_alone_decides_nothing(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("wipe disk")
        await person.sees(QUESTION)

        person.types("")
        await person.sees(QUESTION)
        person.types("yes")

        await person.sees("the tool said: wiped")
        assert talkers.wiped == ["disk"]


async def test_what_is_typed_before_the_question_is_seen_is_no_answer_to_it(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("slowly")
        await person.sees("agent: you said")

        person.types("y")
        await person.sees("(queued)")
        talkers.gate.opened.set()

        await person.sees("agent: you said: y\n> ")


async def test_each_of_two_calls_is_asked_for(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("wipe disk tape")
        await person.sees('approve wipe {"what": "disk"}?\n' + QUESTION)

        person.types("n")
        await person.sees('approve wipe {"what": "tape"}?\n' + QUESTION)
        person.types("y")

        await person.sees("the tool said")
        assert talkers.wiped == ["tape"]


async def test_a_question_that_is_answered_elsewhere_is_taken_back(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with a_server(database) as (url, elsewhere), at_a_terminal(monkeypatch, database, url=url) as person:
        await person.sees("> ")
        person.types("wipe disk")
        await person.sees(QUESTION)
        (interrupt,) = await pending(elsewhere)

        await elsewhere.resolve(interrupt["interrupt_id"], approved=True)

        await person.sees("decided elsewhere")
        await person.sees("the tool said: wiped\n> ")
        person.types("/quit")
        await person.sees(f"come back with: perdure chat s-1 --url {url}\n")


async def test_a_turn_that_was_left_running_is_shown_from_where_it_is(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with a_server(database) as (url, elsewhere):
        await elsewhere.send("hello")
        await finished(elsewhere)
        await elsewhere.send("slowly now")
        async with at_a_terminal(monkeypatch, database, url=url) as person:
            await person.sees("you: hello\nagent: you said: hello\nyou: slowly now\nagent: you said: ")
            talkers.gate.opened.set()

            await person.sees("slowly now\n> ")


async def test_a_turn_that_failed_says_why(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")

        person.types("fail")

        await person.sees("the turn failed: ")
        await person.sees("\n> ")


async def test_a_message_that_is_refused_is_told_and_another_can_be_sent(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    async with at_a_terminal(monkeypatch, database) as person:
        await person.sees("> ")
        person.types("/stop")
        await person.sees("not accepted: ")
        await person.sees("> ")

        person.types("hello")

        await person.sees("agent: you said: hello\n> ")
