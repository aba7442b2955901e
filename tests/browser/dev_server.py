"""A real `perdure dev` process that a test may kill and start again on its port and file."""

import os
import signal
import subprocess
import sys
from pathlib import Path

# The example agent without a key, with a wait of so many milliseconds before each 12 characters of its text.
AGENTS = """
from datetime import timedelta

from perdure.agents.demo_model import demo_model
from perdure.agents.example import support_agent

agent = support_agent(demo_model(timedelta(milliseconds=PACE)))
"""


class DevServer:
    """`perdure dev` over one file in `folder`. The first start takes a free port, later ones take the same."""

    def __init__(self, folder: Path, *, pace_ms: int) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.books = folder / "shop.jsonl"
        (folder / "slow_support.py").write_text(AGENTS.replace("PACE", str(pace_ms)), encoding="utf-8")

    def start(self) -> None:
        """Start, and return when it listens."""
        port = self.url.rpartition(":")[2] or "0"
        command = ["-m", "perdure", "dev", "--agents", "slow_support:agent", "--db", "sessions.db", "--port", port]
        with (self._folder / "stderr.log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                cwd=self._folder,
                env={**os.environ, "PERDURE_SHOP_FILE": str(self.books), "PYTHONUNBUFFERED": "1"},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ready "):
                self.url = line.split()[1]
                return
        raise AssertionError(f"`perdure dev` ended before it was ready:\n{self.stderr()}")

    def kill(self) -> None:
        """End it as a power cut would: SIGKILL, nothing is cleaned up."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(timeout=10)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def stderr(self) -> str:
        """Return what all its processes wrote to standard error so far."""
        return (self._folder / "stderr.log").read_text(encoding="utf-8")
