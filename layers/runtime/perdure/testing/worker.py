"""A process that runs agents on one database file and does as it is told on its standard input.

    python -m perdure.testing.worker MODULE:AGENTS DATABASE

It prints `ready` when it works. Each line it reads is a request, `{"id", "session", "method", "arguments"}` with a
method of `SessionApi`; each further line it prints is the answer, `{"id", "reply"}` or `{"id", "error", "code"}`.
SIGTERM and the end of its input make it finish what runs and leave.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any

from perdure.cli.loading import load_agents
from perdure.embedded.runtime import EmbeddedRuntime, open_runtime
from perdure.errors import PerdureError
from perdure.service import LOCAL_CALLER
from perdure.session import BoundService


async def work(agents: str, database: str) -> None:
    """Serve requests until told to leave."""
    loop = asyncio.get_running_loop()
    leave = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, leave.set)
    requests = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(requests), sys.stdin)
    async with open_runtime(database, agents=load_agents(agents)) as runtime:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        serving = asyncio.create_task(_serve(runtime, requests))
        leaving = asyncio.create_task(leave.wait())
        await asyncio.wait({serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        leaving.cancel()


async def _serve(runtime: EmbeddedRuntime, requests: asyncio.StreamReader) -> None:
    async with asyncio.TaskGroup() as answering:
        async for line in requests:
            answering.create_task(_answer(runtime, json.loads(line)))


async def _answer(runtime: EmbeddedRuntime, request: dict[str, Any]) -> None:
    method = getattr(BoundService(runtime.service, LOCAL_CALLER), request["method"])
    answer: dict[str, Any] = {"id": request["id"]}
    try:
        answer["reply"] = await method(request["session"], **request["arguments"])
    except PerdureError as error:
        answer |= {"error": type(error).__name__, "code": error.code, "message": error.message}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
