"""Runs of an AG-UI client against the real service, on a stage: its steps run while the client reads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from perdure import AgentDefinition, function_tool
from perdure.api import ApiRequest, ApiResponse, handle
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts
from perdure.service import LOCAL_CALLER, Caller
from perdure.testing.fixtures import Stage
from tests.unit.api.builders import JSON
from tests.unit.streams.ag_ui_client import Screen, verified

JsonObject = dict[str, Any]


class AgUiClient:
    """One thread of a client, which shows what it is sent and sends what it shows."""

    def __init__(self, stage: Stage, thread_id: str = "s-1", *messages: JsonObject) -> None:
        self.stage = stage
        self.thread_id = thread_id
        self.screen = Screen(*messages)
        self.runs = 0

    def says(self, text: Any, message_id: str | None = None) -> AgUiClient:
        """Show what a person wrote, which the next run sends."""
        number = sum(1 for message in self.screen.messages if message["role"] == "user") + 1
        self.screen.messages.append({"id": message_id or f"u-{number}", "role": "user", "content": text})
        return self

    async def post(self, *, caller: Caller | None = LOCAL_CALLER, can_stream: bool = True, **more: Any) -> ApiResponse:
        """Send a run and return the response. `more` are fields of the input, or of the request if it has them."""
        of_request = {name: more.pop(name) for name in ("headers", "closing", "body") if name in more}
        self.runs += 1
        run = {"threadId": self.thread_id, "runId": f"run-{self.runs}", "messages": self.screen.messages} | more
        body = json.dumps({name: value for name, value in run.items() if value is not ...}).encode()
        request: JsonObject = {"headers": JSON, "body": body} | of_request
        asked = ApiRequest(method="POST", path="/v1/ag-ui", can_stream=can_stream, **request)
        return await handle(asked, self.stage.service, caller)

    async def refused(self, **more: Any) -> tuple[int, str, str]:
        """Send a run that is refused; returns status, code and message of the error."""
        before = await self.stage.service.snapshot(LOCAL_CALLER, "s-1")
        response = await self.post(**more)
        assert response.stream is None, "it was not refused"
        assert await self.stage.service.snapshot(LOCAL_CALLER, "s-1") == before, "it has changed something"
        error = json.loads(response.body)["error"]
        return response.status, error["code"], error["message"]

    async def run(self, **more: Any) -> list[JsonObject]:
        """Send a run, let its steps run, and show what comes of it; returns its events."""
        response = await self.post(**more)
        assert response.stream is not None, response.body
        reading = asyncio.ensure_future(_all(response.stream))
        await self.stage.run_all()
        events = verified(events_of(await self.stage.clock.run(_done(reading))))
        self.screen.take(events)
        return events

    async def resume(self, *entries: JsonObject, **more: Any) -> list[JsonObject]:
        """Send decisions."""
        return await self.run(resume=list(entries), **more)


def resolved(interrupt_id: str, **payload: Any) -> JsonObject:
    return {"interruptId": interrupt_id, "status": "resolved", "payload": payload}


def cancelled(interrupt_id: str) -> JsonObject:
    return {"interruptId": interrupt_id, "status": "cancelled"}


def warnings(events: list[JsonObject]) -> list[str]:
    """Return the codes of what a run warned of."""
    return [e["value"]["code"] for e in events if (e["type"], e.get("name")) == ("CUSTOM", "perdure.warning")]


def events_of(pieces: list[bytes]) -> list[JsonObject]:
    """Read frames strictly: one event in one `data:` line, an empty line behind it, comments, and no CR."""
    events: list[JsonObject] = []
    raw = b"".join(pieces)
    assert b"\r" not in raw
    assert raw.endswith(b"\n\n") or not raw
    for block in raw.decode("ascii").removesuffix("\n\n").split("\n\n") if raw else ():
        if not block.startswith(":"):
            assert block.startswith("data: ")
            assert "\n" not in block
            events.append(json.loads(block.removeprefix("data: ")))
    return events


async def _all(stream: AsyncIterator[bytes]) -> list[bytes]:
    return [piece async for piece in stream]


async def _done(reading: asyncio.Future[list[bytes]]) -> list[bytes]:
    return await reading


def desk_model(chunk: int = 12) -> ScriptedModel:
    """It refunds, looks up or asks when it is told to, fails when it is told to, and else repeats what was said."""

    def reply(request: ModelRequest) -> Any:
        said = user_texts(request)[-1]
        if results := tool_results(request):
            return f"So: {results[-1].output}"
        calls = {
            "refund": (call("refund", order="7"),),
            "both": (call("look_up", order="7"), call("refund", order="7")),
            "two": (call("refund", order="7"), call("refund", order="8")),
            "look": (call("look_up", order="7"),),
            "ask": (call("ask_user", question="Which one?", choices=["red", "blue"], allows_free_text=False),),
        }
        if said in calls:
            return Reply("One moment.", reasoning="Hm, " if said == "look" else "", calls=calls[said])
        return f"You said: {said}"

    return ScriptedModel(reply, chunk=chunk)


class Desk:
    """An agent, and the refunds that it has made."""

    def __init__(self, **changes: Any) -> None:
        self.refunds: list[str] = []

        @function_tool(effect="read")
        async def look_up(order: str) -> str:
            """Look an order up."""
            return f"order {order} is on its way"

        @function_tool(effect="non_idempotent_write")
        async def refund(order: str) -> str:
            """Pay back."""
            self.refunds.append(order)
            return f"paid {order}"

        given: JsonObject = {
            "model": desk_model(),
            "tools": [look_up, refund],
            "built_in_tools": ["ask_user"],
        } | changes
        self.agent = AgentDefinition(name="support", instructions="Help.", **given)


async def said_in(stage: Stage, session_id: str = "s-1") -> list[str]:
    """Return the texts of the users' messages that the session has."""
    page = await stage.service.messages(LOCAL_CALLER, session_id)
    return [message["parts"][0]["text"] for message in page["messages"] if message["role"] == "user"]


async def read(response: Any) -> list[JsonObject]:
    return events_of([piece async for piece in response.stream])
