"""The HTTP API by WebSocket: what a person asks for goes to the `socket` function as a command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from perdure.api.routes import find_route
from perdure.testing.gateway import Reply
from perdure.testing.lambda_harness import LambdaHarness


@contextlib.contextmanager
def by_socket(harness: LambdaHarness) -> Iterator[None]:
    """Have requests of the gateway sent as commands over one connection meanwhile."""
    gateway = harness.gateway
    connection = gateway.connect(gateway.http("POST", "/v1/socket-tickets", {}).body["ticket"])
    assert connection is not None

    def send(method: str, path: str, body: Any = None, **_: Any) -> Reply:
        route, named = find_route(method, path, tickets=False)
        frame: dict[str, Any] = {"type": "command", "request_id": "r", "operation": route.operation}
        if "session_id" in named:
            frame["session_id"] = named["session_id"]
        frame["path"] = {name: value for name, value in named.items() if name != "session_id"}
        if body is not None:
            frame["body"] = body
        gateway.send(connection, frame)
        answer = connection.told[-1]
        assert answer["type"] == "ack", answer
        return Reply(answer["status"], answer["body"])

    gateway.http = send  # type: ignore[method-assign]
    try:
        yield
    finally:
        del gateway.http
