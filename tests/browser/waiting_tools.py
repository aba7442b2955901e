"""Tools that ask, wait and look after remote work, for the agent of the browser tests. What they need is in files.

A copy of this file stands beside the agent, which adds `TOOLS` to its own and `asked_for` to its script.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from perdure import ToolContext, function_tool
from perdure.agents.waiting import TaskPending, ToolInputRequested, ToolTask
from perdure.core.history import ToolResultItem
from perdure.models.scripted import Reply, call

HERE = Path(__file__).parent


@function_tool(effect="idempotent_write")
def ship_order(order_id: str, context: ToolContext) -> str:
    """Send a parcel on its way, on a day that a person chooses."""
    if not context.answers:
        raise ToolInputRequested(
            "On which day shall it be sent?",
            choices=["Monday", "Tuesday"],
            allows_free_text=False,
            deadline=timedelta(hours=2),
        )
    if len(context.answers) == 1:
        raise ToolInputRequested("What shall the card say?")
    day, card = (answer.answer for answer in context.answers)
    return f"Order {order_id} is sent on {day}. The card says: {card}"


async def _look(task_id: str, context: ToolContext) -> str | TaskPending:
    told = (HERE / "task").read_text(encoding="utf-8")
    if told == "asks" and context.resolution is None:
        raise ToolInputRequested("May the report hold names?", choices=["Yes", "No"])
    return TaskPending() if told == "pending" else f"The report is at {task_id}."


def _stop(task_id: str, context: ToolContext) -> None:
    (HERE / "task").write_text("stopped", encoding="utf-8")


@function_tool(effect="idempotent_write", poll=_look, cancel=_stop)
def make_report(seconds: int) -> ToolTask:
    """Have a report made elsewhere."""
    return ToolTask("report-1", poll_interval=timedelta(seconds=seconds))


@function_tool(effect="idempotent_write")
async def pack_order(order_id: str, context: ToolContext) -> str:
    """Pack a parcel, let its glue dry, wait for the courier."""
    weight = await context.step("weigh", lambda: 2.5)
    await context.show({"weight": weight, "label": "not printed yet"})
    await context.sleep("dry", timedelta(hours=3))
    courier = await context.wait_for_event("courier", within=timedelta(days=2))
    return f"Order {order_id} ({weight} kg) left with {courier}."


TOOLS = [ship_order, make_report, pack_order]

_WISHES = {
    r"ship order (\d+)": lambda found: call("ship_order", order_id=found[1]),
    r"report every (\d+)": lambda found: call("make_report", seconds=int(found[1])),
    r"pack order (\d+)": lambda found: call("pack_order", order_id=found[1]),
    r"ask me in words": lambda _: call("ask_user", question="What is it about?\nA few words will do."),
}


def asked_for(wish: str, results: Sequence[ToolResultItem]) -> str | Reply | None:
    """Return what the script says to a wish for one of these tools, or None."""
    for pattern, wanted in _WISHES.items():
        if found := re.search(pattern, wish, re.IGNORECASE):
            said: Any = results[-1].output if results else Reply(text="I will see to it.", calls=(wanted(found),))
            return said if results == () or isinstance(said, Reply) else f"It says: {said}"
    return None
