"""`perdure dev`: the development server."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from perdure.cli.loading import database_file, load_agents, load_webhooks, tell_of_demo
from perdure.cli.printing import say
from perdure.embedded.runtime import open_runtime
from perdure.embedded.server import create_app, serve


async def dev(options: argparse.Namespace) -> int:
    """Serve the API and the console until SIGTERM or SIGINT."""
    agents, webhooks = load_agents(options.agents), load_webhooks(options.agents)
    async with open_runtime(database_file(options.db), agents=agents, webhooks=webhooks) as runtime:
        tell_of_demo(agents)
        await serve(create_app(runtime.service, host=options.host), host=options.host, port=options.port)
        closed = await runtime.close()
        if closed.remaining:
            say(f"steps that were cut off: {closed.remaining}; the next start takes them up", stream=sys.stderr)
    if any(task.cancelling() for task in asyncio.all_tasks() if task is not asyncio.current_task()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # tools that take no cancellation: the loop would wait for them, and the database is closed
    return 0
