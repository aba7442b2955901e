"""An agent: its name, instructions, model, tools and policies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from perdure.agents.policies import (
    DEFAULT_EFFECT,
    ApprovalRule,
    Effect,
    EffectivePolicy,
    ToolPolicy,
    check_effect,
    effective_policy,
)
from perdure.agents.runner import AgentFrameworkRunner
from perdure.agents.tools import FunctionTool
from perdure.core.limits import MAX_MODEL_CALLS_PER_TURN
from perdure.errors import ConfigurationError
from perdure.models.base import ModelClient

JsonObject = dict[str, Any]
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionContext:
    """What a function of instructions may look at. It is called for every model step (spec MODEL-12)."""

    session_id: str
    turn_id: str
    attempt: int
    interaction_mode: str
    settings: JsonObject


def is_tool_name(name: str) -> bool:
    """Whether every provider takes this name: `[A-Za-z0-9_-]{1,64}`."""
    return _NAME.fullmatch(name) is not None


Instructions = str | Callable[[InstructionContext], str]


@dataclass(frozen=True, kw_only=True)
class AgentDefinition:
    """One agent. Its `name` is its identity: sessions keep it.

    Attributes:
        instructions: The system prompt, or a function that is called for every model step.
        model: Any `ModelClient`.
        model_settings: Passed to the provider as they are.
        tools: Functions wrapped by `function_tool`; names unique.
        tool_policies: By tool name; each overrides the tool's own word. A `runner` may have tools of its own, which are
            named here only.
        default_effect: For tools that say nothing.
        built_in_tools: Names of built-in tools to offer. None exists in this version.
        max_model_calls: Cap of one turn; then the model must answer without tools (spec SESS-08).
        tool_timeout: Longest run of one tool attempt; 15 minutes are the most there is.
        runner: A framework's runner; None: the built-in Stepwise runner.

    Raises:
        ConfigurationError: Something in it is wrong; the message names it.
    """

    name: str
    model: ModelClient
    instructions: Instructions = ""
    model_settings: JsonObject = field(default_factory=dict)
    tools: Sequence[FunctionTool] = ()
    tool_policies: Mapping[str, ToolPolicy] = field(default_factory=dict)
    default_effect: Effect = DEFAULT_EFFECT
    built_in_tools: Sequence[str] = ()
    max_model_calls: int = MAX_MODEL_CALLS_PER_TURN
    tool_timeout: timedelta = timedelta(minutes=14)
    runner: AgentFrameworkRunner | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(f"agent name {self.name!r} must match {_NAME.pattern}")
        check_effect(self.default_effect, f"agent {self.name!r}")
        names = [tool.name for tool in self.tools]
        for name in names:
            if not _NAME.fullmatch(name):
                raise ConfigurationError(f"tool name {name!r} of agent {self.name!r} must match {_NAME.pattern}")
            if names.count(name) > 1:
                raise ConfigurationError(f"agent {self.name!r} has two tools named {name!r}: rename one")
        for name in self.built_in_tools:
            raise ConfigurationError(f"agent {self.name!r} names the built-in tool {name!r}, which does not exist")
        for name in self.tool_policies:
            if name not in names and (self.runner is None or not is_tool_name(name)):
                raise ConfigurationError(f"agent {self.name!r} has a policy for {name!r}, which is none of its tools")
        if self.max_model_calls < 1:
            raise ConfigurationError(f"max_model_calls of agent {self.name!r} must be 1 or more")
        if self.tool_timeout <= timedelta(0):
            raise ConfigurationError(f"tool_timeout of agent {self.name!r} must be longer than zero")

    def tool(self, name: str) -> FunctionTool | None:
        """Return the tool with this name, or None."""
        return next((tool for tool in self.tools if tool.name == name), None)

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

    def instructions_for(self, context: InstructionContext) -> str:
        """Return the system prompt of one model step."""
        return self.instructions(context) if callable(self.instructions) else self.instructions


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
