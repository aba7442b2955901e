"""The server that `bench.live` measures, as a process of its own: `python -m bench.live_server FOLDER`.

Prints `ready URL` when it listens. A line on its standard input is answered by one of JSON: memory, CPU time and when
the last commit of each session was on the disk. It ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import perdure.embedded.runtime
from perdure import AgentDefinition
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.embedded.server import create_app, serve
from perdure.embedded.store import SqliteSessionStore
from perdure.models.base import ModelRequest, ModelResponse, StreamItem, TextDelta
from perdure.models.scripted import user_texts

ASKED = re.compile(r"say (\d+) every (\d+) ms of (\d+)")
STATM = Path("/proc/self/statm")

committed: dict[str, float] = {}
"""When each session's last commit was on the disk, by `time.monotonic`, which all processes of a machine share."""


class Stamping:
    """A model whose every token is the time at which it was yielded, so that whoever receives it knows its age."""

    provider = "bench"
    model = "stamping"

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Say as many tokens, as far apart and of as many characters as the user asked for."""
        asked = ASKED.match(user_texts(request)[-1])
        number, pause, size = map(int, asked.groups()) if asked else (1, 0, 0)
        said = []
        for _ in range(number):
            await asyncio.sleep(pause / 1000)
            token = f"{time.monotonic():.6f} ".ljust(size, "x")
            said.append(token)
            yield TextDelta(token)
        yield ModelResponse(text="".join(said))


class TimedStore(SqliteSessionStore):
    """Notes when a commit is done."""

    async def commit(self, key: Any, loaded: Any, decision: Any) -> Any:
        done = await super().commit(key, loaded, decision)
        committed[key.session_id] = time.monotonic()
        return done


def figures() -> dict[str, Any]:
    """Return memory now (where the system tells it; else the most there was), CPU seconds, and the last commits."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = used.ru_maxrss * 1024
    rss = int(STATM.read_text().split()[1]) * resource.getpagesize() if STATM.exists() else most
    return {"rss": rss, "max_rss": most, "cpu": used.ru_utime + used.ru_stime, "committed": committed}


async def main(folder: str) -> None:
    """Serve a fresh database in a folder until the input ends."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    stop = asyncio.Event()
    agent = AgentDefinition(name="stamping", model=Stamping())
    async with EmbeddedRuntime(Path(folder) / "live.db", [agent], grace_seconds=0) as runtime:
        answering: list[asyncio.Task[None]] = []

        def ready(line: str) -> None:
            _print(line)
            answering.append(asyncio.create_task(_answer(stop)))

        await serve(create_app(runtime.service), port=0, stop=stop, announce=ready)


async def _answer(stop: asyncio.Event) -> None:
    while await asyncio.to_thread(sys.stdin.readline):
        _print(json.dumps(figures()))
    stop.set()


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    vars(perdure.embedded.runtime)["SqliteSessionStore"] = TimedStore  # the runtime makes its store itself
    asyncio.run(main(sys.argv[1]))
