"""`perdure dev`: the development server."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from perdure.cli.loading import database_file, load_agents, load_sinks, load_webhooks, tell_of_demo
from perdure.cli.printing import say
from perdure.embedded.pages import is_loopback
from perdure.embedded.runtime import open_runtime
from perdure.embedded.server import create_app, serve

OPEN_TO_THIS_MACHINE = "development mode: no authentication. Whoever can use this machine can use every session."

OPEN_TO_OTHERS = """\
********************************************************************************
  DEVELOPMENT MODE, NO AUTHENTICATION, AND NOT ONLY FOR THIS MACHINE.
  Whoever reaches {host} can read every session, approve every call and spend
  your model's budget. Listen at 127.0.0.1 (--host), or deploy with tokens.
********************************************************************************"""


async def dev(options: argparse.Namespace) -> int:
    """Serve the API and the console until SIGTERM or SIGINT."""
    agents, webhooks = load_agents(options.agents), load_webhooks(options.agents)
    sinks = load_sinks(options.agents)
    async with open_runtime(database_file(options.db), agents=agents, webhooks=webhooks, sinks=sinks) as runtime:
        tell_of_demo(agents)
        tell_of_open_doors(options.host)
        await serve(create_app(runtime.service, host=options.host), host=options.host, port=options.port)
        closed = await runtime.close()
        if closed.remaining:
            say(f"steps that were cut off: {closed.remaining}; the next start takes them up", stream=sys.stderr)
    if any(task.cancelling() for task in asyncio.all_tasks() if task is not asyncio.current_task()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # tools that take no cancellation: the loop would wait for them, and the database is closed
    return 0


def tell_of_open_doors(host: str) -> None:
    """Say that nobody is asked for a login, and say it loudly where others may reach the server."""
    say(OPEN_TO_THIS_MACHINE if is_loopback(host) else OPEN_TO_OTHERS.format(host=host), stream=sys.stderr)
