"""The loop's own say in a model step: settings, stop policies, the hook, and what may end a turn."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agents.acceptance import Answer
from perdure.agents.definition import AgentDefinition, InstructionContext
from perdure.agents.prepare import StepChanges, StepDraft
from perdure.agents.step import StepContext
from perdure.agents.stop_policies import StopPolicy, stop_after
from perdure.agents.tools import function_tool
from perdure.core.usage import CallUsage
from perdure.errors import ContextOverflowError
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.testing.fixtures import open_stage
from tests.unit.steps.builders import an_agent, asking_for


@function_tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


async def ended(agent: AgentDefinition) -> dict[str, Any]:
    """Run one turn; returns its last event."""
    async with open_stage(agent) as stage:
        await stage.send("hi")
        await stage.run_all()
        return (await stage.events())[-1]


def failing_with(event: dict[str, Any]) -> tuple[str, str]:
    assert event["type"] == "turn_failed", event
    error = event["payload"]["error"]
    return error["code"], error["message"]


# --- settings -------------------------------------------------------------------------------------------------------


async def test_an_unknown_model_fails_the_turn_with_a_clear_word_and_no_provider_is_called() -> None:
    model = ScriptedModel(lambda _: "never")
    agent = an_agent(model=model, models={"deep": model}, settings_resolver=lambda _: {"model": "gpt-9"})
    async with open_stage(agent) as stage:
        await stage.send("hi")
        await stage.run_all()

        error = (await stage.snapshot())["state"]["last_turn_error"]
        assert error == {
            "code": "configuration",
            "message": "no model of agent 'support' is named 'gpt-9': use one of deep",
        }
        assert model.requests == ()
        assert (await stage.head()).usage.model_calls == 0


async def test_what_a_settings_resolver_says_of_its_failure_is_the_error_of_the_turn() -> None:
    def resolver(context: InstructionContext) -> dict[str, Any]:
        raise LookupError("customer 7 has no plan")

    event = await ended(an_agent(settings_resolver=resolver))

    assert failing_with(event) == ("configuration", "customer 7 has no plan")


async def test_resolved_settings_reach_instructions_the_hook_and_the_stop_policies() -> None:
    seen: dict[str, Any] = {}

    def instructions(context: InstructionContext) -> str:
        seen["instructions"] = context.settings
        return "Be kind."

    def hook(draft: StepDraft) -> StepChanges | None:
        seen["hook"] = draft.settings
        return None

    def policy(step: StepContext) -> bool:
        seen["policy"] = step.settings
        return False

    agent = an_agent(
        look,
        model=asking_for("look"),
        instructions=instructions,
        prepare_step=hook,
        stop_policies=[StopPolicy(name="never", when=policy)],
        settings_resolver=lambda _: {"plan": "gold"},
    )
    await ended(agent)

    assert seen == {place: {"plan": "gold"} for place in ("instructions", "hook", "policy")}


# --- stop policies --------------------------------------------------------------------------------------------------


async def test_a_policy_ends_the_turn_behind_the_tools_before_another_call_and_its_name_is_published() -> None:
    model = asking_for("look")
    event = await ended(an_agent(look, model=model, stop_policies=[stop_after("look")]))

    assert event["type"] == "turn_completed"
    assert (event["payload"]["reason"], event["payload"]["policy_name"]) == ("policy_stop", "after-look")
    assert len(model.requests) == 1


async def test_a_turn_that_a_policy_ended_is_whole_for_the_next_one() -> None:
    model = asking_for("look")
    async with open_stage(an_agent(look, model=model, stop_policies=[stop_after("look")])) as stage:
        await stage.send("first")
        await stage.run_all()
        usage = (await stage.head()).usage.model_calls
        await stage.send("second")
        await stage.run_all()

        assert usage == 1
        assert [result.output for result in model.requests[-1].messages if hasattr(result, "output")] == ["seen"]
        started = [e for e in await stage.events() if e["type"] == "model_started"]
        assert len(started) == len(model.requests)


async def test_a_policy_sees_the_steps_of_its_own_turn_only() -> None:
    counts: list[int] = []

    def counting(step: StepContext) -> bool:
        counts.append(len(step.steps))
        return False

    policy = StopPolicy(name="count", when=counting)
    async with open_stage(an_agent(look, model=asking_for("look"), stop_policies=[policy])) as stage:
        for text in ("first", "second"):
            await stage.send(text)
            await stage.run_all()

    assert counts == [1, 1]


# --- the hook -------------------------------------------------------------------------------------------------------


async def test_a_hook_that_refuses_a_prompt_fails_the_turn_as_a_context_overflow() -> None:
    def hook(draft: StepDraft) -> StepChanges | None:
        raise ContextOverflowError("this conversation is too long: start a new one")

    event = await ended(an_agent(prepare_step=hook))

    assert failing_with(event) == ("context_overflow", "this conversation is too long: start a new one")


async def test_an_error_that_only_speaks_of_the_context_is_no_context_overflow() -> None:
    def hook(draft: StepDraft) -> StepChanges | None:
        raise ValueError("context_overflow: maximum context length exceeded")

    event = await ended(an_agent(prepare_step=hook))

    assert failing_with(event)[0] == "internal"


async def test_the_hook_is_told_what_the_last_completed_step_read() -> None:
    fills: list[int | None] = []

    def hook(draft: StepDraft) -> StepChanges | None:
        fills.append(draft.context_fill.prompt.value)
        return None

    def script(request: ModelRequest) -> Reply:
        if tool_results(request):
            return Reply("done", usage=CallUsage(input_tokens=150))
        return Reply(calls=(call("look"),), usage=CallUsage(input_tokens=100))

    async with open_stage(an_agent(look, model=ScriptedModel(script), prepare_step=hook)) as stage:
        for text in ("first", "second"):
            await stage.send(text)
            await stage.run_all()

    assert fills == [None, 100, 150, 100]


# --- what may end a turn --------------------------------------------------------------------------------------------


async def test_an_empty_answer_ends_the_turn_unless_the_agent_requires_output() -> None:
    empty = ScriptedModel(lambda _: Reply("", reasoning="hm"))

    allowed = await ended(an_agent(model=empty))
    refused = await ended(an_agent(model=empty, acceptance="require_output"))

    assert allowed["type"] == "turn_completed"
    assert failing_with(refused)[0] == "not_accepted"


async def test_a_refused_answer_stays_as_a_marked_message_and_is_paid_for_once() -> None:
    model = ScriptedModel(lambda _: "sure!")
    agent = an_agent(model=model, acceptance=lambda answer: answer.text.startswith("{") or "the answer is no JSON")
    async with open_stage(agent) as stage:
        await stage.send("hi")
        await stage.run_all()

        _, message = (await stage.snapshot())["messages"]
        assert (message["status"], message["parts"]) == ("not_accepted", [{"type": "text", "text": "sure!"}])
        assert (await stage.snapshot())["state"]["last_turn_error"]["message"] == "the answer is no JSON"
        assert len(model.requests) == 1


async def test_a_check_is_asked_about_the_end_of_a_turn_only() -> None:
    seen: list[Answer] = []
    agent = an_agent(look, model=asking_for("look"), acceptance=lambda answer: seen.append(answer))
    event = await ended(agent)

    assert event["type"] == "turn_completed"
    assert [answer.text for answer in seen] == ["done"]


@pytest.mark.parametrize(
    ("policy", "text", "accepted"),
    [
        (stop_after("look"), "", True),
        (StopPolicy(name="enough", when=lambda step: True), "", False),
        (StopPolicy(name="enough", when=lambda step: True), "I looked.", True),
    ],
    ids=["tool-only", "nothing-said", "said-beside-the-call"],
)
async def test_a_policy_stop_is_output_if_it_says_so_or_something_was_said(
    policy: StopPolicy, text: str, accepted: bool
) -> None:
    model = ScriptedModel(lambda _: Reply(text, calls=(call("look"),)))
    event = await ended(an_agent(look, model=model, stop_policies=[policy], acceptance="require_output"))

    assert event["type"] == ("turn_completed" if accepted else "turn_failed")


async def test_a_turn_that_ends_at_its_cap_without_a_word_is_not_accepted_either() -> None:
    model = ScriptedModel(lambda _: Reply(calls=(call("look"),)))
    event = await ended(an_agent(look, model=model, max_model_calls=1, acceptance="require_output"))

    assert failing_with(event)[0] == "not_accepted"
