"""What a model step asks its provider: client, prompt and tools, and the hook that may change them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure.agents.budget import (
    NOTHING,
    UNAVAILABLE,
    ContextFill,
    PromptBudget,
    declared,
    estimated_conversation,
    estimated_json,
    estimated_tokens,
    reported,
)
from perdure.agents.files import resolved_files
from perdure.agents.prompt import Prompt, PromptSection, composed, sections_of
from perdure.agents.settings import chosen_model, client_named, model_settings
from perdure.agents.step import InstructionContext, StepContext, answered, past_steps
from perdure.core.history import HistoryItem, ModelItem, ToolResultItem, UserItem
from perdure.errors import ConfigurationError
from perdure.models.base import ModelClient, ModelRequest, ToolDefinition
from perdure.models.capabilities import context_window
from perdure.models.settings import ModelSettings

if TYPE_CHECKING:
    from perdure.agents.definition import AgentDefinition
    from perdure.agents.runner import AgentTurnContext

JsonObject = dict[str, Any]

TURN_RETRIED = """[turn_retried]
The connection broke while you were answering. What had arrived by then is below; it was not kept.
Answer again from the beginning, with the whole answer.
[partial_answer]
{partial}
[/partial_answer]
[/turn_retried]"""
"""Tells a model of its answer that was cut; only in the resent prompt, never stored (spec RETRY-04)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDraft(StepContext):
    """A step that is about to be made, for `prepare_step`.

    Attributes:
        model_name: Which of the agent's `models` was chosen. None: its own `model`.
        model: The model's name at its provider.
        instructions: The sections of the prompt, in their order.
        tools: The tools on offer; none when the model has to answer.
        model_settings: Of this call.
        window: The declared window of the model, in tokens. None: not declared.
    """

    model_name: str | None
    model: str
    instructions: tuple[PromptSection, ...]
    tools: tuple[ToolDefinition, ...]
    model_settings: ModelSettings
    window: int | None

    def budget(self) -> PromptBudget:
        """Return the budget of this step's prompt; what has no figure of its own is estimated from its text.

        What files cost is not known before they are looked up, so with files there is no figure for attachments.
        """
        return PromptBudget(
            window=declared(self.window),
            instructions=estimated_tokens(composed(self.instructions)),
            reserved_output=declared(self.model_settings.max_output_tokens),
            schemas=estimated_json([(tool.name, tool.description, tool.parameters) for tool in self.tools]),
            attachments=UNAVAILABLE if _has_files(self.history) else NOTHING,
        )

    def fits(self) -> str:
        """Return what the budget decides on this step's conversation: `PromptBudget.decide`."""
        return self.budget().decide(estimated_conversation(self.history))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChanges:
    """What `prepare_step` wants otherwise for one step. None leaves a thing as it is.

    Attributes:
        active_tools: Names of the agent's tools to offer. A call of one that is not among them is answered as failed
            and never runs; the agent's tools and policies stay what they are.
        model: Name of one of the agent's `models`.
        instructions: Instead of the agent's.
        messages: Instead of the stored conversation; every call in it needs its one result directly behind it.
    """

    active_tools: Sequence[str] | None = None
    model: str | None = None
    instructions: Prompt | None = None
    messages: Sequence[HistoryItem] | None = None


