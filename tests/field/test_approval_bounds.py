"""Approvals that a rule gives, which end all the same (field case F058)."""

from __future__ import annotations

from typing import Literal

import pytest

from perdure import function_tool, token_budget
from perdure.agents.tools import FunctionTool
from perdure.core.usage import CallUsage
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.steps.builders import an_agent, failing

EveryThird = Literal["approved", "ask"]


def a_tool(steps: list[int], every_third: EveryThird) -> FunctionTool:
    """Return a write that a rule approves, or whose every third call asks a person."""

    @function_tool(
        effect="non_idempotent_write",
        requires_approval=lambda arguments: every_third if arguments["n"] % 3 == 0 else "approved",
    )
    async def step(n: int) -> str:
        steps.append(n)
        return "ok"

    return step


async def run_and_approve(stage: Stage) -> None:
    """Have everything run, and whatever asks a person approved."""
    await stage.run_all()
    while pending := (await stage.snapshot())["pending_interrupts"]:
        await stage.approve(pending[0]["interrupt_id"])
        await stage.run_all()


@pytest.mark.parametrize("every_third", ["approved", "ask"])
async def test_f058_what_a_rule_approves_is_bound_by_the_turns_cap_across_all_approvals(
    every_third: EveryThird,
) -> None:
    steps: list[int] = []
    model = ScriptedModel(lambda request: Reply(calls=(call("step", n=len(tool_results(request)) + 1),)))
    async with open_stage(an_agent(a_tool(steps, every_third), model=model, max_model_calls=10)) as stage:
        await stage.send("Go on for ever.")

        await run_and_approve(stage)

        last = (await stage.events())[-1]
        assert steps == list(range(1, 11))
        assert len(model.requests) == 11
        assert model.requests[-1].tools == ()
        assert (last["type"], last["payload"]["reason"]) == ("turn_completed", "model_call_limit")


@pytest.mark.parametrize("every_third", ["approved", "ask"])
async def test_f058_what_a_rule_approves_is_bound_by_the_turns_token_budget_across_approvals_and_failed_calls(
    every_third: EveryThird,
) -> None:
    steps: list[int] = []
    asked: list[ModelRequest] = []

    def go_on(request: ModelRequest) -> Reply:
        asked.append(request)
        if len(asked) == 4:
            raise failing("rate_limited", status=429, retry_after_seconds=40)
        used = CallUsage(input_tokens=3800, output_tokens=200)
        return Reply(calls=(call("step", n=len(tool_results(request)) + 1),), usage=used)

    policies = [token_budget(20_000)]
    agent = an_agent(a_tool(steps, every_third), model=ScriptedModel(go_on), stop_policies=policies)
    async with open_stage(agent) as stage:
        await stage.send("Go on for ever.")

        await run_and_approve(stage)

        last = (await stage.events())[-1]
        assert steps == [1, 2, 3, 4, 5]
        assert len(asked) == 6, "five answers of 4,000 tokens, and a call that failed and reported none"
        assert last["type"] == "turn_completed"
        assert (last["payload"]["reason"], last["payload"]["policy_name"]) == ("policy_stop", "token-budget")
        assert last["payload"]["usage"]["input_tokens"] == {"value": 19_000, "provenance": "computed", "partial": True}
        assert (await stage.snapshot())["state"]["status"] == "waiting_for_user_message"
