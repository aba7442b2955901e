"""The framework runner contract: how an agent framework plugs into the runtime (spec CLIENT-06).

A runner never executes tools inside its model step: it hands the calls over, and each becomes a durable step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from perdure.core.history import HistoryItem
from perdure.core.usage import NO_USAGE, CallUsage
from perdure.models.base import ReasoningDelta, TextDelta

if TYPE_CHECKING:
    from perdure.agents.definition import AgentDefinition
    from perdure.agents.tools import ToolContext

JsonObject = dict[str, Any]

EmitDelta = Callable[[TextDelta | ReasoningDelta], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurnContext:
    """What a runner gets for one model step (spec MODEL-04).

    Attributes:
        history: Everything the model should see, oldest first, this turn's calls and results included.
        run_state: What the runner's previous model step in this turn handed over; None in the first one.
        offer_tools: False once the turn reached its cap of model calls: the model must answer.
        retried_partial: Text of a provider call of this attempt that was cut, to be told to the model.
        deadline: The attempt must be over by then. None: no limit.
        abort: Set when the turn is stopped or the lease is lost.
        emit: Shows a delta to the viewers.
    """

    tenant: str
    session_id: str
    turn_id: str
    step_execution_id: str
    attempt: int
    history: tuple[HistoryItem, ...]
    emit: EmitDelta
    run_state: JsonObject | None = None
    offer_tools: bool = True
    retried_partial: str = ""
    interaction_mode: str = "chat"
    settings: JsonObject = field(default_factory=dict)
    deadline: datetime | None = None
    abort: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredCall:
    """A tool call that a model asked for. `arguments_text` is raw JSON text; empty means no arguments."""

    tool_name: str
    arguments_text: str = ""
    provider_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutcome:
    """How a model step ended (spec MODEL-05).

    Attributes:
        ending: `answer`, `tool_calls`, `truncated`, `filtered` or `refused`; the second if and only if there are calls.
        provider: `{provider, api, item}` when something must be replayed to this provider unchanged.
        run_state: Kept until the turn's next model step; non-empty with tool calls.
        metadata: For traces only; never stored.
    """

    ending: Literal["answer", "tool_calls", "truncated", "filtered", "refused"]
    text: str = ""
    reasoning: str = ""
    calls: tuple[DeferredCall, ...] = ()
    usage: CallUsage = NO_USAGE
    provider: JsonObject | None = None
    run_state: JsonObject | None = None
    metadata: JsonObject = field(default_factory=dict)


class AgentFrameworkRunner(Protocol):
    """Runs one model step of an agent, and one deferred call."""

    async def run_model_step(self, agent: AgentDefinition, context: AgentTurnContext) -> ModelOutcome:
        """Make at most one provider call and say how it ended.

        Raises:
            ModelCallError: No usable answer; the runtime reconnects or fails the turn.
        """
        ...

    async def execute_tool(self, agent: AgentDefinition, context: ToolContext, arguments: JsonObject) -> str:
        """Run one deferred call with arguments that were checked when it was stored, and return its output text.

        Raises:
            ToolExecutionError: A failure that the model should see.
        """
        ...
