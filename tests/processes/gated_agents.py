"""Agents for a process that is going to be killed: every point at which that may matter has a gate.

Gates, in the order of a turn: `model-<results so far>.before` and `.during`; `commit-<kind>-<n>.before` and `.after` of
the n-th commit of a kind that this process lands in a session; `<tool>.before` and `<tool>.after` around what the tool
does to the world.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import perdure.embedded.runtime
from perdure import AgentDefinition, ToolContext, function_tool
from perdure.core.decision import Decision
from perdure.embedded.store import SqliteSessionStore
from perdure.models.base import ModelRequest, StreamItem
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.ports import Loaded, SessionKey
from perdure.testing.gates import FileGate, InvocationLog

FOLDER = Path(os.environ["PERDURE_TEST_FOLDER"])
gates = FileGate(FOLDER / "gates")
log = InvocationLog(FOLDER / "invocations.jsonl")


class GatedStore(SqliteSessionStore):
    """The store of the product, with gates around its commits."""

    def __init__(self, database: Any, **more: Any) -> None:
        super().__init__(database, **more)
        self._landed: Counter[tuple[SessionKey, str]] = Counter()

    async def commit(self, key: SessionKey, loaded: Loaded, decision: Decision) -> Loaded:
        assert decision.entry is not None
        kind = decision.entry.kind
        name = f"commit-{kind}-{self._landed[key, kind] + 1}"
        await gates.reach(f"{name}.before")
        made = await super().commit(key, loaded, decision)
        self._landed[key, kind] += 1
        await gates.reach(f"{name}.after")
        return made


perdure.embedded.runtime.SqliteSessionStore = GatedStore  # type: ignore[attr-defined]


def script(request: ModelRequest) -> Reply:
    """Look up and change, then refund, then tell what came of it."""
    results = tool_results(request)
    if not results:
        return Reply("Let me see. ", calls=(call("look_up", order="7"), call("change", order="7")))
    if len(results) == 2:
        return Reply("Now the money. ", calls=(call("refund", order="7"),))
    return Reply(f"Refund: {results[2].status}. Thank you for your patience.")


class GatedModel:
    """A scripted model with gates before and in the middle of its answer."""

    provider = "gated"
    model = "gated"

    def __init__(self) -> None:
        self._scripted = ScriptedModel(script)

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        name = f"model-{len(tool_results(request))}"
        log.record(name, key="")
        await gates.reach(f"{name}.before")
        async for item in self._scripted.stream(request):
            yield item
            await gates.reach(f"{name}.during")


async def _do(name: str, context: ToolContext) -> None:
    await gates.reach(f"{name}.before")
    log.record(name, key=context.idempotency_key, attempt=context.attempt)
    await gates.reach(f"{name}.after")


@function_tool(effect="read")
async def look_up(order: str, context: ToolContext) -> str:
    """Look an order up."""
    await _do("look_up", context)
    return f"order {order} is on its way"


@function_tool(effect="idempotent_write")
async def change(order: str, context: ToolContext) -> str:
    """Change an order."""
    await _do("change", context)
    return f"changed {order}"


@function_tool(effect="non_idempotent_write")
async def refund(order: str, context: ToolContext) -> str:
    """Pay back, once."""
    await _do("refund", context)
    return f"paid {order}"


TOOLS = [look_up, change, refund]

agent = AgentDefinition(name="support", model=GatedModel(), tools=TOOLS)


class SlowModel(GatedModel):
    """The same, with a short wait for each piece, so that a kill at any time hits something."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        async for item in super().stream(request):
            await asyncio.sleep(0.004)
            yield item


slow_agent = AgentDefinition(name="support", model=SlowModel(), tools=TOOLS)
