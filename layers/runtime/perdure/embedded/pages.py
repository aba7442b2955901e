"""The files of the console page, read once, with the headers that keep everything else out of it."""

from __future__ import annotations

from pathlib import Path

from starlette.responses import Response

from perdure.errors import ConfigurationError

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

HEADERS = {
    # The page runs its own scripts and talks to its own server; a frame around it could steal an approval's click.
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cache-control": "no-cache",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def read_pages(folder: Path = CONSOLE) -> dict[str, tuple[bytes, str]]:
    """Return content and media type by path: the page itself at `/`, what it loads under `/console/` and `/client/`.

    Raises:
        ConfigurationError: The modules of the client are missing, which the page can't do without.
    """
    pages = {**_files(folder, "/console/"), **_files(client_folder(), "/client/")}
    pages["/"] = pages.pop("/console/index.html")
    return pages


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
    return Response(content, headers={**HEADERS, "content-type": media_type})
