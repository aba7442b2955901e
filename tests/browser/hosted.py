"""A console that is hosted as static files, and an API of another origin that wants a token, as on AWS."""

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

HOP_BY_HOP = {"connection", "content-length", "date", "server", "transfer-encoding"}
TIMEOUT_SECONDS = 30


class Gate(BaseHTTPRequestHandler):
    """What API Gateway does before anything of ours runs: CORS, and a look at the token. Then it forwards."""

    protocol_version = "HTTP/1.1"
    upstream: ClassVar[str] = ""
    origin: ClassVar[str] = ""
    tokens: ClassVar[set[str]] = set()
    asked: ClassVar[list[str]] = []

    def do_OPTIONS(self) -> None:
        """Answer a preflight, which carries no token."""
        self._answer(204, b"", {"access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE"})

    def do_GET(self) -> None:
        """Forward a request whose token is known."""
        self.asked.append(f"{self.command} {self.path}")
        token = self.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.tokens:
            self._answer(401, b'{"message":"Unauthorized"}', {"content-type": "application/json"})
            return
        if self.headers["accept"] == "text/event-stream":  # an HTTP API can't stream
            refusal = b'{"error":{"code":"invalid_request","message":"no streams here","retryable":false}}'
            self._answer(400, refusal, {"content-type": "application/json"})
            return
        length = int(self.headers.get("content-length") or 0)
        names = ("accept", "content-type", "idempotency-key")
        headers = {name: self.headers[name] for name in names if name in self.headers}
        body = self.rfile.read(length) if length else None
        request = urllib.request.Request(self.upstream + self.path, body, headers, method=self.command)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                self._answer(response.status, response.read(), dict(response.headers))
        except urllib.error.HTTPError as error:
            self._answer(error.code, error.read(), dict(error.headers))
        except OSError:
            self._answer(503, b"{}", {"content-type": "application/json"})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("access-control-allow-origin", self.origin)
        self.send_header("access-control-allow-headers", "authorization, content-type, idempotency-key")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Files(SimpleHTTPRequestHandler):
    """A host of static files."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def listening(handler: object) -> Iterator[str]:
    """Serve from a thread. Yields the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)  # type: ignore[arg-type]
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def gate(upstream: str) -> Iterator[tuple[str, type[Gate]]]:
    """Serve an API that wants a token. Yields its address and the class that holds what it accepts."""
    own = type("OwnGate", (Gate,), {"upstream": upstream, "tokens": set(), "asked": []})
    with listening(own) as address:
        yield address, own


@contextmanager
def static_files(folder: Path) -> Iterator[str]:
    """Serve a folder. Yields its address."""
    with listening(partial(Files, directory=str(folder))) as address:
        yield address
