"""Agents to talk to in a terminal, and the gate that holds their slow answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from perdure import AgentDefinition, function_tool
from perdure.errors import ModelCallError
from perdure.models.base import ModelRequest, StreamItem, TextDelta
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts


class Gate:
    """Holds answers to messages that begin with `slowly`, in their middle, until it is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()


gate = Gate()
wiped: list[str] = []
mended: list[str] = []
"""Messages that fail no longer: `break` fails its turn, `wait` has the model asked again in 25 s."""


@function_tool(effect="non_idempotent_write")
async def wipe(what: str) -> str:
    """Wipe."""
    wiped.append(what)
    return "wiped"


def reply(request: ModelRequest) -> Reply:
    """Wipe what `wipe` says, word by word; else echo."""
    if results := tool_results(request):
        return Reply(f"the tool said: {results[-1].output}")
    wish = user_texts(request)[-1]
    if wish == "fail":
        raise ModelCallError("no credit is left", kind="credits", retryable=False, status=402)
    if wish == "break" and wish not in mended:
        raise ModelCallError("no such model", kind="invalid", retryable=False)
    if wish == "wait" and wish not in mended:
        raise ModelCallError("busy", kind="rate_limited", retryable=True, status=429, retry_after_seconds=25)
    if wish.startswith("wipe "):
        return Reply("As you wish.", calls=tuple(call("wipe", what=word) for word in wish.split()[1:]))
    return Reply(f"you said: {wish}")


class GatedModel:
    """The scripted model, with the gate behind its first piece of text."""

    provider = "scripted"
    model = "gated"

    def __init__(self) -> None:
        self._scripted = ScriptedModel(reply)

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        async for item in self._scripted.stream(request):
            yield item
            if isinstance(item, TextDelta) and user_texts(request)[-1].startswith("slowly"):
                await gate.opened.wait()


agent = AgentDefinition(name="desk", model=GatedModel(), tools=[wipe])
