"""`docs/concepts/tools.md` is right: its example runs, and it lists all that there is of built-in tools and records."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from perdure import BUILT_IN_TOOLS
from perdure.core.head import Call
from perdure.core.open_calls import Task, Wait
from perdure.models import ModelRequest, Reply, ScriptedModel, call, tool_results
from perdure.testing.fixtures import open_stage

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "concepts" / "tools.md").read_text(encoding="utf-8")


async def test_the_agent_of_the_page_reads_on_where_its_prompt_was_cut() -> None:
    defined: dict[str, Any] = {}
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(example, "tools.md", "exec"), defined)

    def script(request: ModelRequest) -> str | Reply:
        results = tool_results(request)
        if len(results) == 2:
            return "done"
        if results:
            return Reply(calls=(call("read_tool_output", tool_call_id="call-2-0", offset=3_000),))
        return Reply(calls=(call("list_items"),))

    model = ScriptedModel(script)
    async with open_stage(dataclasses.replace(defined["keeper"], model=model)) as stage:
        await stage.send("list them")
        await stage.run_all()

    listed, read = (item.output for item in tool_results(model.requests[-1]))
    assert 'tool_call_id "call-2-0", offset 3000' in listed
    assert len(read) <= 4_000
    assert "\nitem 400\n" in read


def test_every_built_in_tool_and_each_of_its_parameters_is_on_the_page() -> None:
    for name, tool in BUILT_IN_TOOLS.items():
        (row,) = re.findall(rf"^\| `{name}` \|.*$", PAGE, re.MULTILINE)
        for parameter in tool.parameters["properties"]:
            optional = "" if parameter in tool.parameters["required"] else "?"
            assert f"`{parameter}{optional}`" in row


def test_every_field_of_a_calls_record_is_on_the_page() -> None:
    table = PAGE.partition("## What is on record of a call")[2]

    for record in (Call, Wait, Task):
        for field in dataclasses.fields(record):
            assert f"`{field.name}`" in table, f"{record.__name__}.{field.name}"
