"""One way to sessions for every command: a running server, or the database in this process."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from perdure.cli import DEFAULT_PORT
from perdure.cli.loading import database_file, load_agents, tell_of_demo
from perdure.core.listing import SessionSearch
from perdure.errors import DatabaseInUseError
from perdure.session import Session

if TYPE_CHECKING:
    from perdure.client import Client

DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"


class Connection(Protocol):
    """What both the embedded runtime and the HTTP client offer."""

    def session(self, session_id: str, *, agent: str | None = None) -> Session: ...

    async def sessions(
        self, *, cursor: str | None = None, limit: int = 50, **search: Unpack[SessionSearch]
    ) -> dict[str, Any]: ...


def _server(url: str) -> Client:
    """Return a client. The token of a stack on AWS is no option, because others on a machine can read those."""
    from perdure.client import connect

    return connect(url, token=os.environ.get("PERDURE_TOKEN") or None)


@contextlib.asynccontextmanager
async def connected(options: argparse.Namespace) -> AsyncIterator[Connection]:
    """Connect to `--url`, or run the agents on `--db` in this process."""
    if options.url:
        async with _server(options.url) as client:
            yield client
    else:
        from perdure.embedded.runtime import open_runtime

        agents = load_agents(options.agents)
        async with contextlib.AsyncExitStack() as stack:
            try:
                runtime = await stack.enter_async_context(open_runtime(database_file(options.db), agents=agents))
            except DatabaseInUseError as error:
                raise DatabaseInUseError(
                    f"{error.message}. If it is a `perdure dev`, talk to it: add `--url` with the address that it "
                    f"printed, such as {DEFAULT_URL}"
                ) from error
            tell_of_demo(agents)
            yield runtime


@contextlib.asynccontextmanager
async def looking(options: argparse.Namespace) -> AsyncIterator[Connection]:
    """Connect to `--url`, or read `--db` without disturbing the runtime that may have it open."""
    if options.url:
        async with _server(options.url) as client:
            yield client
    else:
        from perdure.embedded.viewer import open_viewer

        async with open_viewer(options.db) as viewer:
            yield viewer
