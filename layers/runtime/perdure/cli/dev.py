"""`perdure dev`: the development server."""

from __future__ import annotations

import argparse

from perdure.cli.loading import database_file, load_agents, tell_of_demo
from perdure.embedded.runtime import open_runtime
from perdure.embedded.server import create_app, serve


async def dev(options: argparse.Namespace) -> int:
    """Serve the API and the console until SIGTERM or SIGINT."""
    agents = load_agents(options.agents)
    async with open_runtime(database_file(options.db), agents=agents) as runtime:
        tell_of_demo(agents)
        await serve(create_app(runtime.service, host=options.host), host=options.host, port=options.port)
    return 0
