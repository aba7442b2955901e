"""`perdure console`: the console page as static files."""

from __future__ import annotations

import argparse
from pathlib import Path

from perdure.cli.printing import say
from perdure.embedded.hosted_console import Addresses, write_console


def console(options: argparse.Namespace) -> int:
    """Write the page and say what to do with it."""
    folder = Path(options.out)
    files = write_console(folder, Addresses(api=options.api, stream=options.stream, socket=options.socket))
    say(f"wrote {len(files)} files to {folder}: serve them over https, at an origin of the stack's AllowedOrigins")
    return 0
