"""The hook before each provider call: what it sees, what it may change, and what not (spec MODEL-19, MODEL-21)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import AgentDefinition, function_tool
from perdure.agents.budget import NOTHING, UNAVAILABLE, Figure
from perdure.agents.calls import requested_calls
from perdure.agents.prepare import StepChanges, StepDraft
from perdure.agents.prompt import PromptSection
from perdure.agents.runner import Generation
from perdure.agents.stepwise import StepwiseRunner
from perdure.core.entries import FileRef
from perdure.core.history import CallItem, HistoryItem, ModelItem, ToolResultItem, UserItem
from perdure.errors import ConfigurationError, ContextOverflowError, SettingsError
from perdure.models import ModelRequest, OpenAIChatModel, Reply, ScriptedModel, call
from perdure.testing.providers import FaultProvider, answer
from tests.unit.agents.builders import Shown, a_call, a_turn

RUNNER = StepwiseRunner()
HI = UserItem(text="hi")
CALL = CallItem(call_id="c1", tool_name="look", arguments={})
RESULT = ToolResultItem(call_id="c1", tool_name="look", status="succeeded", output="seen")
LOOKED = (HI, ModelItem(text="let me see", calls=(CALL,)), RESULT)


@function_tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


@function_tool(effect="non_idempotent_write")
def pay() -> str:
    """Pay."""
    return "paid"


class Asked:
    """An agent with a hook: keeps the drafts it was shown, and gives the changes it was told to."""

    def __init__(self, changes: StepChanges | None = None, **fields: Any) -> None:
        self.drafts: list[StepDraft] = []
        self.model = ScriptedModel(lambda _: "done")
        self.changes = changes
        given: dict[str, Any] = {"model": self.model, "tools": (look, pay), "instructions": "Be kind."}
        self.agent = AgentDefinition(**{"name": "support", "prepare_step": self.hook, **given, **fields})

    def hook(self, draft: StepDraft) -> StepChanges | None:
        self.drafts.append(draft)
        return self.changes

    async def step(self, *items: HistoryItem, **changes: Any) -> ModelRequest:
        await RUNNER.run_model_step(self.agent, a_turn(history=items or (HI,), **changes))
        return self.model.requests[-1]


async def test_the_hook_sees_the_step_as_it_would_be_made_and_the_run_so_far() -> None:
    asked = Asked(model_settings={"max_output_tokens": 100})

    await asked.step(UserItem(text="earlier"), ModelItem(text="before"), *LOOKED, turn_start=2, last_prompt_tokens=77)

    (draft,) = asked.drafts
    assert [step.text for step in draft.steps] == ["let me see"]
    assert [tool.name for tool in draft.tools] == ["look", "pay"]
    assert draft.instructions == (PromptSection(name="instructions", text="Be kind.", source="agent"),)
    assert (draft.model_name, draft.model, draft.model_settings.max_output_tokens) == (None, "scripted", 100)
    assert draft.context_fill.prompt == Figure(77, "reported")
    assert draft.context_fill.window == UNAVAILABLE


async def test_the_fill_is_unavailable_before_the_first_step_and_stands_beside_the_declared_window() -> None:
    async with FaultProvider([answer("ok")]) as provider:
        model = OpenAIChatModel("stub-1", base_url=provider.base_url, context_window=8192)
        asked = Asked(model=model)
        await RUNNER.run_model_step(asked.agent, a_turn(history=(HI,)))
        await model.aclose()

    fill = asked.drafts[0].context_fill
    assert (fill.prompt, fill.window) == (UNAVAILABLE, Figure(8192, "declared"))
    assert asked.drafts[0].budget().window == Figure(8192, "declared")


async def test_a_hook_that_changes_nothing_changes_nothing() -> None:
    with_hook, without = Asked(), Asked(prepare_step=None)

    assert await with_hook.step(*LOOKED) == await without.step(*LOOKED)


async def test_the_hook_may_change_tools_instructions_messages_and_the_model() -> None:
    other = ScriptedModel(lambda _: "from the other")
    sections = [PromptSection(name="role", text="Be brief.", source="hook")]
    changes = StepChanges(active_tools=["look"], model="other", instructions=sections, messages=[HI])
    asked = Asked(changes, models={"other": other})

    outcome = await RUNNER.run_model_step(asked.agent, a_turn(history=LOOKED))

    (request,) = other.requests
    assert outcome.text == "from the other"
    assert (request.instructions, request.messages) == ("Be brief.", (HI,))
    assert [tool.name for tool in request.tools] == ["look"]
    assert asked.model.requests == ()


async def test_a_call_of_a_tool_that_was_not_offered_never_runs_and_keeps_its_policy() -> None:
    asked = Asked(StepChanges(active_tools=["look"]))
    asked.agent = Asked(asked.changes, model=ScriptedModel(lambda _: Reply(calls=(call("pay"), call("look"))))).agent
    outcome = await RUNNER.run_model_step(asked.agent, a_turn(history=(HI,)))

    paid, looked = requested_calls(asked.agent, outcome.calls, outcome.offered)

    assert paid.settled == ("failed", "tool pay is not available now; available tools: look")
    assert (paid.effect, paid.requires_approval) == ("non_idempotent_write", False)
    assert (looked.settled, looked.effect) == (None, "read")
    assert requested_calls(asked.agent, [a_call("pay")])[0].settled is None


async def test_a_cut_answer_is_told_of_behind_the_messages_of_the_hook() -> None:
    request = await Asked(StepChanges(messages=[HI])).step(*LOOKED, retried_partial="Half")

    assert request.messages[0] == HI
    assert "[turn_retried]" in request.messages[1].text  # type: ignore[union-attr]


async def test_no_tool_comes_back_in_a_step_that_has_to_answer() -> None:
    request = await Asked(StepChanges(active_tools=["look"])).step(offer_tools=False)

    assert request.tools == ()


@pytest.mark.parametrize(
    ("changes", "error", "complaint"),
    [
        (StepChanges(active_tools=["look", "hack"]), ConfigurationError, "names the tool 'hack', which is none"),
        (StepChanges(model="other"), SettingsError, "no model of agent 'support' is named 'other'"),
        (StepChanges(messages=[]), ConfigurationError, "gave no messages at all"),
        (StepChanges(messages=[HI, LOOKED[1]]), ConfigurationError, "a call has no result directly behind it"),
        (StepChanges(messages=[HI, LOOKED[1], HI, RESULT]), ConfigurationError, "no result directly behind"),
        (StepChanges(messages=[HI, RESULT]), ConfigurationError, "no result directly behind"),
        (StepChanges(messages=[*LOOKED, RESULT]), ConfigurationError, "no result directly behind"),
    ],
    ids=["tool", "model", "nothing", "no-result", "result-too-late", "result-alone", "two-results"],
)
async def test_what_a_hook_may_not_give_is_refused_before_any_provider_is_called(
    changes: StepChanges, error: type[Exception], complaint: str
) -> None:
    asked = Asked(changes)

    with pytest.raises(error, match=complaint):
        await asked.step(*LOOKED)
    assert asked.model.requests == ()


async def test_a_hook_may_refuse_a_prompt_that_its_budget_calls_oversized() -> None:
    seen = []

    async def hook(draft: StepDraft) -> StepChanges | None:
        seen.append(draft.fits())
        if draft.fits() == "oversized":
            raise ContextOverflowError("the instructions alone are longer than the model takes")
        return None

    small = OpenAIChatModel("small", context_window=4)
    asked = Asked(model=small, model_settings={"max_output_tokens": 3}, prepare_step=hook)

    with pytest.raises(ContextOverflowError, match="the instructions alone"):
        await asked.step()
    assert seen == ["oversized"]


async def test_a_budget_without_a_window_or_a_reserved_output_decides_nothing() -> None:
    asked = Asked()
    await asked.step()

    assert asked.drafts[0].fits() == "unavailable"


async def test_with_files_the_budget_has_no_figure_for_attachments() -> None:
    asked = Asked()
    await asked.step(UserItem(text="look", files=(FileRef(reference="r"),)))
    await asked.step()

    assert [draft.budget().attachments for draft in asked.drafts] == [UNAVAILABLE, NOTHING]


async def test_an_application_may_make_the_provider_call_itself_and_the_loop_stays() -> None:
    # MODEL-28
    seen: list[Generation] = []

    async def generate(generation: Generation) -> Any:
        seen.append(generation)
        async for item in ScriptedModel(lambda request: Reply(text="mine", calls=(call("look"),))).stream(
            generation.request
        ):
            yield item

    shown = Shown()
    asked = Asked(generate=generate)

    outcome = await RUNNER.run_model_step(asked.agent, a_turn(shown, history=(HI,)))

    assert (outcome.ending, outcome.text, shown.text) == ("tool_calls", "mine", "mine")
    assert [called.tool_name for called in outcome.calls] == ["look"]
    assert (seen[0].client, seen[0].request.messages) == (asked.model, (HI,))
    assert asked.model.requests == ()
