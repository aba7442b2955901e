"""A tool's own tests: a context without a runtime, and recorded steps in memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import perdure.testing
from perdure import ToolContext, current_tool_context, function_tool
from perdure.agents.waiting import EventTimeoutError
from perdure.errors import ConfigurationError
from perdure.testing.tools import StepsInMemory, running_tool, tool_context


def test_a_context_has_everything_but_what_a_test_changes() -> None:
    context = tool_context(session_id="s-2", attempt=3)

    assert (context.session_id, context.attempt, context.message_id) == ("s-2", 3, "message-1-0")
    assert context.idempotency_key == "local/s-2/turn-1/call-2-0"
    assert tool_context(idempotency_key="k").idempotency_key == "k"
    assert tool_context(durable=None).durable is None
    assert perdure.testing.tool_context is tool_context
    with pytest.raises(TypeError):
        tool_context(nothing=1)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = perdure.testing.nothing


async def test_a_tool_may_report_its_progress_and_is_found_from_below() -> None:
    @function_tool(effect="read")
    async def look(context: ToolContext) -> str:
        assert context.report_progress is not None
        await context.report_progress("half way")
        return current_tool_context().tool_name

    context = tool_context(tool_name="look")
    with running_tool(context):
        assert await look(context=context) == "look"


async def test_a_step_is_done_once_and_gives_back_what_json_would() -> None:
    done: list[str] = []
    steps = StepsInMemory()

    async def paid() -> Any:
        done.append("paid")
        return 1, "euro"

    for attempt in (1, 2):
        assert await tool_context(attempt=attempt, durable=steps).step("pay", paid) == [1, "euro"]

    assert done == ["paid"]
    assert steps.steps == {"pay": [1, "euro"]}
    with pytest.raises(ConfigurationError):
        await tool_context(durable=steps).step("odd", object)


async def test_sleeps_are_over_events_have_come_or_are_late_and_what_was_shown_is_kept() -> None:
    steps = StepsInMemory(events={"paid": None})
    context = tool_context(durable=steps)

    await context.sleep("nap", timedelta(days=3))
    await context.show({"so": "far"})

    assert await context.wait_for_event("paid") is None
    assert (steps.slept, steps.shown) == ([("nap", timedelta(days=3))], ['{"so": "far"}'])
    with pytest.raises(EventTimeoutError):
        await context.wait_for_event("sent", timedelta(days=1))
