"""A real runtime on one SQLite file, and requests to its API without a web server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.agents.definition import AgentDefinition
from perdure.agents.tools import function_tool
from perdure.api import ApiRequest, ApiResponse, TicketIssuer, handle
from perdure.core.entries import Actor
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.embedded.server import create_app, serve
from perdure.errors import ModelCallError, StoreUnavailableError
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts
from perdure.service import LOCAL_CALLER, Caller, Service

JSON = {"content-type": "application/json"}


def a_caller(subject: str, tenant: str = "acme") -> Caller:
    return Caller(tenant=tenant, actor=Actor(issuer="https://issuer.example.com/", subject=subject))


@dataclass
class Desk:
    """An agent that refunds when it is asked to, thinks for as long as `gate` is closed, and else repeats the user.

    Asked to fail it does, until `mended`.
    """

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    refunds: list[str] = field(default_factory=list)
    mended: bool = False

    def agents(self) -> list[AgentDefinition]:
        @function_tool(effect="non_idempotent_write")
        def refund_order(order_id: str) -> str:
            """Refund an order."""
            self.refunds.append(order_id)
            return f"order {order_id} is refunded"

        support = AgentDefinition(
            name="support", instructions="Help.", model=ScriptedModel(self._reply), tools=[refund_order]
        )
        return [support, AgentDefinition(name="other", instructions="Help.", model=ScriptedModel(self._reply))]

    async def _reply(self, request: ModelRequest) -> str | Reply:
        said = user_texts(request)[-1]
        if said.startswith("refund") and not tool_results(request):
            return Reply("One moment.", calls=(call("refund_order", order_id="7"),))
        if said.startswith("think"):
            await self.gate.wait()
        if said.startswith("fail") and not self.mended:
            raise ModelCallError("the model says no", kind="invalid", retryable=False)
        return f"You said: {said}"


@dataclass
class Api:
    """One caller's requests."""

    service: Any
    caller: Caller | None = LOCAL_CALLER
    tickets: TicketIssuer | None = None

    async def send(self, method: str, path: str, **request: Any) -> ApiResponse:
        path, _, query = path.partition("?")
        return await handle(
            ApiRequest(method=method, path=path, query=query, **request),
            self.service,
            self.caller,
            tickets=self.tickets,
        )

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        return read(await self.send("GET", path, headers=headers))

    async def post(self, path: str, body: Any, *, key: str | None = None) -> tuple[int, Any]:
        return await self.command("POST", path, body, key=key)

    async def command(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> tuple[int, Any]:
        headers = JSON if key is None else {**JSON, "idempotency-key": key}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return read(await self.send(method, path, headers=headers, body=b"" if body is None else content))

    async def until(self, session_id: str, event_type: str, after: str | None = None) -> dict[str, Any]:
        """Wait for an event of a session, from a cursor on, and return it."""
        place = "" if after is None else f"&after={after}"
        while True:
            _, page = await self.get(f"/v1/sessions/{session_id}/events?wait_seconds=20{place}")
            for event in page["events"]:
                if event["type"] == event_type:
                    return event
            place = f"&after={page['cursor']}"

    async def refund_that_waits(self, session_id: str) -> str:
        """Have a session wait for the approval of a refund; return its interrupt id."""
        await self.post(f"/v1/sessions/{session_id}/inputs", {"text": "refund order 7"})
        return (await self.until(session_id, "interrupt_raised"))["payload"]["interrupt_id"]

    async def everything(self, session_id: str) -> tuple[Any, Any]:
        """Return all that can be read of a session."""
        _, snapshot = await self.get(f"/v1/sessions/{session_id}")
        _, events = await self.get(f"/v1/sessions/{session_id}/events")
        return snapshot, events


def read(response: ApiResponse) -> tuple[int, Any]:
    assert response.stream is None
    return response.status, json.loads(response.body)


def code(reply: tuple[int, Any]) -> tuple[int, str]:
    """Return status and error code of a reply."""
    status, body = reply
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "retryable"}
    return status, body["error"]["code"]


@asynccontextmanager
async def a_runtime(folder: Path, desk: Desk | None = None) -> AsyncIterator[EmbeddedRuntime]:
    """Run the desk on a new file."""
    served = desk or Desk()
    async with EmbeddedRuntime(folder / "sessions.db", served.agents(), grace_seconds=0) as runtime:
        try:
            yield runtime
        finally:
            served.gate.set()


@asynccontextmanager
async def a_server(service: Any, host: str = "127.0.0.1", **more: Any) -> AsyncIterator[str]:
    """Serve the API on a free port; gives its address."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    serving = asyncio.create_task(
        serve(create_app(service, host=host, **more), host, 0, announce=ready.set_result, stop=stop)
    )
    either: list[asyncio.Future[Any]] = [ready, serving]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    try:
        yield ready.result().removeprefix("ready ")
    finally:
        stop.set()
        await serving


class Unreachable:
    """A service whose store gives no answer."""

    def __getattr__(self, name: str) -> Any:
        async def fail(*_: Any, **__: Any) -> Any:
            raise StoreUnavailableError("the store gave no answer: try again")

        return fail


__all__ = ["JSON", "Api", "Desk", "Service", "Unreachable", "a_caller", "a_runtime", "a_server", "code", "read"]
