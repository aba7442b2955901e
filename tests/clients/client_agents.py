"""The agent that real clients talk to: a script that is the same each time, with everything in it that a stream shows.

What a turn does is a word in the user's message (`SCRIPTS`). `hold:<name>` in it makes the model stop behind its third
piece of text until a file `<name>` stands in the folder `PERDURE_HOLDS`.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from pathlib import Path

from perdure import AgentDefinition, ToolContext, ToolExecutionError, function_tool
from perdure.core.history import ToolResultItem, UserItem
from perdure.errors import ModelCallError
from perdure.models.base import ModelRequest, StreamItem, TextDelta
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts

HOLDS = Path(os.environ.get("PERDURE_HOLDS", "."))

PIECE = timedelta(milliseconds=4)
"""Wait before each piece of an answer: short, and long enough that pieces come one by one."""

PIECES_BEFORE_HOLD = 3


@function_tool(effect="read")
async def lookup_order(order_id: str) -> dict[str, str]:
    """Look up an order."""
    return {"order_id": order_id, "state": "on its way"}


@function_tool(effect="read")
async def count_stock(shelf: str, context: ToolContext) -> str:
    """Count what lies on a shelf, and tell how far it is."""
    assert context.report_progress is not None
    for row in range(1, 5):
        await context.report_progress(f"row {row} of 4")
        await asyncio.sleep(PIECE.total_seconds())
    return f"12 on {shelf}"


@function_tool(effect="read")
async def find_nothing(order_id: str) -> str:
    """Look for an order that is not there."""
    raise ToolExecutionError(f"there is no order {order_id}")


@function_tool(effect="non_idempotent_write")
async def refund_order(order_id: str, amount: float) -> str:
    """Pay an order back."""
    return f"paid {amount:g} for {order_id}"


def tour(results: Sequence[ToolResultItem], wish: str) -> str | Reply:
    """Three answers with two reads side by side and a slow tool between them, in texts that break careless readers."""
    if not results:
        return Reply(
            "Let me see both orders first.",
            reasoning="Two orders are asked for, and then a shelf.",
            calls=(call("lookup_order", order_id="7"), call("lookup_order", order_id="8")),
        )
    if len(results) == 2:
        return Reply("Both are on their way. Now the shelf…", calls=(call("count_stock", shelf="shelf B"),))
    awkward = '"Quoted" <b>&amp;</b>, done.'
    return f"Twelve.\r\n\r\ndata: not an event\nÄpfel 🍎 \u2028 and \u0085 \u0000 end \\n here. {awkward}"


def refund(results: Sequence[ToolResultItem], wish: str) -> str | Reply:
    """One call for each number in the wish, all of which need an approval."""
    if results:
        return f"Came of it: {', '.join(result.status for result in results)}."
    calls = tuple(call("refund_order", order_id=order, amount=5.5) for order in re.findall(r"\d+", wish))
    return Reply("That needs a yes.", calls=calls)


def ask(results: Sequence[ToolResultItem], wish: str) -> str | Reply:
    """Ask the user which of two colours it shall be."""
    if results:
        return f"You said: {results[-1].output}"
    question = call("ask_user", question="Which colour?", choices=["red", "blue"], allows_free_text=True)
    return Reply("One question.", calls=(question,))


def missing(results: Sequence[ToolResultItem], wish: str) -> str | Reply:
    """Call a tool that fails."""
    return f"It {results[0].status}." if results else Reply("I look.", calls=(call("find_nothing", order_id="404"),))


def fail(results: Sequence[ToolResultItem], wish: str) -> str | Reply:
    """Fail in the middle of the answer: for good, or until a file `<name>` is there (`until:<name>`)."""
    until = re.search(r"until:(\S+)", wish)
    if until and (HOLDS / until[1]).exists():
        return "It went well this time."
    raise ModelCallError(
        "the provider refused it", kind="invalid", retryable=False, partial_text="This is the beginning of what"
    )


def talk(results: Sequence[ToolResultItem], wish: str) -> str | Reply:
    """Tell something for a while."""
    return "One piece after the other comes along until all of them have been told, and then there is silence."


def large(results: Sequence[ToolResultItem], wish: str) -> str | Reply:
    """Tell more at once than fits into a frame of a WebSocket."""
    return "".join(f"line {number:05d} of many\n" for number in range(3000))


SCRIPTS: dict[str, Callable[[Sequence[ToolResultItem], str], str | Reply]] = {
    script.__name__: script for script in (tour, refund, ask, missing, fail, talk, large)
}


def reply(request: ModelRequest) -> str | Reply:
    """Answer what the user's last message asks for."""
    wish = user_texts(request)[-1]
    if wish.startswith("stumble") and not _is_retried(request):
        raise ModelCallError(
            "the connection broke", kind="timeout", retryable=True, partial_text="A first attempt that breaks off"
        )
    word = wish.split()[0].strip(".:,!").lower()
    return SCRIPTS.get(word, talk)(tool_results(request), wish)


def _is_retried(request: ModelRequest) -> bool:
    last = request.messages[-1]
    return isinstance(last, UserItem) and last.text.startswith("[turn_retried]")


LARGE_PIECES = ScriptedModel(reply, chunk=40_000)


class ClientModel(ScriptedModel):
    """The script, which waits in the middle of an answer where it is told to."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        wish = user_texts(request)[-1]
        held = re.search(r"hold:(\S+)", wish)
        pieces = 0
        async for item in LARGE_PIECES.stream(request) if wish.startswith("large") else super().stream(request):
            yield item
            pieces += isinstance(item, TextDelta)
            while held and pieces == PIECES_BEFORE_HOLD and not (HOLDS / held[1]).exists():  # noqa: ASYNC110  a file
                await asyncio.sleep(0.005)


agent = AgentDefinition(
    name="clerk",
    instructions="Do what the word says.",
    model=ClientModel(reply, chunk=14, delay=PIECE),
    tools=[lookup_order, count_stock, find_nothing, refund_order],
    built_in_tools=["ask_user"],
)
