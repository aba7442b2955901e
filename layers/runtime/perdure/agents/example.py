"""The example support agent: it looks orders up, changes addresses, and refunds once a person has agreed.

One tool of each kind: a `read` may run as often as it takes, an `idempotent_write` repeats safely by its key, and a
`non_idempotent_write` runs at most once and asks first. Two built-in tools let it ask the customer, and wait.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from perdure.agents import fake_shop
from perdure.agents.definition import AgentDefinition
from perdure.agents.demo_model import DEMO_NAME, demo_model
from perdure.agents.tools import ToolContext, function_tool
from perdure.errors import ToolExecutionError
from perdure.models.base import ModelClient

OrderId = Annotated[str, Field(description="The number of the order, such as 7.")]

INSTRUCTIONS = """You help the customers of a small shop with their orders.
Look an order up before you say anything about it. Change an address or refund only when the customer asked for it,
and only the order and the amount that they meant. A person has to approve each refund; when it was declined, say so
and don't ask again. When the outcome of a refund is unknown, say that plainly and don't try it a second time.
Ask the customer what only they know. When they want to hear of something later, wait and look at it again then.
Amounts are in euros. Answer in two or three friendly sentences."""


@function_tool(effect="read")
def lookup_order(order_id: OrderId) -> dict[str, Any]:
    """Look up an order: what it holds, what it cost, where it goes and how far it is."""
    return asdict(_order(order_id))


@function_tool(effect="idempotent_write")
def change_address(
    order_id: OrderId,
    address: Annotated[str, Field(min_length=5, description="The whole new address, in one line.")],
    context: ToolContext,
) -> dict[str, Any]:
    """Change where an order is sent."""
    _order(order_id)
    return asdict(fake_shop.change_address(order_id, address, idempotency_key=context.idempotency_key))


@function_tool(effect="non_idempotent_write")
def refund_order(
    order_id: OrderId,
    amount: Annotated[float, Field(gt=0, description="How much to pay back, in euros; at most what it cost.")],
    context: ToolContext,
) -> str:
    """Pay money back for an order. A person has to approve it."""
    _order(order_id)
    try:
        order = fake_shop.refund(order_id, amount, idempotency_key=context.idempotency_key)
    except ValueError as error:
        raise ToolExecutionError(str(error)) from error
    return f"Refunded {amount:.2f} euros for order {order.order_id}."


def _order(order_id: str) -> fake_shop.Order:
    try:
        return fake_shop.find_order(order_id)
    except fake_shop.UnknownOrderError as error:
        raise ToolExecutionError(str(error)) from error


def support_agent(model: ModelClient | None = None) -> AgentDefinition:
    """Return the example agent.

    Args:
        model: None: OpenAI's, when `OPENAI_API_KEY` or `OPENAI_BASE_URL` is set; else the scripted demo model,
            which needs no key and no network.
    """
    return AgentDefinition(
        name="support",
        instructions=INSTRUCTIONS,
        model=model or _model_from_environment(),
        tools=[lookup_order, change_address, refund_order],
        built_in_tools=["ask_user", "durable_wait"],
    )


def is_demo(agent: AgentDefinition) -> bool:
    """Whether an agent is answered by the scripted demo model, which users have to be told."""
    return (agent.model.provider, agent.model.model) == ("scripted", DEMO_NAME)


def _model_from_environment() -> ModelClient:
    if os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"):
        from perdure.models import OpenAIChatModel

        return OpenAIChatModel("gpt-5-mini")
    return demo_model()


support = support_agent()
agents = [support]
