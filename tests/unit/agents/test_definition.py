"""Agents and policies: what holds for a tool, and what is refused by name (spec CLIENT-04, TOOL-03)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure import AgentDefinition, InstructionContext, ToolPolicy, function_tool
from perdure.agents.definition import AgentRegistry
from perdure.agents.policies import EFFECTS, Effect
from perdure.agents.stepwise import StepwiseRunner
from perdure.agents.tools import FunctionTool
from perdure.errors import ConfigurationError
from perdure.models import ScriptedModel

MODEL = ScriptedModel(lambda _: "hi")


def a_tool(name: str = "pay", **policy: Any) -> FunctionTool:
    return function_tool(name=name, **policy)(lambda: "done")


def an_agent(*tools: FunctionTool, name: str = "support", **changes: Any) -> AgentDefinition:
    return AgentDefinition(name=name, model=MODEL, tools=tools, **changes)


# --- policies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "policy", "default", "effect"),
    [
        (None, None, "unclassified", "unclassified"),
        (None, None, "read", "read"),
        ("idempotent_write", None, "read", "idempotent_write"),
        ("read", "non_idempotent_write", "read", "non_idempotent_write"),
    ],
    ids=["nobody-says", "the-agent-says", "the-tool-says", "the-policy-says"],
)
def test_the_policy_wins_over_the_tool_and_the_tool_over_the_agents_default(
    own: Effect | None, policy: Effect | None, default: Effect, effect: str
) -> None:
    tool = a_tool(effect=own)
    policies = {"pay": ToolPolicy(effect=policy)} if policy else {}

    agent = an_agent(tool, default_effect=default, tool_policies=policies)

    assert agent.policy_of(tool).effect == effect


@pytest.mark.parametrize("effect", EFFECTS)
def test_what_runs_once_asks_for_an_approval_unless_told_otherwise(effect: Effect) -> None:
    plain, trusted, watched = a_tool(effect=effect), a_tool("trusted", effect=effect), a_tool("watched", effect=effect)
    policies = {"trusted": ToolPolicy(requires_approval=False), "watched": ToolPolicy(requires_approval=True)}

    agent = an_agent(plain, trusted, watched, tool_policies=policies)

    assert agent.policy_of(plain).needs_approval({}) is (effect in ("non_idempotent_write", "unclassified"))
    assert agent.policy_of(trusted).needs_approval({}) is False
    assert agent.policy_of(watched).needs_approval({}) is True


def test_a_policy_overrides_only_what_it_names() -> None:
    tool = a_tool(effect="idempotent_write", requires_approval=True)

    policy = an_agent(tool, tool_policies={"pay": ToolPolicy(approval_deadline=timedelta(hours=1))}).policy_of(tool)

    assert (policy.effect, policy.requires_approval) == ("idempotent_write", True)
    assert policy.approval_deadline == timedelta(hours=1)


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"name": "sup port"}, "agent name 'sup port' must match"),
        ({"tools": [a_tool("a b")]}, "tool name 'a b' of agent 'support' must match"),
        ({"tools": [a_tool(), a_tool()]}, "two tools named 'pay'"),
        ({"built_in_tools": ["ask_me"]}, "built-in tool 'ask_me', which does not exist"),
        ({"tool_policies": {"ask_user": ToolPolicy()}}, "a policy for 'ask_user', which is none of its tools"),
        ({"default_effect": "harmless"}, "the effect 'harmless'"),
        ({"max_model_calls": 0}, "max_model_calls of agent 'support' must be 1 or more"),
    ],
    ids=["name", "tool-name", "twice", "built-in", "reserved-policy", "effect", "cap"],
)
def test_a_wrong_definition_is_refused_and_what_is_wrong_is_named(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        AgentDefinition(**{"name": "support", "model": MODEL, **changes})


def test_a_policy_for_a_tool_that_only_the_runner_knows_needs_a_runner_and_a_name_that_can_be_one() -> None:
    policies = {"browse": ToolPolicy(effect="read")}

    agent = an_agent(runner=StepwiseRunner(), tool_policies=policies)

    assert agent.policy_of_runners("browse").effect == "read"
    assert agent.policy_of_runners("post").effect == "unclassified"
    with pytest.raises(ConfigurationError, match="'browse', which is none of its tools"):
        an_agent(tool_policies=policies)
    with pytest.raises(ConfigurationError, match="'br owse', which is none of its tools"):
        an_agent(runner=StepwiseRunner(), tool_policies={"br owse": ToolPolicy()})


def test_a_policy_without_sense_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="approval_deadline"):
        ToolPolicy(approval_deadline=timedelta(0))
    with pytest.raises(ConfigurationError, match="'harmless'"):
        ToolPolicy(effect="harmless")  # type: ignore[arg-type]


# --- one deployment -------------------------------------------------------------------------------------------------


def test_the_first_agent_of_a_deployment_is_the_default_and_each_is_found_by_its_name() -> None:
    first, second = an_agent(), an_agent(name="billing")

    registry = AgentRegistry([first, second])

    assert registry.default is first
    assert registry.get("billing") is second
    assert registry.get("sales") is None
    assert list(registry) == [first, second]


@pytest.mark.parametrize(
    ("agents", "complaint"),
    [([], "no agent was given"), ([an_agent(), an_agent()], "two agents are named 'support'"), (["support"], "is no")],
    ids=["none", "twice", "no-agent"],
)
def test_a_wrong_deployment_is_refused(agents: list[Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        AgentRegistry(agents)


def test_instructions_may_be_a_text_or_depend_on_the_step() -> None:
    context = InstructionContext(session_id="s-1", turn_id="turn-2", attempt=1, interaction_mode="chat", settings={})

    assert an_agent(instructions="Be kind.").instructions_for(context) == "Be kind."
    assert (
        an_agent(instructions=lambda asked: f"This is {asked.turn_id}.").instructions_for(context) == "This is turn-2."
    )
