"""What a tool's own tests need instead of a runtime: a context with all that there is, and steps kept in memory.

context = tool_context(attempt=2, durable=StepsInMemory(events={"paid": {"amount": 3}}))
with running_tool(context):  # for what calls current_tool_context()
    assert await refund(order_id="7", context=context) == "refunded"
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from perdure.agents.execution import output_text, run_body
from perdure.agents.tools import ToolContext, running_tool
from perdure.agents.waiting import EventTimeoutError, kept_value, own_event

__all__ = ["StepsInMemory", "running_tool", "tool_context"]


async def _shown_to_nobody(_: str) -> None:
    return None


def tool_context(**changes: Any) -> ToolContext:
    """Return the context of a call that no runtime runs, of the first attempt of a call in turn 1 of session `s-1`.

    Args:
        changes: Fields of `ToolContext` that are to be others. `durable` is a new `StepsInMemory` and progress is shown
            to nobody, unless they are given.
    """
    given: dict[str, Any] = {
        "tenant": "local",
        "session_id": "s-1",
        "turn_id": "turn-1",
        "tool_call_id": "call-2-0",
        "tool_name": "tool",
        "attempt": 1,
        "message_id": "message-1-0",
        "report_progress": _shown_to_nobody,
        **changes,
    }
    if "idempotency_key" not in given:
        place = (given[name] for name in ("tenant", "session_id", "turn_id", "tool_call_id"))
        given["idempotency_key"] = "/".join(place)
    if "durable" not in given:
        given["durable"] = StepsInMemory()
    return ToolContext(**given)


class StepsInMemory:
    """`DurableSteps` for one call: each step is done once, sleeps are over at once, and events have come before.

    Give the same one to two contexts, and the second attempt finds what the first has recorded.

    Args:
        events: Values of the events that came, by name; another one did not come in time.

    Attributes:
        steps: Results by name, as JSON gives them back.
        slept: What was asked for, in order: name and duration.
        shown: The texts of what was shown.
        events: Type, payload and whether it is durable of the application's own events.
    """

    def __init__(self, events: Mapping[str, Any] | None = None) -> None:
        self._events = dict(events or {})
        self.steps: dict[str, Any] = {}
        self.slept: list[tuple[str, timedelta]] = []
        self.shown: list[str] = []
        self.events: list[tuple[str, dict[str, Any], bool]] = []

    async def step(self, name: str, function: Callable[[], Awaitable[Any] | Any]) -> Any:
        """See `ToolContext.step`."""
        if name not in self.steps:
            self.steps[name] = kept_value(await run_body(function, {}), f"the result of step {name!r}")
        return self.steps[name]

    async def sleep(self, name: str, duration: timedelta) -> None:
        """See `ToolContext.sleep`."""
        self.slept.append((name, duration))

    async def wait_for_event(self, name: str, within: timedelta | None) -> Any:  # noqa: ARG002 - it came, or did not
        """See `ToolContext.wait_for_event`."""
        if name not in self._events:
            raise EventTimeoutError(f"event {name!r} did not come in time")
        return self._events[name]

    async def show(self, output: Any) -> None:
        """See `ToolContext.show`."""
        self.shown.append(output_text("tool", output))

    async def event(self, event_type: str, payload: Mapping[str, Any], *, durable: bool) -> None:
        """See `ToolContext.event`."""
        self.events.append((event_type, own_event(event_type, payload), durable))
