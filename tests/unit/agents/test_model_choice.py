"""Which model answers a step, with which settings (spec MODEL-13, MODEL-14, U-9)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import AgentDefinition
from perdure.agents.settings import ModelChoice, effective_settings
from perdure.agents.step import InstructionContext, StepContext
from perdure.agents.stepwise import StepwiseRunner
from perdure.core.history import UserItem
from perdure.errors import ConfigurationError, SettingsError
from perdure.models import ModelSettings, OpenAIChatModel, ScriptedModel
from tests.unit.agents.builders import a_turn

RUNNER = StepwiseRunner()
HI = (UserItem(text="hi"),)


def scripted(name: str) -> ScriptedModel:
    return ScriptedModel(lambda _: f"from {name}", model=name, provider=name)


def an_agent(**changes: Any) -> AgentDefinition:
    models = {"quick": scripted("quick"), "deep": scripted("deep")}
    given: dict[str, Any] = {"name": "support", "model": scripted("own"), "models": models}
    return AgentDefinition(**(given | changes))


async def answer_of(agent: AgentDefinition, settings: dict[str, Any]) -> str:
    return (await RUNNER.run_model_step(agent, a_turn(history=HI, settings=settings))).text


def context(settings: dict[str, Any]) -> InstructionContext:
    return InstructionContext(session_id="s-1", turn_id="turn-1", attempt=1, interaction_mode="chat", settings=settings)


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        ({}, "from own"),
        ({"model": None}, "from own"),
        ({"model": "deep"}, "from deep"),
        ({"model": "quick"}, "from quick"),
    ],
)
async def test_the_setting_names_one_of_the_models_that_were_built(settings: dict[str, Any], answer: str) -> None:
    assert await answer_of(an_agent(), settings) == answer


@pytest.mark.parametrize(
    ("changes", "settings", "complaint"),
    [
        ({}, {"model": "gpt-9"}, "no model of agent 'support' is named 'gpt-9': use one of quick, deep"),
        ({}, {"model": 7}, "the setting 'model' must be the name of a model: use one of quick, deep"),
        ({"models": {}}, {"model": "deep"}, "named 'deep': this agent has no models to choose from"),
        ({}, {"model_settings": [1]}, "the setting 'model_settings' must be an object"),
        ({}, {"model_settings": {"temprature": 1}}, "the setting 'model_settings': 'temprature' is no model setting"),
        ({"model_resolver": lambda _: "gpt-9"}, {}, "no model of agent 'support' is named 'gpt-9'"),
    ],
)
async def test_what_a_session_can_not_be_set_to_fails_before_any_provider_is_called(
    changes: dict[str, Any], settings: dict[str, Any], complaint: str
) -> None:
    agent = an_agent(**changes)

    with pytest.raises(SettingsError, match=complaint):
        await answer_of(agent, settings)
    assert not [request for client in (agent.model, *agent.models.values()) for request in client.requests]  # type: ignore[attr-defined]


async def test_a_resolver_chooses_from_settings_and_what_happened_so_far() -> None:
    seen: list[StepContext] = []

    async def resolver(step: StepContext) -> str | None:
        seen.append(step)
        return "deep" if step.settings.get("careful") else None

    agent = an_agent(model_resolver=resolver)

    assert await answer_of(agent, {"careful": True, "model": "quick"}) == "from deep"
    assert await answer_of(agent, {"model": "quick"}) == "from own"
    assert (seen[0].session_id, seen[0].history, seen[0].steps) == ("s-1", HI, ())


def test_the_first_of_the_models_is_the_agents_own_when_none_is_named() -> None:
    agent = AgentDefinition(name="support", models={"deep": scripted("deep"), "quick": scripted("quick")})

    assert agent.model.model == "deep"
    with pytest.raises(ConfigurationError, match="agent 'support' has no model"):
        AgentDefinition(name="support")


async def test_the_settings_of_a_session_lie_over_those_of_the_agent() -> None:
    model = scripted("own")
    agent = an_agent(model=model, model_settings={"temperature": 0.2, "max_output_tokens": 100})

    await answer_of(agent, {"model_settings": {"temperature": None, "reasoning_effort": "low"}})

    assert model.requests[0].settings == ModelSettings(max_output_tokens=100, reasoning_effort="low")


async def test_a_level_that_the_model_does_not_have_is_refused_and_those_it_has_are_named() -> None:
    model = OpenAIChatModel("gpt-x", reasoning_levels=("low", "high"))

    with pytest.raises(SettingsError, match="model 'gpt-x' has no reasoning level 'max': use low, high"):
        await answer_of(an_agent(model=model), {"model_settings": {"reasoning_effort": "max"}})


def test_a_picker_is_told_the_models_and_their_levels() -> None:
    deep = OpenAIChatModel("gpt-x", base_url="http://x.test/v1", reasoning_levels=("low", "high"), context_window=8192)

    choices = an_agent(models={"quick": scripted("quick"), "deep": deep}).model_choices

    assert choices == (
        ModelChoice(name="quick", model="quick", provider="quick"),
        ModelChoice(
            name="deep",
            model="gpt-x",
            provider="openai-chat:x.test",
            reasoning_levels=("low", "high"),
            context_window=8192,
        ),
    )


async def test_a_settings_resolver_makes_what_everything_else_sees() -> None:
    async def resolver(context: InstructionContext) -> dict[str, Any]:
        return context.settings | {"model": "deep"}

    assert await effective_settings(an_agent(settings_resolver=resolver), context({"a": 1})) == {
        "a": 1,
        "model": "deep",
    }
    assert await effective_settings(an_agent(), context({"a": 1})) == {"a": 1}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (LookupError("customer 7 has no plan"), "customer 7 has no plan"),
        (ValueError(), "could not be resolved: ValueError"),
    ],
)
async def test_the_text_of_a_settings_resolver_that_fails_is_what_the_session_is_told(
    error: Exception, text: str
) -> None:
    def resolver(context: InstructionContext) -> dict[str, Any]:
        raise error

    with pytest.raises(SettingsError, match=text):
        await effective_settings(an_agent(settings_resolver=resolver), context({}))


def test_wrong_model_settings_of_an_agent_are_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="model_settings of agent 'support': temperature must be"):
        an_agent(model_settings={"temperature": "hot"})