PrepareStep = Callable[[StepDraft], "StepChanges | Awaitable[StepChanges | None] | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A provider call as it will be made. `offered` is set when the hook named the tools: no other may be called."""

    client: ModelClient
    request: ModelRequest
    step: StepContext
    offered: tuple[str, ...] | None = None


def step_context(agent: AgentDefinition, context: AgentTurnContext, *, window: int | None = None) -> StepContext:
    """Return what hooks may see of a step. `window` None: that of the agent's own model."""
    return StepContext(**_seen(agent, context, window))


async def prepare(agent: AgentDefinition, context: AgentTurnContext) -> Prepared:
    """Return the provider call of a step.

    Raises:
        SettingsError: The session is set to what this deployment does not have.
        ConfigurationError: The agent's hook gave something that can't be sent.
        ContextOverflowError: The hook refused the step.
        UnresolvedFileError: A file has nothing behind it, and the agent wants an error then.
    """
    step = step_context(agent, context)
    name = await chosen_model(agent, step)
    client = client_named(agent, name)
    settings = model_settings(agent, context.settings, client)
    tools = agent.offered_tools() if context.offer_tools else ()
    messages: Sequence[HistoryItem] = context.history
    sections = agent.sections_for(instruction_context(context))
    offered: tuple[str, ...] | None = None
    if agent.prepare_step is not None:
        window = context_window(client)
        draft = StepDraft(
            model_name=name,
            model=client.model,
            instructions=sections,
            tools=tools,
            model_settings=settings,
            window=window,
            **_seen(agent, context, window),
        )
        changes = await answered(agent.prepare_step(draft)) or StepChanges()
        if changes.model is not None:
            client = client_named(agent, changes.model)
            settings = model_settings(agent, context.settings, client)
        if changes.instructions is not None:
            sections = sections_of(changes.instructions, source="prepare_step")
        if changes.messages is not None:
            messages = changes.messages
            _check_pairs(agent, messages)
        if changes.active_tools is not None:
            offered = _checked_names(agent, changes.active_tools)
            tools = tuple(tool for tool in tools if tool.name in offered)
    shown, files = await resolved_files(messages, agent.file_resolver, agent.unresolved_files, step)
    if context.retried_partial:
        shown = (*shown, UserItem(text=TURN_RETRIED.format(partial=context.retried_partial)))
    request = ModelRequest(
        messages=shown,
        instructions=composed(sections),
        tools=tools,
        settings=settings,
        files=files,
        deadline=context.deadline,
    )
    return Prepared(client=client, request=request, step=step, offered=offered)


def _has_files(items: Sequence[HistoryItem]) -> bool:
    return any(isinstance(item, UserItem) and item.files for item in items)


def instruction_context(context: AgentTurnContext) -> InstructionContext:
    """Return what a function of instructions may see of a step."""
    return InstructionContext(
        session_id=context.session_id,
        turn_id=context.turn_id,
        attempt=context.attempt,
        interaction_mode=context.interaction_mode,
        settings=context.settings,
        values=context.values,
    )


def _seen(agent: AgentDefinition, context: AgentTurnContext, window: int | None) -> dict[str, Any]:
    return {
        "session_id": context.session_id,
        "turn_id": context.turn_id,
        "attempt": context.attempt,
        "interaction_mode": context.interaction_mode,
        "settings": context.settings,
        "values": context.values,
        "tenant": context.tenant,
        "step_execution_id": context.step_execution_id,
        "history": context.history,
        "steps": past_steps(context.history[context.turn_start :]),
        "context_fill": ContextFill(
            prompt=reported(context.last_prompt_tokens),
            window=declared(window if window is not None else context_window(agent.model)),
        ),
        "turn_usage": context.turn_usage,
    }


def _checked_names(agent: AgentDefinition, names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if agent.tool(name) is None and agent.built_in(name) is None:
            raise ConfigurationError(
                f"prepare_step of agent {agent.name!r} names the tool {name!r}, which is none of its tools"
            )
    return tuple(names)


def _check_pairs(agent: AgentDefinition, messages: Sequence[HistoryItem]) -> None:
    """Refuse a conversation that strict providers would: a call without its one result directly behind it."""
    waiting: list[str] = []
    for item in messages:
        if isinstance(item, ToolResultItem) and item.call_id in waiting:
            waiting.remove(item.call_id)
            continue
        if waiting or isinstance(item, ToolResultItem):
            break
        waiting = [call.call_id for call in item.calls] if isinstance(item, ModelItem) else []
    else:
        if messages and not waiting:
            return
    raise ConfigurationError(
        f"prepare_step of agent {agent.name!r} gave messages in which a call has no result directly behind it"
        if messages
        else f"prepare_step of agent {agent.name!r} gave no messages at all"
    )
