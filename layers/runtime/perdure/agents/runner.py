"""The framework runner contract: how an agent framework plugs into the runtime (spec CLIENT-06).

A runner never executes tools inside its model step: it hands the calls over, and each becomes a durable step.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from perdure.core.entries import FileRef
from perdure.core.history import HistoryItem, HistoryOptions
from perdure.core.usage import NO_TOTALS, NO_USAGE, CallUsage, UsageTotals
from perdure.models.base import Delta, ModelClient, ModelRequest, StreamItem

if TYPE_CHECKING:
    from perdure.agents.definition import AgentDefinition
    from perdure.agents.tools import ToolContext
    from perdure.agents.waiting import TaskPending, ToolTask

JsonObject = dict[str, Any]

EmitDelta = Callable[[Delta], Awaitable[None]]
ShowEvent = Callable[[str, Mapping[str, Any]], Awaitable[None]]


async def _shown_nowhere(_: str, __: Mapping[str, Any]) -> None:
    return None


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
        emit: Shows a delta to the viewers. The text and reasoning deltas of a call, joined, are its outcome's; then its
            message has the parts in which they were shown.
        settings: Those of the turn, as the agent's `settings_resolver` has them.
        turn_start: Where in `history` the running turn begins.
        last_prompt_tokens: Size of the prompt of the last completed step, as its provider reported it. None: there is
            none, or it did not.
        turn_usage: What the provider calls of the turn have used before this step.
        values: What people gave the application by its requests for values, by name.
        event: Shows an event of the application's own, live; as `ToolContext.event` does.
        alive: To be called when something came that shows nothing, so that the inactivity timeout begins anew; `emit`
            does so by itself.
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
    turn_start: int = 0
    last_prompt_tokens: int | None = None
    turn_usage: UsageTotals = NO_TOTALS
    values: JsonObject = field(default_factory=dict)
    event: ShowEvent = _shown_nowhere
    alive: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A provider call that the loop wants to be made (spec MODEL-28).

    Attributes:
        request: All that the model is to be asked.
        client: The client that was chosen for it; `client.stream(request)` is what happens without `generate`.
        context: The step. `emit` and `alive` are called by the loop, for every item of the stream.
    """

    request: ModelRequest
    client: ModelClient
    context: AgentTurnContext


Generate = Callable[[Generation], AsyncIterator[StreamItem]]
"""Makes a provider call in place of the client: an async generator that ends with one `ModelResponse`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredCall:
    """A tool call that a model asked for.

    `arguments_text` is raw JSON text; empty means no arguments. The other fields are those of `ModelToolCall`.
    """

    tool_name: str
    arguments_text: str = ""
    provider_call_id: str | None = None
    provider_executed: bool = False
    output: str | None = None
    dynamic: bool = False
    metadata: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutcome:
    """How a model step ended (spec MODEL-05).

    Attributes:
        ending: `answer`, `tool_calls`, `truncated`, `filtered` or `refused`; the second if and only if there are calls.
        provider: `{provider, api, item}` when something must be replayed to this provider unchanged.
        run_state: Kept until the turn's next model step; non-empty with tool calls.
        metadata: For traces only; never stored.
        files: What the model made, by the references under which the application keeps it.
        offered: The only tools that may be called in this step; a call of another is answered as failed. None: all.
    """

    ending: Literal["answer", "tool_calls", "truncated", "filtered", "refused"]
    text: str = ""
    reasoning: str = ""
    calls: tuple[DeferredCall, ...] = ()
    usage: CallUsage = NO_USAGE
    provider: JsonObject | None = None
    run_state: JsonObject | None = None
    metadata: JsonObject = field(default_factory=dict)
    files: tuple[FileRef, ...] = ()
    offered: tuple[str, ...] | None = None


class AgentFrameworkRunner(Protocol):
    """Runs one model step of an agent, and one deferred call."""

    async def run_model_step(self, agent: AgentDefinition, context: AgentTurnContext) -> ModelOutcome:
        """Make at most one provider call and say how it ended.

        Raises:
            ModelCallError: No usable answer; the runtime reconnects or fails the turn.
        """
        ...

    async def execute_tool(self, agent: AgentDefinition, context: ToolContext, arguments: JsonObject) -> str | ToolTask:
        """Run one deferred call with arguments that were checked when it was stored, and return its output text.

        A runner that looks after remote work may return a `ToolTask`; it then has `poll_tool_task` and
        `cancel_tool_task` (`TaskRunner`).

        Raises:
            ToolExecutionError: A failure that the model should see.
        """
        ...


class RemembersUnfinished(Protocol):
    """What a runner has beside `AgentFrameworkRunner` whose run state holds more than texts, calls and results."""

    def unfinished_messages(self, run_state: JsonObject) -> Sequence[str]:
        """Return what later prompts should say, as the agent's own words, of a turn that failed (spec SESS-09).

        They stand behind the calls and results of the turn, before the note that lists what ran. Nothing of it is
        stored, so the same state has to give the same texts. When it raises, the note stands alone.

        Args:
            run_state: The last one that this runner handed over in that turn.
        """
        ...


def history_options(agent: AgentDefinition) -> HistoryOptions:
    """Return how an agent's past is shown to its model, with what its runner adds."""
    unfinished = getattr(agent.runner, RemembersUnfinished.unfinished_messages.__name__, None)
    return agent.history if unfinished is None else replace(agent.history, unfinished=unfinished)


@runtime_checkable
class TaskRunner(Protocol):
    """What a runner has beside `AgentFrameworkRunner` that looks after remote work (spec TASK-02 to TASK-08)."""

    async def poll_tool_task(self, agent: AgentDefinition, context: ToolContext, task_id: str) -> str | TaskPending:
        """Look at remote work once; only read, or deliver `context.resolution` idempotently.

        Returns:
            The call's output text, or `TaskPending`.

        Raises:
            ToolInputRequested: The work wants to know something of a person.
            ToolExecutionError: It failed; the model should see why.
        """
        ...

    async def cancel_tool_task(self, agent: AgentDefinition, context: ToolContext, task_id: str) -> None:
        """Ask remote work to stop, idempotently. Whatever is raised is tried again, three times in two minutes."""
        ...
