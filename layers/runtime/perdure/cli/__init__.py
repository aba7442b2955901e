"""The `perdure` command."""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from perdure._version import __version__
from perdure.core.listing import STATUSES, WAITING_FOR
from perdure.errors import PerdureError, TransientError

DEFAULT_AGENTS = "perdure.agents.example:agents"
DEFAULT_DATABASE = ".perdure/sessions.db"
DEFAULT_PORT = 8787


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0 done, 1 it failed, 2 the command line or its set-up is wrong."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may know fewer characters than a model
    options = _parser().parse_args(arguments)
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return asyncio.run(_command(options))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has left; there is nobody to complain to
        return 0
    except PerdureError as error:
        from perdure.cli.printing import say

        is_down = isinstance(error, TransientError)
        hint = ": check that the server runs there" if is_down and getattr(options, "url", None) else ""
        say(f"perdure: {error.message}{hint}", stream=sys.stderr)
        return 1 if is_down else 2


async def _command(options: argparse.Namespace) -> int:
    if options.command == "dev":
        from perdure.cli.dev import dev

        return await dev(options)
    if options.command == "console":
        from perdure.cli.console import console

        return console(options)
    if options.command == "chat":
        from perdure.cli.chat import chat

        return await chat(options)
    if options.command == "demo":
        from perdure.cli.demo import demo

        return await demo()
    from perdure.cli.inspect import sessions, show

    return await (sessions(options) if options.command == "sessions" else show(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="perdure", description="Durable AI-agent sessions.")
    parser.add_argument("--version", action="version", version=f"perdure {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    dev = commands.add_parser("dev", help="development server: HTTP API and console page")
    _add_agents(dev)
    _add_database(dev)
    dev.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    dev.add_argument("--port", type=_port, default=DEFAULT_PORT, help="0 takes a free one (default: %(default)s)")

    hosted = commands.add_parser("console", help="write the console page as static files, for an API elsewhere")
    hosted.add_argument("--out", required=True, metavar="DIR", help="folder for the files; it is made if need be")
    hosted.add_argument("--api", required=True, metavar="URL", help="the HTTP API that the page talks to")
    hosted.add_argument("--stream", metavar="URL", help="where streams are, if the deployment has them")
    hosted.add_argument("--socket", metavar="URL", help="the WebSocket, if the deployment has one")

    commands.add_parser("demo", help="a scripted conversation that is killed in the middle and goes on")

    chat = commands.add_parser("chat", help="talk in the terminal: a new conversation, or one that is named")
    chat.add_argument("session", nargs="?", help="session id to go on with (default: a new one)")
    chat.add_argument("--resume", action="store_true", help="go on with the session of the newest activity")
    chat.add_argument("--agent", metavar="NAME", help="which agent a new session gets (default: the first one)")
    chat.add_argument(
        "--url",
        help="a running server (default: open the database in this process); a stack on AWS wants PERDURE_TOKEN",
    )
    _add_agents(chat)
    _add_database(chat)

    listing = commands.add_parser("sessions", help="list sessions, newest activity first")
    listing.add_argument("--query", metavar="TEXT", help="those with a text in their id, title or preview")
    listing.add_argument("--waiting-for", choices=WAITING_FOR, help="those that wait for something, or for this")
    listing.add_argument("--status", choices=STATUSES, help="those that do this; active: a turn is open")
    show = commands.add_parser("show", help="state, timeline, and what a session waits for")
    show.add_argument("session", help="session id")
    for reading in (listing, show):
        reading.add_argument(
            "--url", help="a running server (default: read the database); a stack on AWS wants PERDURE_TOKEN"
        )
        _add_database(reading)
    return parser


def _add_agents(parser: argparse.ArgumentParser) -> None:
    default = os.environ.get("PERDURE_AGENTS") or DEFAULT_AGENTS
    parser.add_argument("--agents", default=default, metavar="MODULE:NAME", help="agents to run (default: %(default)s)")


def _add_database(parser: argparse.ArgumentParser) -> None:
    default = os.environ.get("PERDURE_DB") or DEFAULT_DATABASE
    parser.add_argument("--db", default=default, metavar="FILE", help="SQLite file (default: %(default)s)")


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: use 0 to 65535")
    return port
