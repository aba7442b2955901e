"""Durable AI-agent sessions.

The names below are imported when they are first used, so that `import perdure` stays cheap and an embedded session
loads nothing of AWS.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from perdure._version import __version__

if TYPE_CHECKING:
    from perdure.agents.built_ins import BUILT_IN_TOOLS, BuiltInTool
    from perdure.agents.definition import AgentDefinition, InstructionContext
    from perdure.agents.errors_inside import error_inside
    from perdure.agents.inbox import InboxSettings
    from perdure.agents.policies import ToolPolicy
    from perdure.agents.prepare import StepChanges
    from perdure.agents.prompt import PromptSection
    from perdure.agents.reconnect import ReconnectPolicy
    from perdure.agents.schedules import Occurrence, ScheduleEndedError, ScheduleRetryError
    from perdure.agents.stop_policies import StopPolicy, stop_after, token_budget
    from perdure.agents.tools import ToolContext, current_tool_context, function_tool
    from perdure.agents.waiting import (
        Answer,
        DidNotHappenError,
        EventTimeoutError,
        TaskPending,
        ToolInputRequested,
        ToolTask,
    )
    from perdure.checks import Caller
    from perdure.client import connect
    from perdure.core.cursor import advance_sequence
    from perdure.core.entries import Actor, FileRef
    from perdure.embedded.runtime import open_runtime as open  # noqa: A004 - perdure.open is the contract
    from perdure.errors import ContextOverflowError, PerdureError, ToolExecutionError, UnsettledError
    from perdure.run import Run
    from perdure.run_items import Decision, Fragment, RunMessage
    from perdure.sinks import EventSink, Notice

__all__ = [
    "BUILT_IN_TOOLS",
    "Actor",
    "AgentDefinition",
    "Answer",
    "BuiltInTool",
    "Caller",
    "ContextOverflowError",
    "Decision",
    "DidNotHappenError",
    "EventSink",
    "EventTimeoutError",
    "FileRef",
    "Fragment",
    "InboxSettings",
    "InstructionContext",
    "Notice",
    "Occurrence",
    "PerdureError",
    "PromptSection",
    "ReconnectPolicy",
    "Run",
    "RunMessage",
    "ScheduleEndedError",
    "ScheduleRetryError",
    "StepChanges",
    "StopPolicy",
    "TaskPending",
    "ToolContext",
    "ToolExecutionError",
    "ToolInputRequested",
    "ToolPolicy",
    "ToolTask",
    "UnsettledError",
    "__version__",
    "advance_sequence",
    "connect",
    "current_tool_context",
    "error_inside",
    "function_tool",
    "open",
    "stop_after",
    "token_budget",
]

_HOMES = {
    "Actor": ("perdure.core.entries", "Actor"),
    "AgentDefinition": ("perdure.agents.definition", "AgentDefinition"),
    "Answer": ("perdure.agents.waiting", "Answer"),
    "BUILT_IN_TOOLS": ("perdure.agents.built_ins", "BUILT_IN_TOOLS"),
    "BuiltInTool": ("perdure.agents.built_ins", "BuiltInTool"),
    "Caller": ("perdure.checks", "Caller"),
    "ContextOverflowError": ("perdure.errors", "ContextOverflowError"),
    "Decision": ("perdure.run_items", "Decision"),
    "DidNotHappenError": ("perdure.agents.waiting", "DidNotHappenError"),
    "EventSink": ("perdure.sinks", "EventSink"),
    "EventTimeoutError": ("perdure.agents.waiting", "EventTimeoutError"),
    "FileRef": ("perdure.core.entries", "FileRef"),
    "Fragment": ("perdure.run_items", "Fragment"),
    "InboxSettings": ("perdure.agents.inbox", "InboxSettings"),
    "InstructionContext": ("perdure.agents.definition", "InstructionContext"),
    "Notice": ("perdure.sinks", "Notice"),
    "Occurrence": ("perdure.agents.schedules", "Occurrence"),
    "PerdureError": ("perdure.errors", "PerdureError"),
    "PromptSection": ("perdure.agents.prompt", "PromptSection"),
    "ReconnectPolicy": ("perdure.agents.reconnect", "ReconnectPolicy"),
    "Run": ("perdure.run", "Run"),
    "RunMessage": ("perdure.run_items", "RunMessage"),
    "ScheduleEndedError": ("perdure.agents.schedules", "ScheduleEndedError"),
    "ScheduleRetryError": ("perdure.agents.schedules", "ScheduleRetryError"),
    "StepChanges": ("perdure.agents.prepare", "StepChanges"),
    "StopPolicy": ("perdure.agents.stop_policies", "StopPolicy"),
    "TaskPending": ("perdure.agents.waiting", "TaskPending"),
    "ToolContext": ("perdure.agents.tools", "ToolContext"),
    "ToolExecutionError": ("perdure.errors", "ToolExecutionError"),
    "ToolInputRequested": ("perdure.agents.waiting", "ToolInputRequested"),
    "ToolPolicy": ("perdure.agents.policies", "ToolPolicy"),
    "ToolTask": ("perdure.agents.waiting", "ToolTask"),
    "UnsettledError": ("perdure.errors", "UnsettledError"),
    "advance_sequence": ("perdure.core.cursor", "advance_sequence"),
    "connect": ("perdure.client", "connect"),
    "current_tool_context": ("perdure.agents.tools", "current_tool_context"),
    "error_inside": ("perdure.agents.errors_inside", "error_inside"),
    "function_tool": ("perdure.agents.tools", "function_tool"),
    "open": ("perdure.embedded.runtime", "open_runtime"),
    "stop_after": ("perdure.agents.stop_policies", "stop_after"),
    "token_budget": ("perdure.agents.stop_policies", "token_budget"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
