"""`perdure demo`, as somebody runs it who wants to see what this is about."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from perdure.testing.processes import poll_until

pytestmark = pytest.mark.processes

LONGEST_SECONDS = 20.0


def environment(folder: Path) -> dict[str, str]:
    # A key in the environment must not make the demo call anybody, and its files belong into this test's folder.
    return {**os.environ, "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "http://127.0.0.1:1", "TMPDIR": str(folder)}


async def start(folder: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure", "demo"),
        cwd=folder,
        env=environment(folder),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def left_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_the_demo_is_short_shows_the_kills_and_leaves_nothing_behind(tmp_path: Path) -> None:
    began = time.monotonic()
    demo = await start(tmp_path)
    output, errors = await demo.communicate()
    took = time.monotonic() - began

    text = output.decode()
    assert demo.returncode == 0
    assert errors == b""
    assert took < LONGEST_SECONDS
    workers = re.findall(r"worker process (\d+) is ready", text)
    assert re.findall(r"kill -9 (\d+)", text) == workers[:2]
    assert len(set(workers)) == 3
    assert not any(is_there(int(pid)) for pid in workers)
    assert "attempt given up: its worker died" in text
    assert text.count("  ok    ") == 6
    assert "LOST" not in text
    assert left_in(tmp_path) == []


async def test_a_demo_that_is_interrupted_ends_its_worker(tmp_path: Path) -> None:
    demo = await start(tmp_path)
    assert demo.stdout is not None
    async for line in demo.stdout:
        if found := re.search(rb"worker process (\d+) is ready", line):
            worker = int(found.group(1))
            break

    demo.send_signal(signal.SIGINT)
    _, errors = await demo.communicate()

    assert demo.returncode == 130
    assert b"Traceback" not in errors
    await poll_until(lambda: not is_there(worker))
    assert left_in(tmp_path) == []
