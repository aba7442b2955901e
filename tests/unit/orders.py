"""A desk for tests of reading: it looks orders up, and pays back once a person agreed."""

from __future__ import annotations

from typing import Any

from perdure import function_tool
from perdure.core.usage import CallUsage
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from tests.unit.steps.builders import an_agent


@function_tool(effect="read")
async def look_up(order: str) -> str:
    """Look an order up."""
    return f"order {order} is on its way"


@function_tool(effect="non_idempotent_write")
async def refund(order: str) -> str:
    """Pay back."""
    return f"paid {order}"


def a_desk() -> Any:
    def reply(request: Any) -> Any:
        if tool_results(request):
            return "Done."
        calls = (call("look_up", order="7"), call("refund", order="7"))
        return Reply(text="Let me see.", calls=calls, usage=CallUsage(input_tokens=9, output_tokens=4))

    return an_agent(look_up, refund, model=ScriptedModel(reply))
