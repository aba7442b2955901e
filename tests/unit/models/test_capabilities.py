"""What clients tell of themselves beyond the protocol."""

import pytest

from perdure.models import OpenAIChatModel, ScriptedModel
from perdure.models.capabilities import context_window, credential_version, reasoning_levels


def test_another_key_is_another_credential_and_the_same_key_the_same() -> None:
    first, again, other = (OpenAIChatModel("m", api_key=key) for key in ("sk-one", " sk-one ", "sk-two"))

    assert credential_version(first) == credential_version(again) != credential_version(other)


def test_a_key_that_is_exchanged_in_the_environment_shows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = OpenAIChatModel("m")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-old")
    before = credential_version(model)

    monkeypatch.setenv("OPENAI_API_KEY", "sk-new")

    assert None not in (before, credential_version(model))
    assert credential_version(model) != before


def test_the_version_of_a_credential_gives_no_part_of_the_key_away() -> None:
    key = "sk-abcdef0123456789"

    version = credential_version(OpenAIChatModel("m", api_key=key)) or ""

    assert len(version) == 16
    assert not [key[at : at + 4] for at in range(len(key) - 3) if key[at : at + 4] in version]


def test_without_a_key_and_with_a_client_that_does_not_tell_there_is_no_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    assert credential_version(OpenAIChatModel("m")) is None
    assert credential_version(ScriptedModel(lambda _: "hi")) is None


def test_a_client_tells_its_reasoning_levels_and_its_window_only_if_it_was_told() -> None:
    told = OpenAIChatModel("m", reasoning_levels=["low", "high"], context_window=8192)

    assert (reasoning_levels(told), context_window(told)) == (("low", "high"), 8192)
    assert (reasoning_levels(OpenAIChatModel("m")), context_window(ScriptedModel(lambda _: "hi"))) == ((), None)
