"""A desk for tests of approvals: it books rooms once a person agreed, and counts what it did."""

from __future__ import annotations

from typing import Any

from perdure import AgentDefinition, function_tool
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.testing.fixtures import Stage
from tests.unit.steps.builders import an_agent


class Desk:
    """Counts what its tools did."""

    def __init__(self) -> None:
        self.booked: list[str] = []
        self.visits = 0

    def agent(self, model: Any, name: str = "support", **changes: Any) -> AgentDefinition:
        @function_tool(effect="non_idempotent_write")
        async def book(room: str) -> str:
            self.booked.append(room)
            return f"booked {room}"

        @function_tool(effect="non_idempotent_write", requires_approval=False)
        async def log_visit() -> str:
            self.visits += 1
            return "noted"

        return an_agent(book, log_visit, model=model, name=name, **changes)


def booking(*rooms: str, also: tuple[Any, ...] = ()) -> ScriptedModel:
    """A model that books these rooms in one response and answers when all results are there."""
    calls = (*also, *(call("book", room=room) for room in rooms))
    return ScriptedModel(
        lambda request: f"{len(tool_results(request))} results" if tool_results(request) else Reply(calls=calls)
    )


async def pending(stage: Stage) -> dict[str, str]:
    """Return the open approvals: the room that each is about, and its id."""
    return {i["arguments"]["room"]: i["interrupt_id"] for i in (await stage.snapshot())["pending_interrupts"]}
