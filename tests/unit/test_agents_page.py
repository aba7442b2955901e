"""`docs/concepts/agents.md` is right: its examples are one program that runs, and what it lists is there."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from perdure import AgentDefinition, ToolContext
from perdure.agents.prepare import StepChanges
from perdure.models import ModelRequest, ModelSettings, Reply, ScriptedModel, call, tool_results
from perdure.testing.fixtures import open_stage

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "concepts" / "agents.md").read_text(encoding="utf-8")


@pytest.fixture
def names() -> dict[str, Any]:
    """What the examples define, one after another."""
    defined: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(block, "agents.md", "exec"), defined)
    return defined


async def test_the_agents_of_the_page_do_what_it_says(names: dict[str, Any]) -> None:
    def script(request: ModelRequest) -> Reply:
        return Reply("done") if tool_results(request) else Reply(calls=(call("look_up", order="7"),))

    model = ScriptedModel(script)
    careful = dataclasses.replace(names["careful"], model=model, models={"deep": model})
    async with open_stage(careful) as stage:
        await stage.send("Where is order 7?")
        await stage.run_all()
        ended = (await stage.events())[-1]

    assert ended["payload"]["policy_name"] == "after-look_up"
    assert model.requests[0].instructions == "You help customers.\n\nBe brief."
    assert names["support"].model_settings == ModelSettings(temperature=0.2, max_output_tokens=4_000)
    assert [choice.reasoning_levels for choice in names["support"].model_choices] == [(), ("low", "medium", "high")]


async def test_the_tool_of_the_page_goes_on_where_it_was(names: dict[str, Any]) -> None:
    saved: list[str] = []

    async def save(text: str) -> bool:
        saved.append(text)
        return True

    context = ToolContext(
        tenant="t",
        session_id="s",
        turn_id="turn-1",
        tool_call_id="c",
        tool_name="n",
        attempt=2,
        idempotency_key="k",
        checkpoint="1",
        save_checkpoint=save,
    )

    assert await names["import_rows"](context) == "3 rows imported"
    assert saved == ["2", "3"]


def test_every_setting_and_every_change_of_the_page_exists() -> None:
    table = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    hooks = {
        "settings_resolver",
        "model_resolver",
        "prepare_step",
        "generate",
        "file_resolver",
        "store_file",
        "acceptance",
    }

    assert {field.name for field in dataclasses.fields(ModelSettings)} <= table
    assert {field.name for field in dataclasses.fields(StepChanges)} >= {"active_tools", "messages", "instructions"}
    assert hooks <= {field.name for field in dataclasses.fields(AgentDefinition)}
    assert not {hook for hook in hooks if hook not in PAGE}
