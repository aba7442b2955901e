"""The files of the console page, read once, with the headers that keep everything else out of it."""

from __future__ import annotations

from pathlib import Path

from starlette.responses import Response

CONSOLE = Path(__file__).parent / "console"

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
    """Return content and media type by path: the page itself at `/`, what it loads under `/console/`."""
    pages = {
        f"/console/{file.name}": (file.read_bytes(), MEDIA_TYPES[file.suffix])
        for file in sorted(folder.iterdir())
        if file.suffix in MEDIA_TYPES
    }
    pages["/"] = pages.pop("/console/index.html")
    return pages


def page_response(content: bytes, media_type: str) -> Response:
    """Return the response for one of the files."""
    return Response(content, headers={**HEADERS, "content-type": media_type})
