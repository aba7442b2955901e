"""Checkpoints of tools on the deployment (spec TOOL-11)."""

from __future__ import annotations

import asyncio

from perdure import ToolContext
from perdure.agents.tools import function_tool
from perdure.aws.leases import DynamoDBLeases
from perdure.aws.table import Table
from perdure.core.limits import LEASE_DURATION
from perdure.ports import SessionKey
from perdure.testing.lambda_harness import Crash, LambdaHarness
from tests.handlers.agents import an_agent, results, send, snapshot
from tests.unit.aws.builders import LostAnswers


def test_the_second_attempt_goes_on_where_the_function_of_the_first_died(harness: LambdaHarness) -> None:
    found: list[str | None] = []
    copied: list[int] = []

    @function_tool(effect="idempotent_write", requires_approval=False)
    async def copy_rows(context: ToolContext) -> str:
        """Copy rows."""
        found.append(context.checkpoint)
        for row in range(int(context.checkpoint or "0"), 6):
            copied.append(row)
            await asyncio.sleep(30)  # the lease is renewed meanwhile
            assert await context.save_checkpoint(str(row + 1))
            if context.attempt == 1 and row == 3:
                raise Crash
        return "6 rows"

    harness.agents = an_agent(copy_rows)
    send(harness, "Copy.")

    harness.settle()

    assert found == [None, "4"]
    assert copied == [0, 1, 2, 3, 4, 5]
    assert results(harness) == [("copy_rows", "succeeded")]


def test_a_function_whose_attempt_was_given_up_leaves_the_checkpoint_of_the_next_alone(harness: LambdaHarness) -> None:
    went_on: list[str] = []

    @function_tool(effect="idempotent_write", requires_approval=False)
    async def copy_rows(context: ToolContext) -> str:
        """Copy rows."""
        if context.attempt == 1:
            await context.save_checkpoint("1")
            leases = DynamoDBLeases(Table(harness.aws.clients.dynamodb, harness.aws.table), harness.clock)
            key = SessionKey(context.tenant, context.session_id)
            later = harness.clock.now() + LEASE_DURATION
            assert await leases.claim(key, context.tool_call_id, 2, "another", later)
            await leases.save_checkpoint(key, context.tool_call_id, 2, "another", "2")
            await context.save_checkpoint("stale")
            went_on.append("although it was given up")
        return str(context.checkpoint)

    harness.agents = an_agent(copy_rows)
    send(harness, "Copy.")

    harness.settle()

    assert went_on == []
    kept = [item["checkpoint"]["S"] for item in _items(harness) if "checkpoint" in item]
    assert kept == ["2"]


def test_a_checkpoint_whose_answer_was_lost_is_there_all_the_same(harness: LambdaHarness) -> None:
    kept: list[bool] = []

    @function_tool(effect="read")
    async def copy_rows(context: ToolContext) -> str:
        """Copy rows."""
        if context.attempt == 1:
            LostAnswers(harness.aws.clients.dynamodb, "UpdateItem", silently=True)
            kept.append(await context.save_checkpoint("1"))
            raise Crash
        return str(context.checkpoint)

    harness.agents = an_agent(copy_rows)
    send(harness, "Copy.")

    harness.settle()

    assert kept == [True]
    assert results(harness) == [("copy_rows", "succeeded")]
    assert "1" in [part["output"] for part in _outputs(harness)]


def _items(harness: LambdaHarness) -> list[dict]:
    return harness.aws.clients.dynamodb.scan(TableName=harness.aws.table)["Items"]


def _outputs(harness: LambdaHarness) -> list[dict]:
    return [
        part for message in snapshot(harness)["messages"] for part in message["parts"] if part["type"] == "tool_result"
    ]
