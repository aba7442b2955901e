"""Outputs that are larger than what a prompt shows of them."""

from __future__ import annotations

from perdure import function_tool
from perdure.core.outputs import output_hash
from perdure.models import ModelRequest, Reply, ScriptedModel, call
from perdure.models.scripted import tool_results
from perdure.testing.lambda_harness import LambdaHarness
from tests.field.conftest import Deploy
from tests.handlers.agents import send, snapshot
from tests.unit.steps.builders import an_agent

ITEMS = "".join(f"{n:05d} {'x' * 113}\n" for n in range(1_000))  # 120 KB


@function_tool(effect="read")
def list_items() -> str:
    """List all items."""
    return ITEMS


def test_f077_a_model_sees_that_an_output_was_cut_pages_through_it_and_hears_that_it_repeats_itself(
    deploy: Deploy,
) -> None:
    def reply(request: ModelRequest) -> str | Reply:
        results = tool_results(request)
        if len(results) < 2:
            return Reply(calls=(call("list_items"),))
        if len(results) == 2:
            return Reply(calls=(call("read_tool_output", tool_call_id="call-2-0", offset=12_000),))
        return Reply("I have read it.")

    model = ScriptedModel(reply)
    harness = deploy(an_agent(list_items, model=model, built_in_tools=["read_tool_output"]))

    send(harness, "List them.")
    harness.settle()

    first, second, piece = (item.output for item in tool_results(model.requests[-1]))
    assert first.startswith(ITEMS[:12_000])
    assert first.endswith(ITEMS[-4_000:])
    assert f"All of it has 120000 characters (120000 bytes in UTF-8, SHA-256 {output_hash(ITEMS)})" in first
    assert 'Read the rest with read_tool_output: tool_call_id "call-2-0", offset 12000.' in first
    assert "You have made this call before in this turn, with the same arguments (call-2-0)" in second
    assert ITEMS[12_000:27_000] in piece
    assert [output for output in _stored(harness) if len(output) > 20_000] == [ITEMS, ITEMS]


def _stored(harness: LambdaHarness) -> list[str]:
    return [
        part["output"]
        for message in snapshot(harness)["messages"]
        for part in message["parts"]
        if part["type"] == "tool_result"
    ]
