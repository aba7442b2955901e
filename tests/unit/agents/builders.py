"""Builders for the tests of agents: each names only what its test is about."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from perdure.agents.definition import AgentDefinition
from perdure.agents.runner import AgentTurnContext, DeferredCall
from perdure.agents.tools import ToolContext
from perdure.models import ModelRequest, ModelResponse, ReasoningDelta, Reply, ScriptedModel, TextDelta


def a_context(**changes: Any) -> ToolContext:
    """Return the context of a tool call."""
    values: dict[str, Any] = {
        "tenant": "t",
        "session_id": "s-1",
        "turn_id": "turn-1",
        "tool_call_id": "call-2-0",
        "tool_name": "tool",
        "attempt": 1,
        "idempotency_key": "t/s-1/turn-1/call-2-0",
    }
    return ToolContext(**(values | changes))


def an_agent(
    *tools: Any, reply: Callable[[ModelRequest], str | Reply] = lambda _: "Hello!", **changes: Any
) -> AgentDefinition:
    """Return an agent with these tools, answered by a script."""
    changes.setdefault("model", ScriptedModel(reply))
    return AgentDefinition(name="support", tools=tools, **changes)


def a_call(tool_name: str, arguments_text: str = "", provider_call_id: str | None = None) -> DeferredCall:
    """Return a call as a runner hands it over."""
    return DeferredCall(tool_name=tool_name, arguments_text=arguments_text, provider_call_id=provider_call_id)


class Shown:
    """Collects what a model step shows to the viewers."""

    def __init__(self) -> None:
        self.deltas: list[TextDelta | ReasoningDelta] = []

    async def emit(self, delta: TextDelta | ReasoningDelta) -> None:
        self.deltas.append(delta)

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas if isinstance(delta, TextDelta))


def a_turn(shown: Shown | None = None, **changes: Any) -> AgentTurnContext:
    """Return the context of a model step."""
    values: dict[str, Any] = {
        "tenant": "t",
        "session_id": "s-1",
        "turn_id": "turn-1",
        "step_execution_id": "model-1-0",
        "attempt": 1,
        "history": (),
        "emit": (shown or Shown()).emit,
    }
    return AgentTurnContext(**(values | changes))


class HangingModel:
    """Streams one delta and then waits for ever; tells whether its stream was closed."""

    provider = "hanging"
    model = "hanging"

    def __init__(self) -> None:
        self.closed = False
        self.waiting = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ReasoningDelta | ModelResponse]:
        try:
            yield TextDelta("Once upon")
            self.waiting.set()
            await asyncio.Event().wait()
        finally:
            self.closed = True
