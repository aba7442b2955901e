"""A terminal of a test's own: a person who types into `perdure chat`, and what they see."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.cli.chat import chat
from perdure.testing.processes import poll_until


class Person:
    """Types, and looks at the screen. What was looked at once is not found again."""

    def __init__(self, master: int, screen: io.StringIO, chatting: asyncio.Task[int]) -> None:
        self._master = master
        self._screen = screen
        self._chatting = chatting
        self._looked = 0

    @property
    def screen(self) -> str:
        """Everything that was printed so far; what is typed is echoed by the terminal and not in it."""
        return self._screen.getvalue()

    async def sees(self, text: str) -> None:
        """Wait until a text appears behind the last one that was seen."""
        place = await poll_until(lambda: self.screen.find(text, self._looked) + 1, timeout_seconds=10)
        self._looked = place - 1 + len(text)

    def types(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())

    def ends_the_input(self) -> None:
        os.write(self._master, b"\x04")

    def interrupts(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    async def has_left(self) -> int:
        """Wait for the end of the chat, and return its exit code."""
        async with asyncio.timeout(10):
            return await self._chatting


@contextlib.asynccontextmanager
async def at_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
    database: Path,
    *,
    session: str | None = "s-1",
    url: str | None = None,
    resume: bool = False,
    agent: str | None = None,
    agents: str = "tests.unit.cli.talkers:agent",
) -> AsyncIterator[Person]:
    """Sit down at a terminal in which `perdure chat` runs."""
    master, slave = pty.openpty()
    screen = io.StringIO()
    options = argparse.Namespace(
        command="chat", session=session, url=url, agents=agents, db=str(database), resume=resume, agent=agent
    )
    with open(slave, encoding="utf-8") as keyboard:  # noqa: PTH123, ASYNC230 - a descriptor, and it is open already
        monkeypatch.setattr(sys, "stdin", keyboard)
        monkeypatch.setattr(sys, "stdout", screen)
        chatting = asyncio.create_task(chat(options))
        try:
            yield Person(master, screen, chatting)
        finally:
            chatting.cancel()
            await asyncio.wait({chatting})
            os.close(master)
