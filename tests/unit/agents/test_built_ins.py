"""Built-in tools: what models are told of them, which arguments they take; their names and their policy are fixed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from perdure import BUILT_IN_TOOLS, ToolPolicy, function_tool
from perdure.agents.calls import requested_calls
from perdure.agents.prepare import StepChanges
from perdure.agents.runner import AgentTurnContext, ModelOutcome
from perdure.agents.stepwise import StepwiseRunner
from perdure.agents.tools import ToolContext
from perdure.core.history import UserItem
from perdure.errors import ConfigurationError
from perdure.models import ScriptedModel
from tests.unit.agents.builders import a_call, a_turn, an_agent

YEAR = 365 * 24 * 3600
QUESTION = {"question": "Which size?"}


@function_tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


# --- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("ask_user", QUESTION, QUESTION),
        ("ask_user", QUESTION | {"choices": None, "allows_free_text": None}, QUESTION),
        ("ask_user", QUESTION | {"choices": ["S", "L"], "allows_free_text": False}, None),
        ("ask_user", QUESTION | {"allows_free_text": True}, None),
        ("ask_user", {"question": "?" * 4000, "choices": ["x" * 200]}, None),
        ("ask_user", QUESTION | {"choices": [f"choice {n}" for n in range(20)]}, None),
        ("durable_wait", {"duration_seconds": 1}, None),
        ("durable_wait", {"duration_seconds": YEAR, "reason": ""}, None),
        ("durable_wait", {"duration_seconds": 90.125, "reason": "r" * 1000}, None),
        ("durable_wait", {"duration_seconds": 60, "reason": None}, {"duration_seconds": 60}),
    ],
)
def test_arguments_at_their_limits_are_taken_and_an_optional_null_is_left_out(
    name: str, given: dict[str, Any], kept: dict[str, Any] | None
) -> None:
    assert BUILT_IN_TOOLS[name].validate(given) == (given if kept is None else kept)


@pytest.mark.parametrize(
    ("name", "given", "reason"),
    [
        ("ask_user", {}, "question: is required"),
        ("ask_user", {"question": None}, "question: is required"),
        ("ask_user", {"question": " \n"}, "question: must not be blank"),
        ("ask_user", {"question": ["why"]}, "question: must be a text"),
        ("ask_user", {"question": "?" * 4001}, "question: has 4001 characters, and may have 4000"),
        ("ask_user", QUESTION | {"choices": []}, "choices: must be a list of 1 to 20 texts"),
        ("ask_user", QUESTION | {"choices": [str(n) for n in range(21)]}, "choices: must be a list of 1 to 20 texts"),
        ("ask_user", QUESTION | {"choices": "S"}, "choices: must be a list of 1 to 20 texts"),
        ("ask_user", QUESTION | {"choices": ["S", 4]}, "choices.1: must be a text"),
        ("ask_user", QUESTION | {"choices": ["S", " "]}, "choices.1: must not be blank"),
        ("ask_user", QUESTION | {"choices": ["x" * 201]}, "choices.0: has 201 characters, and may have 200"),
        ("ask_user", QUESTION | {"choices": ["S", "L", "S"]}, "choices: must differ from each other"),
        ("ask_user", QUESTION | {"allows_free_text": False}, "allows_free_text: may be false only with choices"),
        ("ask_user", QUESTION | {"allows_free_text": 0}, "allows_free_text: must be true or false"),
        ("ask_user", QUESTION | {"urgent": True}, "urgent: is no parameter of this tool"),
        ("durable_wait", {}, "duration_seconds: is required"),
        ("durable_wait", {"duration_seconds": 0.999}, f"duration_seconds: must be from 1 to {YEAR}"),
        ("durable_wait", {"duration_seconds": YEAR + 1}, f"duration_seconds: must be from 1 to {YEAR}"),
        ("durable_wait", {"duration_seconds": 10**5000}, f"duration_seconds: must be from 1 to {YEAR}"),
        ("durable_wait", {"duration_seconds": float("nan")}, f"duration_seconds: must be from 1 to {YEAR}"),
        ("durable_wait", {"duration_seconds": 1.0005}, "duration_seconds: must be whole milliseconds"),
        ("durable_wait", {"duration_seconds": True}, "duration_seconds: must be a number"),
        ("durable_wait", {"duration_seconds": "60"}, "duration_seconds: must be a number"),
        (
            "durable_wait",
            {"duration_seconds": 1, "reason": "r" * 1001},
            "reason: has 1001 characters, and may have 1000",
        ),
        ("durable_wait", {"duration_seconds": 1, "reason": 3}, "reason: must be a text"),
    ],
)
def test_other_arguments_are_refused_with_the_reason(name: str, given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        BUILT_IN_TOOLS[name].validate(given)


def test_a_wait_may_be_as_long_as_the_agent_says_and_the_model_is_told() -> None:
    agent = an_agent(built_in_tools=["durable_wait"], max_wait=timedelta(hours=1))
    wait = agent.built_in("durable_wait")
    assert wait is not None

    assert wait.parameters["properties"]["duration_seconds"]["maximum"] == 3600
    assert wait.validate({"duration_seconds": 3600}) == {"duration_seconds": 3600}
    with pytest.raises(ValueError, match="must be from 1 to 3600"):
        wait.validate({"duration_seconds": 3600.5})


# --- calls ----------------------------------------------------------------------------------------------------------


def test_a_call_is_stored_with_checked_arguments_and_the_fixed_policy_whatever_the_agents_default() -> None:
    agent = an_agent(look, built_in_tools=["durable_wait", "ask_user"], default_effect="non_idempotent_write")

    asked, waited, looked = requested_calls(
        agent,
        (
            a_call("ask_user", '{"question": "Which size?", "choices": null}', "c1"),
            a_call("durable_wait", '{"duration_seconds": 5}'),
            a_call("look"),
        ),
    )

    assert (asked.built_in, asked.arguments, asked.provider_call_id) == (True, QUESTION, "c1")
    assert (waited.built_in, waited.arguments) == (True, {"duration_seconds": 5})
    assert looked.built_in is False
    assert {(c.effect, c.requires_approval, c.settled, c.inline) for c in (asked, waited)} == {
        ("read", False, None, False)
    }


def test_each_has_its_own_effect_and_nobody_has_to_approve_any() -> None:
    agent = an_agent(built_in_tools=list(BUILT_IN_TOOLS))
    arguments = {
        "ask_user": '{"question": "?"}',
        "durable_wait": '{"duration_seconds": 5}',
        "read_tool_output": '{"tool_call_id": "call-2-0"}',
        "set_schedule": '{"text": "x", "after": {"hours": 1}}',
        "list_schedules": "{}",
        "cancel_schedule": '{"schedule_id": "x"}',
    }

    calls = requested_calls(agent, tuple(a_call(name, arguments[name]) for name in BUILT_IN_TOOLS))

    assert {call.tool_name: call.effect for call in calls} == dict.fromkeys(BUILT_IN_TOOLS, "read") | {
        "set_schedule": "idempotent_write",
        "cancel_schedule": "idempotent_write",
    }
    assert {call.requires_approval for call in calls} == {False}
    assert {call.settled for call in calls} == {None}


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "durable_wait",
            '{"duration_seconds": 0}',
            f"invalid durable_wait arguments: duration_seconds: must be from 1 to {YEAR}",
        ),
        ("ask_user", "", "invalid ask_user arguments: question: is required"),
        ("ask_user", "[]", "invalid ask_user arguments: not a JSON object"),
    ],
)
def test_a_call_with_wrong_arguments_is_over_before_it_begins(name: str, text: str, told: str) -> None:
    (call,) = requested_calls(an_agent(built_in_tools=["ask_user", "durable_wait"]), (a_call(name, text),))

    assert call.settled == ("failed", told)
    assert call.built_in is False


def test_what_is_not_enabled_is_an_unknown_tool_and_the_enabled_ones_are_named() -> None:
    (call,) = requested_calls(an_agent(look, built_in_tools=["ask_user"]), (a_call("durable_wait"),))

    assert call.settled == ("failed", "unknown tool durable_wait; available tools: look, ask_user")


class OtherRunner(StepwiseRunner):
    """A framework that has tools of its own, one of them by the name of ours."""

    async def run_model_step(self, agent: Any, context: AgentTurnContext) -> ModelOutcome:
        raise NotImplementedError

    async def execute_tool(self, agent: Any, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        raise NotImplementedError


def test_any_runner_may_offer_them_and_an_enabled_name_is_reserved_for_it_too() -> None:
    agent = an_agent(runner=OtherRunner(), built_in_tools=["ask_user"])

    reserved, own = requested_calls(agent, (a_call("ask_user", '{"question": "?"}'), a_call("durable_wait", "{}")))

    assert (reserved.built_in, reserved.effect) == (True, "read")
    assert (own.built_in, own.effect, own.settled) == (False, "unclassified", None)


# --- the agent ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"built_in_tools": ["ask_us"]},
            "'ask_us', which does not exist: there is ask_user, durable_wait, read_tool_output",
        ),
        ({"built_in_tools": ["ask_user", "ask_user"]}, "names the built-in tool 'ask_user' twice"),
        (
            {"built_in_tools": ["ask_user"], "tools": [function_tool(name="ask_user")(lambda: "")]},
            "^tool ask_user uses the name of an enabled built-in tool$",
        ),
        (
            {"built_in_tools": ["ask_user"], "tool_policies": {"ask_user": ToolPolicy()}},
            r"a policy for 'ask_user': that of a built-in tool is fixed",
        ),
        ({"max_wait": timedelta(milliseconds=1500)}, "max_wait of agent 'support' must be whole seconds"),
        ({"max_wait": timedelta(0)}, "max_wait of agent 'support' must be whole seconds"),
        ({"max_wait": timedelta(days=3654)}, "max_wait of agent 'support' must be whole seconds"),
        ({"question_deadline": timedelta(0)}, "question_deadline of agent 'support' must be longer than zero"),
        ({"question_deadline": timedelta(days=3654)}, "question_deadline of agent 'support' must be longer than zero"),
    ],
)
def test_a_wrong_definition_is_refused_before_any_model_is_asked(changes: dict[str, Any], complaint: str) -> None:
    tools = changes.get("tools", ())
    rest = {name: value for name, value in changes.items() if name != "tools"}

    with pytest.raises(ConfigurationError, match=complaint):
        an_agent(*tools, **rest)


def test_a_name_that_is_not_enabled_is_free() -> None:
    own = function_tool(name="ask_user", effect="read")(lambda: "asked by other means")

    (call,) = requested_calls(an_agent(own), (a_call("ask_user"),))

    assert (call.built_in, call.settled) == (False, None)


async def test_a_model_is_offered_its_agents_tools_and_then_the_built_in_ones_always_in_one_order() -> None:
    for names in (["ask_user", "durable_wait"], ["durable_wait", "ask_user"]):
        model = ScriptedModel(lambda _: "done")

        await StepwiseRunner().run_model_step(
            an_agent(look, model=model, built_in_tools=names), a_turn(history=(UserItem(text="hi"),))
        )

        (request,) = model.requests
        assert [tool.name for tool in request.tools] == ["look", "ask_user", "durable_wait"]
        assert request.tools[1].parameters == BUILT_IN_TOOLS["ask_user"].parameters
        assert request.tools[1].description == BUILT_IN_TOOLS["ask_user"].description


async def test_a_step_may_offer_fewer_of_them() -> None:
    model = ScriptedModel(lambda _: "done")
    agent = an_agent(
        look,
        model=model,
        built_in_tools=["ask_user", "durable_wait"],
        prepare_step=lambda _: StepChanges(active_tools=["durable_wait"]),
    )

    outcome = await StepwiseRunner().run_model_step(agent, a_turn(history=(UserItem(text="hi"),)))
    (call,) = requested_calls(agent, (a_call("ask_user", '{"question": "?"}'),), outcome.offered)

    assert [tool.name for tool in model.requests[0].tools] == ["durable_wait"]
    assert call.settled == ("failed", "tool ask_user is not available now; available tools: durable_wait")
