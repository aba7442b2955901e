"""The console as static files, for an API elsewhere: `perdure console`."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from perdure.embedded.pages import POLICY, is_loopback, read_pages
from perdure.errors import ConfigurationError

_DEVELOPMENT = '<p id="development"'
_CHARSET = '<meta charset="utf-8">'


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the page finds what it talks to.

    Attributes:
        api: The HTTP API, `https://…`.
        stream: Where streams are, if that is elsewhere; None: they are not used.
        socket: The WebSocket, `wss://…`; None: events are asked for by requests that wait.
    """

    api: str
    stream: str | None = None
    socket: str | None = None


def hosted_files(addresses: Addresses) -> dict[str, bytes]:
    """Return the files by their names in a folder: `index.html`, and what it loads.

    Raises:
        ConfigurationError: An address is none that the page could use; the message says which and why.
    """
    checked = {
        "api": _address("--api", addresses.api, ("https", "http")),
        "stream": addresses.stream and _address("--stream", addresses.stream, ("https", "http")),
        "socket": addresses.socket and _address("--socket", addresses.socket, ("wss", "ws")),
    }
    files = {path.lstrip("/"): content for path, (content, _) in read_pages().items()}
    page = files.pop("").decode("utf-8")
    for name, address in checked.items():
        empty = f'<meta name="perdure:{name}" content="">'
        page = page.replace(empty, f'<meta name="perdure:{name}" content="{html.escape(address or "")}">')
    lines = [line for line in page.splitlines(keepends=True) if _DEVELOPMENT not in line]
    policy = " ".join([POLICY, *dict.fromkeys(_origin(address) for address in checked.values() if address)])
    tag = f'<meta http-equiv="content-security-policy" content="{html.escape(policy)}">'
    files["index.html"] = "".join(lines).replace(_CHARSET, f"{_CHARSET}\n    {tag}", 1).encode("utf-8")
    return files


def write_console(folder: Path, addresses: Addresses) -> list[str]:
    """Write the files into `folder`, which is made if it is not there. Returns their names; other files stay.

    Raises:
        ConfigurationError: An address is none that the page could use, or the folder can't be written.
    """
    files = hosted_files(addresses)
    try:
        for name, content in files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    except OSError as error:
        raise ConfigurationError(
            f"--out {str(folder)!r} can't be written: {error.strerror}; choose another folder"
        ) from error
    return sorted(files)


def _address(option: str, address: str, schemes: tuple[str, str]) -> str:
    safe, plain = schemes
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigurationError(f"{option} {address!r} is no address: {error}") from error
    if parts.scheme not in schemes or not host:
        raise ConfigurationError(f"{option} {address!r} must be an address such as {safe}://api.example.com")
    if parts.query or parts.fragment or parts.username or any(char in address for char in " ;,'\"<>"):
        raise ConfigurationError(f"{option} {address!r} must end with its path: no query, no fragment, no user")
    if parts.scheme == plain and not is_loopback(host):
        raise ConfigurationError(
            f"{option} {address!r} would carry tokens unencrypted: use {safe}://, or an address of this machine"
        )
    return address.rstrip("/")


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
