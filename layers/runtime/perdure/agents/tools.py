"""Function tools: a Python function that a model may call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from perdure.agents.policies import ApprovalRule, Effect

JsonObject = dict[str, Any]

ReportProgress = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a running tool may know; a parameter annotated with this class receives it.

    Attributes:
        idempotency_key: `<tenant>/<session>/<turn>/<call>`, the same on every attempt (spec TOOL-08).
        attempt: From 1.
        deadline: The attempt is cut off then.
        abort: Set when the turn was stopped or the lease was lost; honouring it is up to the tool.
        report_progress: Shows a text to the viewers; never model input. Awaitable, for async tools.
    """

    tenant: str
    session_id: str
    turn_id: str
    tool_call_id: str
    tool_name: str
    attempt: int
    idempotency_key: str
    deadline: datetime | None = None
    abort: asyncio.Event = field(default_factory=asyncio.Event)
    report_progress: ReportProgress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTool:
    """A tool: what the model is told of it, what it does to the world, and how it is run.

    Attributes:
        parameters: JSON Schema of its arguments.
        validate: Checks and converts raw arguments; returns the validated object as JSON values.
            Raises ValueError with a short reason.
        execute: Runs the body with validated arguments and returns the output text.
    """

    name: str
    description: str
    parameters: JsonObject
    validate: Callable[[JsonObject], JsonObject]
    execute: Callable[[JsonObject, ToolContext], Awaitable[str]]
    effect: Effect | None = None
    requires_approval: ApprovalRule | None = None
