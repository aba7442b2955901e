"""Stop code of another process at an exact point, and count what its tools really did: both by files in one folder.

Files are the only thing that a killed process surely leaves behind, and any number of processes may share them.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POLL_SECONDS = 0.005
"""Time between two looks at a gate."""


class GateNotReachedError(AssertionError):
    """Nobody came to the gate in time."""


class FileGate:
    """Gates by name. Code passes every gate that is open, which all are at first; at a closed one it waits.

    The code that is tested calls `reach` (or `reach_blocking` from a thread); the test calls `close`, `wait_reached`
    and `open`. What waits at a gate when its process is killed is over: the gate is then opened for the next one.
    """

    def __init__(self, folder: Path) -> None:
        """Use the gates of a folder; it is made if there is none."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    async def reach(self, name: str) -> None:
        """Pass this gate, waiting while it is closed."""
        while self._is_closed(name):  # noqa: ASYNC110  another process opens it, so there is nothing else to wait on
            await asyncio.sleep(POLL_SECONDS)

    def reach_blocking(self, name: str) -> None:
        """The same for code that is not async."""
        while self._is_closed(name):
            time.sleep(POLL_SECONDS)

    def close(self, name: str) -> None:
        """Let nobody pass from now on."""
        self._closed(name).touch()

    def open(self, name: str) -> None:
        """Let everybody pass, those that wait included."""
        self._closed(name).unlink(missing_ok=True)
        self._reached(name).unlink(missing_ok=True)

    def open_all(self) -> None:
        """Open every gate."""
        for closed in self._folder.glob("*.closed"):
            self.open(closed.stem)

    def is_reached(self, name: str) -> bool:
        """Whether somebody has come to this gate since it was closed."""
        return self._reached(name).exists()

    async def wait_reached(self, name: str, timeout_seconds: float = 15.0) -> None:
        """Return once somebody waits at this gate.

        Raises:
            GateNotReachedError: Nobody came in time.
        """
        give_up = time.monotonic() + timeout_seconds
        while not self.is_reached(name):
            if time.monotonic() > give_up:
                raise GateNotReachedError(f"nobody came to gate {name!r} in {timeout_seconds} s")
            await asyncio.sleep(POLL_SECONDS)

    def _is_closed(self, name: str) -> bool:
        if not self._closed(name).exists():
            return False
        self._reached(name).touch()
        return True

    def _closed(self, name: str) -> Path:
        return self._folder / f"{name}.closed"

    def _reached(self, name: str) -> Path:
        return self._folder / f"{name}.reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One real run of a tool's body."""

    tool: str
    key: str
    attempt: int
    process: int


class InvocationLog:
    """Counts real runs of tools over all processes. A line is on its way to the disk before `record` returns."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def record(self, tool: str, *, key: str, attempt: int = 1) -> None:
        """Note a run, in one write, so that lines of several processes don't mix."""
        line = json.dumps({"tool": tool, "key": key, "attempt": attempt, "process": os.getpid()}) + "\n"
        log = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(log, line.encode())
        finally:
            os.close(log)

    def all(self) -> list[Invocation]:
        """Return every run, oldest first."""
        if not self._file.exists():
            return []
        lines: list[dict[str, Any]] = [json.loads(line) for line in self._file.read_text().splitlines()]
        return [Invocation(**line) for line in lines]

    def of(self, tool: str) -> list[Invocation]:
        """Return the runs of one tool, oldest first."""
        return [run for run in self.all() if run.tool == tool]

    def count(self, tool: str) -> int:
        """Return how often a tool's body ran."""
        return len(self.of(tool))

    def by_key(self, tool: str) -> dict[str, int]:
        """Return how often a tool's body ran for each idempotency key."""
        counts: dict[str, int] = {}
        for run in self.of(tool):
            counts[run.key] = counts.get(run.key, 0) + 1
        return counts
