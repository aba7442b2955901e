"""An agent: its name, instructions, model, tools and policies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal, cast

from perdure.agents.acceptance import Acceptance
from perdure.agents.built_ins import DEFAULT_MAX_WAIT, BuiltInTool, built_in_tool, check_limits, enabled
from perdure.agents.files import UNRESOLVED, FileResolver, StoreFile, Unresolved
from perdure.agents.inbox import InboxSettings
from perdure.agents.policies import (
    DEFAULT_EFFECT,
    ApprovalRule,
    Effect,
    EffectivePolicy,
    ToolPolicy,
    check_effect,
    effective_policy,
)
from perdure.agents.prepare import PrepareStep
from perdure.agents.prompt import Prompt, PromptSection, composed, sections_of
from perdure.agents.reconnect import QUICK, ReconnectPolicy
from perdure.agents.runner import AgentFrameworkRunner, Generate
from perdure.agents.schedules import OnSchedule
from perdure.agents.settings import ModelChoice, ModelResolver, SettingsResolver
from perdure.agents.step import InstructionContext
from perdure.agents.stop_policies import StopPolicy
from perdure.agents.tools import FunctionTool
from perdure.core.history import HistoryOptions
from perdure.core.limits import MAX_MODEL_CALLS_PER_TURN
from perdure.core.outputs import DEFAULT_OUTPUT_LIMIT, READER
from perdure.core.settings import APPROVAL_MODES
from perdure.errors import ConfigurationError
from perdure.models.base import ModelClient, ToolDefinition
from perdure.models.capabilities import context_window, credential_version, reasoning_levels
from perdure.models.settings import ModelSettings

JsonObject = dict[str, Any]
__all__ = ["AgentDefinition", "AgentRegistry", "InstructionContext", "Instructions", "is_tool_name"]
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_tool_name(name: str) -> bool:
    """Whether every provider takes this name: `[A-Za-z0-9_-]{1,64}`."""
    return _NAME.fullmatch(name) is not None


Instructions = Prompt | Callable[[InstructionContext], Prompt]


_FIRST_OF_MODELS = cast("ModelClient", None)
"""Stands for `model` until the definition is complete."""


@dataclass(frozen=True, kw_only=True)
class AgentDefinition:
    """One agent. Its `name` is its identity: sessions keep it.

    Attributes:
        instructions: The system prompt, as a text or in sections, or a function that is called for every model step.
        model: Any `ModelClient`. May be left out with `models`, the first of which it is then.
        models: Clients that a session may be set to by name (setting `model`); the deployment builds them all.
        model_resolver: Names the one of `models` that answers a step; None: `model`. Default: the setting decides.
        model_settings: How models should answer; the setting `model_settings` of a session is laid over it. In a
            mapping, names that `ModelSettings` does not know go to the provider as they are.
        settings_resolver: Makes the settings that all of this sees from those of the turn. It may look things up: a
            session holds references, never secrets. The text of what it raises is shown to the session's owner.
        tools: Functions wrapped by `function_tool`; names unique.
        tool_policies: By tool name; each overrides the tool's own word. A `runner` may have tools of its own, which are
            named here only.
        default_effect: For tools that say nothing.
        built_in_tools: Names of `BUILT_IN_TOOLS` to offer; each is reserved, a read, and needs no approval.
        max_wait: Longest wait that `durable_wait` takes, in whole seconds, at most ten years.
        question_deadline: How long a question of `ask_user` waits for its answer, at most ten years. None: for ever.
        tool_output_limit: Characters of a tool's output that a prompt shows, 1,000 or more: three quarters of them from
            its start, the rest from its end. The log keeps the whole. None: prompts show all of it.
        errors_inside_outputs: A read whose output carries an error (`error_inside`) has failed; its text stays.
        max_model_calls: Cap of one turn; then the model must answer without tools (spec SESS-08).
        stop_policies: End a turn before its next model call; the first that wants to wins.
        prepare_step: Called before every provider call; may change what is asked for this step, or raise
            `ContextOverflowError`.
        acceptance: What may end a turn: `allow_empty`, `require_output` or a callback. A refused answer fails the turn
            with the code `not_accepted`, and stays as a message with that status.
        inactivity_timeout: Longest time without anything from the model, on the runtime's clock; then the call ends as
            a `timeout`, which is tried again as a reconnect. None: what the client itself has.
        file_resolver: Gives what stands behind the files of messages, for each step. None: nothing does.
        unresolved_files: What becomes of a file with nothing behind it: `omit` leaves it out, `placeholder` leaves a
            word without its reference, `error` fails the turn and names it.
        store_file: Keeps a file that a model made. None: such files are dropped.
        generate: Makes the provider call instead of the client; the loop around it stays.
        tool_timeout: Longest run of one tool attempt; 15 minutes are the most there is.
        runner: A framework's runner; None: the built-in Stepwise runner.
        inbox: How messages are delivered that do not say, whether they share a turn, and what a failed turn does.
        reconnect: When a provider call that failed is sent again: `QUICK`, `PATIENT`, or one of your own.
        approval_mode: What holds for sessions whose settings do not say (`core.settings.APPROVAL_MODES`). `deny_all` is
            for an agent that has nobody to ask.
        approval_order: Whether the approvals of one response are asked all at once or one after the other.
        on_schedule: Called for every occurrence of a schedule that is due, before its message is sent.
        title_model: Names a session by its first question and answer, once, out of band: its call has no tools and no
            instructions and never enters the history. A person's title wins. None: sessions have the titles that
            people give them.
        history: How stopped and failed turns are shown to the model.

    Raises:
        ConfigurationError: Something in it is wrong; the message names it.
    """

    name: str
    model: ModelClient = _FIRST_OF_MODELS
    models: Mapping[str, ModelClient] = field(default_factory=dict)
    model_resolver: ModelResolver | None = None
    instructions: Instructions = ""
    model_settings: ModelSettings | Mapping[str, Any] = field(default_factory=ModelSettings)
    settings_resolver: SettingsResolver | None = None
    tools: Sequence[FunctionTool] = ()
    tool_policies: Mapping[str, ToolPolicy] = field(default_factory=dict)
    default_effect: Effect = DEFAULT_EFFECT
    built_in_tools: Sequence[str] = ()
    max_wait: timedelta = DEFAULT_MAX_WAIT
    question_deadline: timedelta | None = None
    tool_output_limit: int | None = DEFAULT_OUTPUT_LIMIT
    errors_inside_outputs: bool = False
    max_model_calls: int = MAX_MODEL_CALLS_PER_TURN
    tool_timeout: timedelta = timedelta(minutes=14)
    stop_policies: Sequence[StopPolicy] = ()
    prepare_step: PrepareStep | None = None
    acceptance: Acceptance = "allow_empty"
    inactivity_timeout: timedelta | None = None
    file_resolver: FileResolver | None = None
    unresolved_files: Unresolved = "omit"
    store_file: StoreFile | None = None
    generate: Generate | None = None
    runner: AgentFrameworkRunner | None = None
    inbox: InboxSettings = field(default_factory=InboxSettings)
    on_schedule: OnSchedule | None = None
    reconnect: ReconnectPolicy = QUICK
    approval_mode: str = "ask"
    approval_order: Literal["parallel", "sequential"] = "parallel"
    title_model: ModelClient | None = None
    history: HistoryOptions = field(default_factory=HistoryOptions)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(f"agent name {self.name!r} must match {_NAME.pattern}")
        self._take_models()
        check_effect(self.default_effect, f"agent {self.name!r}")
        names = [tool.name for tool in self.tools]
        for name in names:
            if not _NAME.fullmatch(name):
                raise ConfigurationError(f"tool name {name!r} of agent {self.name!r} must match {_NAME.pattern}")
            if names.count(name) > 1:
                raise ConfigurationError(f"agent {self.name!r} has two tools named {name!r}: rename one")
        check_limits(
            self.name,
            max_wait=self.max_wait,
            question_deadline=self.question_deadline,
            output_limit=self.tool_output_limit,
        )
        object.__setattr__(
            self, "built_in_tools", enabled(self.name, self.built_in_tools, names, tuple(self.tool_policies))
        )
        history = replace(
            self.history, tool_output_limit=self.tool_output_limit, reads_outputs=READER in self.built_in_tools
        )
        object.__setattr__(self, "history", history)
        for name in self.tool_policies:
            if name not in names and (self.runner is None or not is_tool_name(name)):
                raise ConfigurationError(f"agent {self.name!r} has a policy for {name!r}, which is none of its tools")
        if self.max_model_calls < 1:
            raise ConfigurationError(f"max_model_calls of agent {self.name!r} must be 1 or more")
        self._check_step()

    def _check_step(self) -> None:
        """Refuse what is wrong with how a model step is made."""
        if self.approval_mode not in APPROVAL_MODES:
            modes = ", ".join(APPROVAL_MODES)
            raise ConfigurationError(f"approval_mode {self.approval_mode!r} of agent {self.name!r} is unknown: {modes}")
        if self.approval_order not in ("parallel", "sequential"):
            raise ConfigurationError(f"approval_order of agent {self.name!r} must be 'parallel' or 'sequential'")
        if self.tool_timeout <= timedelta(0):
            raise ConfigurationError(f"tool_timeout of agent {self.name!r} must be longer than zero")
        if self.inactivity_timeout is not None and self.inactivity_timeout <= timedelta(0):
            raise ConfigurationError(f"inactivity_timeout of agent {self.name!r} must be longer than zero")
        if self.acceptance not in ("allow_empty", "require_output") and not callable(self.acceptance):
            raise ConfigurationError(
                f"acceptance of agent {self.name!r} must be allow_empty, require_output or a function"
            )
        if self.unresolved_files not in UNRESOLVED:
            raise ConfigurationError(f"unresolved_files of agent {self.name!r} must be one of {', '.join(UNRESOLVED)}")
        policies = [policy.name for policy in self.stop_policies]
        for name in policies:
            if policies.count(name) > 1:
                raise ConfigurationError(f"agent {self.name!r} has two stop policies named {name!r}: rename one")

    def _take_models(self) -> None:
        if self.model is _FIRST_OF_MODELS:
            if not self.models:
                raise ConfigurationError(f"agent {self.name!r} has no model: pass model=… or models={{name: …}}")
            object.__setattr__(self, "model", next(iter(self.models.values())))
        try:
            object.__setattr__(self, "model_settings", ModelSettings.of(self.model_settings))
        except ValueError as error:
            raise ConfigurationError(f"model_settings of agent {self.name!r}: {error}") from None

    @property
    def model_choices(self) -> tuple[ModelChoice, ...]:
        """What a session may be set to, in the deployment's order, for a picker."""
        return tuple(
            ModelChoice(
                name=name,
                model=client.model,
                provider=client.provider,
                reasoning_levels=reasoning_levels(client),
                context_window=context_window(client),
            )
            for name, client in self.models.items()
        )

    def tool(self, name: str) -> FunctionTool | None:
        """Return the tool with this name, or None."""
        return next((tool for tool in self.tools if tool.name == name), None)

    def built_in(self, name: str) -> BuiltInTool | None:
        """Return the built-in tool with this name as this agent offers it, or None when it does not."""
        return built_in_tool(name, max_wait=self.max_wait) if name in self.built_in_tools else None

    def offered_tools(self) -> tuple[ToolDefinition, ...]:
        """Return what models may be offered, always in this order: the agent's own tools, then the built-in ones."""
        own = [(tool.name, tool.description, tool.parameters) for tool in self.tools]
        built_ins = [built_in_tool(name, max_wait=self.max_wait) for name in self.built_in_tools]
        told = (*own, *((tool.name, tool.description, tool.parameters) for tool in built_ins))
        return tuple(ToolDefinition(name=name, description=text, parameters=schema) for name, text, schema in told)

    def policy_of(self, tool: FunctionTool) -> EffectivePolicy:
        """Return what holds for one of this agent's tools."""
        return self._policy(tool.name, tool.effect, tool.requires_approval)

    def policy_of_runners(self, name: str) -> EffectivePolicy:
        """Return what holds for a tool that only the runner knows: the agent's policy, then its default effect."""
        return self._policy(name, None, None)

    def _policy(self, name: str, effect: Effect | None, approval: ApprovalRule | None) -> EffectivePolicy:
        return effective_policy(
            own_effect=effect,
            own_approval=approval,
            policy=self.tool_policies.get(name),
            default_effect=self.default_effect,
        )

    def credential_version(self) -> str:
        """Return what changes when a credential of this agent's models changes; it tells nothing of them (spec U-6)."""
        clients = dict.fromkeys((self.model, *self.models.values()))
        return " ".join(credential_version(client) or "none" for client in clients)

    def sections_for(self, context: InstructionContext) -> tuple[PromptSection, ...]:
        """Return the sections of the system prompt of one model step."""
        if callable(self.instructions):
            return sections_of(self.instructions(context), source="function")
        return sections_of(self.instructions, source="agent")

    def instructions_for(self, context: InstructionContext) -> str:
        """Return the system prompt of one model step."""
        return composed(self.sections_for(context))


class AgentRegistry:
    """The agents of one deployment, by name. The first is the default of new sessions."""

    def __init__(self, agents: Sequence[AgentDefinition]) -> None:
        if not agents:
            raise ConfigurationError("no agent was given: pass at least one AgentDefinition")
        self._agents: dict[str, AgentDefinition] = {}
        for agent in agents:
            if not isinstance(agent, AgentDefinition):
                raise ConfigurationError(f"{agent!r} is no AgentDefinition")
            if agent.name in self._agents:
                raise ConfigurationError(f"two agents are named {agent.name!r}: rename one")
            self._agents[agent.name] = agent
        self.default = agents[0]

    def get(self, name: str) -> AgentDefinition | None:
        """Return the agent with this name, or None when this deployment does not have it."""
        return self._agents.get(name)

    def __iter__(self) -> Any:
        return iter(self._agents.values())
