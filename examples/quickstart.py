"""One agent, one session, one refund that a person approves. No key, no network: `python examples/quickstart.py`."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import perdure
from perdure import AgentDefinition, ToolContext, function_tool
from perdure.models import ModelRequest, Reply, ScriptedModel, call, tool_results


@function_tool(effect="read")
async def lookup_order(order_id: str) -> dict[str, Any]:
    """Look up an order by its id."""
    return {"order_id": order_id, "item": "walking boots", "amount": 129.9}


@function_tool(effect="non_idempotent_write")  # asks for approval unless requires_approval=False
def refund_order(order_id: str, amount: float, context: ToolContext) -> str:
    """Refund an order."""
    return f"refunded {amount:.2f} for order {order_id} (key {context.idempotency_key})"


def reply(request: ModelRequest) -> str | Reply:
    """Stand in for a model: look the order up, refund it, say what came of it."""
    results = tool_results(request)
    if not results:
        return Reply(text="Let me see. ", calls=(call("lookup_order", order_id="7"),))
    if results[-1].tool_name == "lookup_order":
        return Reply(calls=(call("refund_order", order_id="7", amount=129.9),))
    return f"Done: {results[-1].output}."


support = AgentDefinition(
    name="support",
    instructions="You help customers with their orders.",
    model=ScriptedModel(reply),  # or OpenAIChatModel("gpt-5-mini")
    tools=[lookup_order, refund_order],
)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # One SQLite file. What was accepted survives a kill -9; the next open goes on where it was.
        async with perdure.open(Path(folder) / "sessions.db", agents=[support]) as runtime:
            session = runtime.session("case-42", agent="support")
            receipt = await session.send("Refund order 7", idempotency_key="m-1")
            async for event in session.events(after=receipt.cursor):  # ends with the turn
                print(event.type, event.payload.get("text", event.payload.get("tool_name", "")))
                if event.type == "interrupt_raised":
                    await session.resolve(event.payload["interrupt_id"], approved=True)
            page = await session.messages(limit=50)
            for message in page["messages"]:
                print(f"{message['role']}: {message['parts']}")


if __name__ == "__main__":
    asyncio.run(main())
