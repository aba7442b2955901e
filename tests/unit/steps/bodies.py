"""Tools for tests: bodies that count their runs, wait at a gate, and end as a test wants."""

from __future__ import annotations

import asyncio
from typing import Any

from perdure import ToolContext, function_tool
from perdure.steps.call_tool import call_tool
from perdure.testing.fixtures import Stage

WRITES_ONCE = ["non_idempotent_write", "unclassified"]


class Body:
    """What a tool does, and how often it did."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes) or ["ok"]
        self.contexts: list[ToolContext] = []
        self.gate: asyncio.Event | None = None
        self.cancelled = False

    async def run(self, context: ToolContext) -> Any:
        self.contexts.append(context)
        if self.gate is not None:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @property
    def runs(self) -> int:
        return len(self.contexts)


def a_tool(body: Body, effect: Any = "read", name: str = "work", *, requires_approval: Any = False) -> Any:
    @function_tool(effect=effect, name=name, requires_approval=requires_approval)
    async def tool(context: ToolContext) -> Any:
        return await body.run(context)

    return tool


async def until_the_call(stage: Stage) -> Any:
    """Send a message and run the model step; returns the tool's message."""
    await stage.send("go")
    await stage.run_next()
    return stage.taken()


async def while_running(stage: Stage, message: Any) -> asyncio.Task[None]:
    """Begin a step and leave it in its body."""
    step = asyncio.create_task(call_tool(stage.deps, message))
    await stage.clock.settle()
    return step
