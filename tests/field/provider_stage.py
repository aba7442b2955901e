"""A stage whose models are those of the strict provider stub, and what that stub sends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from perdure import AgentDefinition
from perdure.models import ModelRequest, OpenAIChatModel, StreamItem
from perdure.testing.clock import VirtualClock
from perdure.testing.fixtures import Stage, open_stage
from perdure.testing.providers import FaultProvider

JsonObject = dict[str, Any]


class OnStage:
    """A client whose time with the provider is no time on the stage's clock."""

    def __init__(self, provider: FaultProvider, clock: VirtualClock, **fields: Any) -> None:
        self.client = OpenAIChatModel("stub-1", base_url=provider.base_url, clock=clock, **fields)
        self.provider = self.client.provider
        self.model = self.client.model
        self._clock = clock

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        with self._clock.working():
            async for item in self.client.stream(request):
                yield item


@asynccontextmanager
async def on_stage(*providers: FaultProvider, tools: Any = (), **fields: Any) -> AsyncIterator[Stage]:
    """Open a stage whose agent has one model for each provider: `x`, `y`, …; the first is its own."""
    clock = VirtualClock()
    async with AsyncExitStack() as stack:
        clients = {}
        for name, provider in zip("xyz", providers, strict=False):
            await stack.enter_async_context(provider)
            clients[name] = OnStage(provider, clock)
            stack.push_async_callback(clients[name].client.aclose)
        agent = AgentDefinition(name="support", models=clients, tools=tools, **fields)
        yield await stack.enter_async_context(open_stage(agent, clock=clock))


def part(*calls: JsonObject, finish: str | None = None) -> JsonObject:
    choice: JsonObject = {"index": 0, "delta": {"tool_calls": list(calls)} if calls else {}}
    return {"choices": [choice | ({"finish_reason": finish} if finish else {})]}


def fragment(arguments: str, name: str | None = None, **fields: Any) -> JsonObject:
    return {"function": {"arguments": arguments} | ({"name": name} if name else {})} | fields
