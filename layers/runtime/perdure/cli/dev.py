"""`perdure dev`: the development server."""

from __future__ import annotations

import argparse
import sys

from perdure.agents.example import is_demo
from perdure.cli.loading import database_file, load_agents
from perdure.embedded.runtime import open_runtime
from perdure.embedded.server import create_app, serve


async def dev(options: argparse.Namespace) -> int:
    """Serve the API and the console until SIGTERM or SIGINT."""
    agents = load_agents(options.agents)
    async with open_runtime(database_file(options.db), agents=agents) as runtime:
        if any(is_demo(agent) for agent in agents):
            print("no model key is set: the example agent uses the scripted demo model", file=sys.stderr, flush=True)
        await serve(create_app(runtime.service, host=options.host), host=options.host, port=options.port)
    return 0
