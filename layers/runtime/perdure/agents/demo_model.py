"""The scripted stand-in for a model: it plays the example support agent without a key, always the same way."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

from perdure.agents.built_ins import BUILT_IN_TOOLS
from perdure.core import texts
from perdure.core.history import ToolResultItem
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts

DEMO_NAME = "demo"

READABLE = timedelta(milliseconds=25)
"""Wait before each delta, so that a person sees the text arrive. Our own choice: about 500 characters a second."""

_NUMBER = r"(\d+(?:\.\d{1,2})?)"
_ORDER = re.compile(r"(?:orders?|#|\band)\s*#?\s*(\d+)", re.IGNORECASE)
_ADDRESS = re.compile(r"address.*?\bto\b\s*:?\s*(.+)", re.IGNORECASE | re.DOTALL)
_AMOUNT = re.compile(rf"refund\s+{_NUMBER}|[€$]\s*{_NUMBER}|{_NUMBER}\s*(?:€|eur)|{_NUMBER}\W*$", re.IGNORECASE)
_MINE = re.compile(r"\bask me\b|\bmy (?:orders?|parcel)\b", re.IGNORECASE)
_LATER = re.compile(r"^\s*wait\b|\b(?:remind me|look again)\b", re.IGNORECASE)
_DURATION = re.compile(r"(\d+)\s*(second|sec|s|minute|min|hour|h|day|d)s?\b", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_GREETING = re.compile(r"\s*(hi|hello|hey|good (morning|afternoon|evening)|thanks|thank you)\b", re.IGNORECASE)

HELP = (
    "I can tell you where an order is, change the address of an order, and refund it once a person has agreed. "
    "Try “Where is order 7?”, “Change the address of order 7 to 5 New Street, Leeds” or “Refund order 7”. "
    "“Where is my order?” makes me ask you, and “Remind me of order 7 in 30 seconds” lets me wait."
)
HELLO = f"Hello, and welcome to the shop! I am a scripted demo, no real model is behind me. {HELP}"


def demo_model(delay: timedelta = READABLE) -> ScriptedModel:
    """Return a model that answers `reply`, with a wait before each piece of its text."""
    return ScriptedModel(reply, model=DEMO_NAME, delay=delay)


def reply(request: ModelRequest) -> str | Reply:
    """Play the support agent: ask for a tool, or answer from what the tools said."""
    wish = (user_texts(request) or ("",))[-1]
    results = tool_results(request)
    if results:
        return _go_on(request, wish, results)
    orders = list(dict.fromkeys(_ORDER.findall(wish)))
    if (duration := _DURATION.search(wish)) and _LATER.search(wish) and _offers(request, "durable_wait"):
        return _waiting(wish, duration)
    if not orders and _MINE.search(wish) and _offers(request, "ask_user"):
        return _asking()
    if not request.tools or not orders:
        return HELLO if _GREETING.match(wish) else f"I am afraid I did not get that. {HELP}"
    if _wants_refund(wish):
        amount = _AMOUNT.search(_ORDER.sub("", wish))
        return _refund(orders[0], float(next(filter(None, amount.groups())))) if amount else _looking_up(orders[:1])
    if address := _ADDRESS.search(wish):
        return Reply(
            text=f"I will change the address of order {orders[0]} for you.",
            calls=(call("change_address", order_id=orders[0], address=address.group(1).strip().rstrip(".")),),
        )
    return _looking_up(orders)


def _go_on(request: ModelRequest, wish: str, results: tuple[ToolResultItem, ...]) -> str | Reply:
    """Refund what was looked up for that, or tell what the tools said."""
    last = results[-1]
    if last.tool_name in BUILT_IN_TOOLS:
        if last.status != "succeeded":
            return "All right, then I will leave it at that. Is there something else that I can do for you?"
        return _after_waiting(wish, json.loads(_output(last)))
    if _wants_refund(wish) and _looked_up(last) and request.tools:
        order = json.loads(_output(last))
        return _refund(order["order_id"], order["amount"])
    own = [result for result in results if result.tool_name not in BUILT_IN_TOOLS]
    worth_telling = [result for result in own if not (_wants_refund(wish) and _looked_up(result))]
    return "\n\n".join(_told(result) for result in worth_telling or [last])


def _offers(request: ModelRequest, name: str) -> bool:
    return any(tool.name == name for tool in request.tools)


def _asking() -> Reply:
    choices = ["Order 3, the wool blanket", "Order 7, the walking boots", "Order 9, the garden hose"]
    return Reply(
        text="I don't know which order you mean.",
        calls=(call("ask_user", question="Which order is it? You may also write its number.", choices=choices),),
    )


def _waiting(wish: str, duration: re.Match[str]) -> Reply:
    seconds = int(duration[1]) * _SECONDS[duration[2][0].lower()]
    return Reply(
        text=f"I will come back to this in {duration[0]}. Nothing runs until then.",
        calls=(call("durable_wait", duration_seconds=max(seconds, 1), reason=wish.strip()[:200]),),
    )


def _after_waiting(wish: str, told: dict[str, Any]) -> str | Reply:
    """Go on with what the user answered, or with what they wanted to be reminded of."""
    if "answer" in told:
        number = re.search(r"\d+", told["answer"])
        return _looking_up([number[0]]) if number else f"I can't find an order in that answer. {HELP}"
    if orders := _ORDER.findall(_DURATION.sub("", wish)):
        return _looking_up(list(dict.fromkeys(orders)))
    how = "The time is over" if told["status"] == "completed" else "The wait was cut short"
    return f"{how}. You wrote: “{wish.strip()}”."


def _wants_refund(wish: str) -> bool:
    return "refund" in wish.lower()


def _looked_up(result: ToolResultItem) -> bool:
    return result.tool_name == "lookup_order" and result.status == "succeeded"


def _output(result: ToolResultItem) -> str:
    """Return what the tool itself said, without our note of what an approver wrote."""
    return result.output.split(f"\n\n{texts.NOTE}")[0]


def _looking_up(orders: list[str]) -> Reply:
    named = " and ".join(orders)
    return Reply(
        text=f"Let me look up order {named} for you.",
        calls=tuple(call("lookup_order", order_id=order) for order in orders),
    )


def _refund(order_id: str, amount: float) -> Reply:
    return Reply(
        text=f"I will ask for a refund of {amount:.2f} euros for order {order_id}. A person has to approve it first.",
        calls=(call("refund_order", order_id=order_id, amount=amount),),
    )


def _told(result: ToolResultItem) -> str:
    output = _output(result)
    if result.status == "rejected":
        _, wrote, reason = output.partition("They wrote: ")
        because = f" The reason given was “{reason}”." if wrote else ""
        return f"That was declined, so nothing was done and no money was paid back.{because} I am sorry about that."
    if result.status == "outcome_unknown":
        return (
            "I can't tell whether that went through: it was started, and then its outcome was lost. "
            "I will not try it again, so that nothing happens twice. Please have somebody check the books."
        )
    if result.status != "succeeded":
        return f"That did not work: {output}. Is there something else that I can do for you?"
    if result.tool_name == "refund_order":
        return f"Good news, that is done! {output} The money will be on your account within a few days."
    order = json.loads(output)
    if result.tool_name == "change_address":
        return f"Done! Order {order['order_id']} now goes to {order['address']}. Thank you for telling us in time."
    return _about(order)


def _about(order: dict[str, Any]) -> str:
    refunded = f" We refunded {order['refunded']:.2f} euros of it." if order["refunded"] else ""
    return (
        f"Order {order['order_id']} ({', '.join(order['items'])}, {order['amount']:.2f} euros) is {order['status']}. "
        f"It goes to {order['address']}.{refunded} Is there anything else that I can do for you?"
    )
