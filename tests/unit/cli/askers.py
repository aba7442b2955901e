"""An agent to talk to in a terminal that asks, sleeps and books."""

from __future__ import annotations

from perdure import AgentDefinition, function_tool
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts

booked: list[str] = []


@function_tool(effect="non_idempotent_write")
async def book(room: str) -> str:
    """Book."""
    booked.append(room)
    return f"booked {room}"


def reply(request: ModelRequest) -> Reply:
    """Do what the user says."""
    if results := tool_results(request):
        return Reply(f"I heard: {results[-1].output}")
    calls = {
        "ask": call("ask_user", question="Which colour?"),
        "choose": call("ask_user", question="Which size?", choices=["small", "large"], allows_free_text=False),
        "suggest": call("ask_user", question="Which day?", choices=["2", "today"]),
        "sleep": call("durable_wait", duration_seconds=86400, reason="the shop to open"),
        "book": call("book", room="r1"),
    }
    wish = user_texts(request)[-1]
    if wish == "book two":
        return Reply(calls=(call("book", room="r1"), call("book", room="r2")))
    return Reply(calls=(calls[wish],)) if wish in calls else Reply(f"you said: {wish}")


agent = AgentDefinition(
    name="asker", model=ScriptedModel(reply), tools=[book], built_in_tools=["ask_user", "durable_wait"]
)
