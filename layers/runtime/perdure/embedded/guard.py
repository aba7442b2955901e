"""Keeps web pages away from the development server, which has no login (surface §4.1)."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.api.failures import envelope

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class LocalOnly:
    """Lets a request pass whose `Host` names this server and whose `Origin`, if any, is this server too.

    A page of somebody else sends its own `Origin`; a page that points a name of its own at this machine sends that
    name as `Host`. The address that the client connected to may be named as well: a page can't choose that one.
    """

    def __init__(self, app: ASGIApp, *, host: str) -> None:
        self._app = app
        self._names = {*LOOPBACK, _bracketed(host.lower())}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._is_welcome(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            refusal = envelope(403, "forbidden_origin", self._reason(), retryable=False)
            await Response(refusal.body, refusal.status, dict(refusal.headers))(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _is_welcome(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._allowed(scope):
            return False
        # The very same place, letter for letter: another name of this machine is another origin.
        return not origins or origins == [f"http://{hosts[0]}"]

    def _allowed(self, scope: Scope) -> set[str]:
        address, port = scope.get("server") or ("127.0.0.1", None)
        names = {*self._names, _bracketed(str(address).lower())}
        allowed = {f"{name}:{port}" for name in names}
        return allowed | names if port == 80 else allowed

    def _reason(self) -> str:
        names = ", ".join(sorted(self._names))
        return (
            f"this server answers only under its own address ({names}, with its port) and only its own page: "
            "call it by that address, without an `Origin` of another place"
        )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
