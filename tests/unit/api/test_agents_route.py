"""What a picker is told of the agents and their models (spec MODEL-13)."""

from __future__ import annotations

from pathlib import Path

from perdure import AgentDefinition
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.models import OpenAIChatModel, ScriptedModel
from tests.unit.api.builders import Api


async def test_a_picker_is_told_which_models_a_session_may_be_set_to_and_nothing_of_their_addresses(
    tmp_path: Path,
) -> None:
    quick = ScriptedModel(lambda _: "hi", model="quick-1")
    deep = OpenAIChatModel(
        "gpt-x", base_url="http://inner.test/v1", api_key="sk-1", reasoning_levels=("low", "high"), context_window=8192
    )
    agents = [AgentDefinition(name="support", models={"quick": quick, "deep": deep})]
    agents.append(AgentDefinition(name="plain", model=quick))
    async with EmbeddedRuntime(tmp_path / "sessions.db", agents, grace_seconds=0) as runtime:
        status, reply = await Api(runtime.service).get("/v1/agents")

    assert status == 200
    assert reply == {
        "agents": [
            {
                "name": "support",
                "models": [
                    {"name": "quick", "model": "quick-1", "reasoning_levels": []},
                    {
                        "name": "deep",
                        "model": "gpt-x",
                        "reasoning_levels": ["low", "high"],
                        "context_window": 8192,
                    },
                ],
            },
            {"name": "plain", "models": []},
        ]
    }
