"""Model settings: what they may be, how one set is laid over another, and what the chat wire calls them."""

import math
from typing import Any

import pytest

from perdure.models.chat_request import chat_settings
from perdure.models.settings import ModelSettings


def test_a_deployment_may_name_what_only_its_provider_knows() -> None:
    settings = ModelSettings.of({"temperature": 0.2, "top_p": 0.9, "provider_options": {"seed": 7}})

    assert settings == ModelSettings(temperature=0.2, provider_options={"top_p": 0.9, "seed": 7})


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"temprature": 1}, "'temprature' is no model setting: use temperature, max_output_tokens"),
        ({"temperature": "hot"}, "temperature must be a number"),
        ({"temperature": True}, "temperature must be a number"),
        ({"temperature": math.inf}, "temperature must be a number"),
        ({"temperature": -0.1}, "temperature must be a number"),
        ({"max_output_tokens": 0}, "max_output_tokens must be a whole number"),
        ({"max_output_tokens": 1.5}, "max_output_tokens must be a whole number"),
        ({"reasoning_effort": ""}, "reasoning_effort must be the name"),
        ({"reasoning_effort": "x" * 65}, "reasoning_effort must be the name"),
        ({"service_tier": "cheap"}, "service_tier must be one of fast, standard"),
        ({"service_tier": ["fast"]}, "service_tier must be one of fast, standard"),
        ({"provider_options": [1]}, "provider_options must be an object"),
    ],
)
def test_what_a_session_gives_is_checked_and_what_is_wrong_is_named(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ModelSettings().changed(values)


def test_what_a_session_gives_is_laid_over_the_agents_and_null_takes_a_setting_back() -> None:
    agents = ModelSettings(temperature=0.2, max_output_tokens=100, provider_options={"seed": 7, "top_p": 0.5})

    changed = agents.changed({"temperature": None, "reasoning_effort": "low", "provider_options": {"seed": 8}})

    assert changed == ModelSettings(
        max_output_tokens=100, reasoning_effort="low", provider_options={"seed": 8, "top_p": 0.5}
    )
    assert agents.changed({"provider_options": None}).provider_options == {}


def test_a_request_says_nothing_where_the_clients_own_settings_hold() -> None:
    clients = ModelSettings(temperature=0.2, reasoning_effort="low", provider_options={"seed": 7})

    merged = ModelSettings(temperature=0.0, provider_options={"user": "u"}).over(clients)

    assert merged == ModelSettings(temperature=0.0, reasoning_effort="low", provider_options={"seed": 7, "user": "u"})


FULL = ModelSettings(temperature=0.0, max_output_tokens=50, reasoning_effort="low", service_tier="fast")


@pytest.mark.parametrize(
    ("own", "limit_name", "wire"),
    [
        (True, None, {"max_completion_tokens": 50, "service_tier": "priority"}),
        (False, None, {"max_tokens": 50}),
        (False, "max_completion_tokens", {"max_completion_tokens": 50}),
    ],
    ids=["openai", "another-server", "another-server-told-otherwise"],
)
def test_the_wire_has_its_own_words_and_another_server_is_not_told_of_a_tier(
    own: bool, limit_name: str | None, wire: dict[str, Any]
) -> None:
    assert chat_settings(FULL, own=own, limit_name=limit_name) == {"temperature": 0.0, "reasoning_effort": "low"} | wire


def test_options_of_the_provider_win_on_the_wire_and_the_standard_tier_has_its_word() -> None:
    settings = ModelSettings(temperature=0.0, service_tier="standard", provider_options={"temperature": 1, "x": None})

    assert chat_settings(settings, own=True) == {"temperature": 1, "service_tier": "default", "x": None}
