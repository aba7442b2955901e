"""Stop policies: who wins, what they see, and their names (spec MODEL-18)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure.agents.budget import ContextFill
from perdure.agents.step import StepContext, past_steps
from perdure.agents.stop_policies import StopPolicy, stop_after, token_budget, winner
from perdure.core.history import CallItem, HistoryItem, ModelItem, ToolResultItem, UserItem
from perdure.core.usage import NO_TOTALS, NO_USAGE, CallUsage
from perdure.errors import ConfigurationError
from tests.unit.agents.builders import an_agent


def a_call(call_id: str, name: str) -> CallItem:
    return CallItem(call_id=call_id, tool_name=name, arguments={})


def a_result(call_id: str, name: str, status: str = "succeeded") -> ToolResultItem:
    return ToolResultItem(call_id=call_id, tool_name=name, status=status, output="ok")


def a_step(*items: HistoryItem) -> StepContext:
    return StepContext(
        session_id="s-1",
        turn_id="turn-1",
        attempt=1,
        interaction_mode="chat",
        settings={},
        tenant="t",
        step_execution_id="model-1-0",
        history=items,
        steps=past_steps(items),
        context_fill=ContextFill(),
    )


LOOKED = (UserItem(text="hi"), ModelItem(text="let me see", calls=(a_call("c1", "look"),)), a_result("c1", "look"))


def test_steps_hold_what_the_model_said_its_calls_and_their_results() -> None:
    again = ModelItem(text="once more", reasoning="hm", calls=(a_call("c2", "look"), a_call("c3", "look")))

    first, second = past_steps((*LOOKED, again, a_result("c2", "look"), a_result("c3", "look", "failed")))

    assert (first.text, [call.call_id for call in first.calls]) == ("let me see", ["c1"])
    assert (second.text, second.reasoning) == ("once more", "hm")
    assert [(result.call_id, result.status) for result in second.results] == [("c2", "succeeded"), ("c3", "failed")]


async def test_the_first_policy_that_wants_to_wins_and_it_may_be_async() -> None:
    async def always(step: StepContext) -> bool:
        return True

    policies = [
        StopPolicy(name="never", when=lambda step: False),
        StopPolicy(name="first", when=always),
        StopPolicy(name="second", when=lambda step: True),
    ]

    won = await winner(policies, a_step(*LOOKED))

    assert won is policies[1]
    assert await winner(policies[:1], a_step(*LOOKED)) is None


async def test_no_policy_is_asked_before_the_first_step() -> None:
    asked: list[StepContext] = []

    def always(step: StepContext) -> bool:
        asked.append(step)
        return True

    policy = StopPolicy(name="always", when=always)

    assert await winner([policy], a_step(UserItem(text="hi"))) is None
    assert asked == []


async def test_the_policy_after_a_tool_waits_for_its_success_and_says_that_this_is_the_output() -> None:
    policy = stop_after("submit")
    asked = ModelItem(text="", calls=(a_call("c9", "submit"),))

    assert (policy.name, policy.tool_only) == ("after-submit", True)
    assert await winner([policy], a_step(*LOOKED)) is None
    assert await winner([policy], a_step(*LOOKED, asked, a_result("c9", "submit", "failed"))) is None
    assert await winner([policy], a_step(*LOOKED, asked, a_result("c9", "submit"))) is policy


@pytest.mark.parametrize(
    ("name", "complaint"), [("max-steps", "runtime's own cap"), ("a b", "must match"), ("", "must match")]
)
def test_a_name_that_is_reserved_or_none_is_refused(name: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        StopPolicy(name=name, when=lambda step: True)


def test_two_policies_of_one_name_are_refused() -> None:
    policies: Any = [stop_after("pay"), stop_after("pay")]

    with pytest.raises(ConfigurationError, match="two stop policies named 'after-pay'"):
        an_agent(stop_policies=policies)


@pytest.mark.parametrize(
    ("calls", "goes_on", "is_strict"),
    [
        ([CallUsage(input_tokens=60, output_tokens=39)], True, True),
        ([CallUsage(input_tokens=60, output_tokens=20), CallUsage(input_tokens=10, output_tokens=10)], False, False),
        ([NO_USAGE], True, False),
        ([CallUsage(input_tokens=99), CallUsage(output_tokens=0)], True, False),
        ([CallUsage(input_tokens=100), NO_USAGE], False, False),
    ],
)
async def test_f058_a_token_budget_counts_what_was_reported_and_says_what_follows_the_unknown(
    calls: list[CallUsage], goes_on: bool, is_strict: bool
) -> None:
    step = replace(a_step(*LOOKED), turn_usage=NO_TOTALS.plus(calls))

    assert (await winner([token_budget(100)], step) is None) == goes_on
    assert (await winner([token_budget(100, unknown="stop")], step) is None) == is_strict


def test_a_token_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        token_budget(0)
