"""The files of the console page, read once, with the headers that keep everything else out of it."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.responses import Response

CONSOLE = Path(__file__).parent / "console"

CLIENT = Path(__file__).parent / "client"
"""Where a wheel has the modules of the JavaScript client, which the console imports."""

CLIENT_SOURCE = Path(__file__).parents[4] / "clients" / "js" / "src"
"""Where a source checkout has them."""

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""What the console is made of; other files are not served."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'; connect-src 'self'"
)
"""What the page may do, wherever it is: load its own files, make no HTML of any text, talk to its own server."""

HEADERS = {
    # A frame around the page could steal an approval's click.
    "content-security-policy": f"{POLICY}; frame-ancestors 'none'",
    "cache-control": "no-cache",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


EXPOSED = "data-exposed"
"""The attribute with which the page says louder that whoever reaches it may do everything."""


def read_pages(folder: Path = CONSOLE, *, host: str = "127.0.0.1") -> dict[str, tuple[bytes, str]]:
    """Return content and media type by path: the page itself at `/`, what it loads under `/console/` and `/client/`.

    Args:
        host: What the development server listens at; the page says so louder when others may reach it.

    Raises:
        ConfigurationError: The modules of the client are missing, which the page can't do without.
    """
    pages = {**_files(folder, "/console/"), **_files(client_folder(), "/client/")}
    content, media_type = pages.pop("/console/index.html")
    if not is_loopback(host):
        content = content.replace(f'{EXPOSED}="false"'.encode(), f'{EXPOSED}="true"'.encode())
    pages["/"] = (content, media_type)
    return pages


def is_loopback(host: str) -> bool:
    """Say whether nobody but this machine reaches a server that listens at `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def client_folder(installed: Path = CLIENT, source: Path = CLIENT_SOURCE) -> Path:
    """Return the folder of the JavaScript client: the wheel's own, or that of the checkout that this file is part of.

    Raises:
        ConfigurationError: There is neither.
    """
    for folder in (installed, source):
        if (folder / "reducer.js").is_file():
            return folder
    raise ConfigurationError(
        f"the console's JavaScript client is neither at {installed} nor at {source}: "
        "install perdure from a wheel, or run it from a complete checkout"
    )


def _files(folder: Path, prefix: str) -> dict[str, tuple[bytes, str]]:
    return {
        f"{prefix}{file.name}": (file.read_bytes(), MEDIA_TYPES[file.suffix])
        for file in sorted(folder.iterdir())
        if file.suffix in MEDIA_TYPES
    }


def page_response(content: bytes, media_type: str) -> Response:
    """Return the response for one of the files."""
    from starlette.responses import Response

    return Response(content, headers={**HEADERS, "content-type": media_type})
