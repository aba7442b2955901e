"""The bodies of the built-in tools that a worker runs; the others are decided by the core."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from perdure.agents.definition import AgentDefinition
from perdure.steps.attempt import Attempt
from perdure.steps.outputs import read_tool_output
from perdure.steps.session_handle import StepSession

JsonObject = dict[str, Any]
WHEN = ("at", "after", "every", "time_zone")
Body = Callable[[AgentDefinition, Attempt, JsonObject], Awaitable[str]]


async def run_built_in(agent: AgentDefinition, attempt: Attempt, tool_name: str, arguments: JsonObject) -> str:
    """Run a built-in tool with checked arguments, and return its output text.

    Raises:
        ToolExecutionError: The model should see why not.
    """
    return await _BODIES[tool_name](agent, attempt, arguments)


async def _set_schedule(_: AgentDefinition, attempt: Attempt, arguments: JsonObject) -> str:
    when: JsonObject = {name: arguments[name] for name in WHEN if name in arguments}
    made = await StepSession(attempt).schedule(
        arguments["text"], when=when, schedule_id=arguments.get("schedule_id"), replace=True
    )
    return json.dumps({"status": "set"} | made, ensure_ascii=False)


async def _list_schedules(_: AgentDefinition, attempt: Attempt, __: JsonObject) -> str:
    return json.dumps({"schedules": await StepSession(attempt).schedules()}, ensure_ascii=False)


async def _cancel_schedule(_: AgentDefinition, attempt: Attempt, arguments: JsonObject) -> str:
    await StepSession(attempt).cancel_schedule(arguments["schedule_id"])
    return json.dumps({"status": "cancelled", "schedule_id": arguments["schedule_id"]}, ensure_ascii=False)


_BODIES: dict[str, Body] = {
    "read_tool_output": read_tool_output,
    "set_schedule": _set_schedule,
    "list_schedules": _list_schedules,
    "cancel_schedule": _cancel_schedule,
}
