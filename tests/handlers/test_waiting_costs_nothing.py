"""A session that waits for a month costs its storage and one schedule, and wakes on the second (promise 5)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.agents.tools import function_tool
from perdure.core.history import ToolResultItem
from perdure.models import ScriptedModel
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, call
from perdure.testing.lambda_harness import LambdaHarness
from tests.handlers.agents import an_agent, send, snapshot

MONTH = timedelta(days=30)
SECOND = timedelta(seconds=1)
EMPTY_SWEEP = {"dynamodb.Query": 16}
"""One query for each partition of the due index."""


@function_tool(effect="non_idempotent_write")
def pay() -> str:
    """Pay."""
    return "paid"


def waits_for_approval() -> AgentRegistry:
    return an_agent(pay, deadline=MONTH)


def waits_durably() -> AgentRegistry:
    def script(request: ModelRequest) -> Reply:
        if isinstance(request.messages[-1], ToolResultItem):
            return Reply(text="done")
        return Reply(calls=(call("durable_wait", duration_seconds=int(MONTH.total_seconds()), reason="for May"),))

    agent = AgentDefinition(name="test", model=ScriptedModel(script), built_in_tools=["durable_wait"])
    return AgentRegistry([agent])


WAITS: dict[str, tuple[Callable[[], AgentRegistry], tuple[str, Any]]] = {
    "approval": (waits_for_approval, ("rejected", "approval deadline passed")),
    "durable_wait": (
        waits_durably,
        ("succeeded", {"status": "completed", "waited_seconds": 2_592_000, "reason": "for May"}),
    ),
}
"""The agent of each kind of wait, and status and output of its call when the month is over."""


class Calls:
    """Counts what the functions ask of AWS; what the harness asks for its own ends is not counted."""

    def __init__(self, harness: LambdaHarness) -> None:
        self._harness = harness
        self._calls: Counter[str] = Counter()
        clients = harness.aws.clients
        for client in (clients.dynamodb, clients.sqs, clients.scheduler, clients.s3, clients.connections):
            client.meta.events.register("provide-client-params.*", self._count)

    def _count(self, model: Any, **_: Any) -> None:
        if self._harness.running is not None:
            self._calls[f"{model.service_model.service_name}.{model.name}"] += 1

    def take(self) -> dict[str, int]:
        taken, self._calls = dict(self._calls), Counter()
        return taken


def everything(harness: LambdaHarness) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = harness.aws.clients.dynamodb.scan(TableName=harness.aws.table)["Items"]
    return items


def shown(call: dict[str, Any]) -> tuple[str, Any]:
    text = call.get("output") or call.get("error") or call.get("rejection_message") or ""
    return call["status"], json.loads(text) if text.startswith("{") else text


@pytest.mark.parametrize("kind", WAITS)
def test_a_month_of_waiting_asks_nothing_of_aws_holds_one_schedule_and_ends_on_the_second(
    harness: LambdaHarness, kind: str
) -> None:
    agents, ended_as = WAITS[kind]
    harness.agents = agents()
    send(harness, "Go.")
    harness.settle()
    stored, invoked = everything(harness), len(harness.invocations)
    (waits,) = snapshot(harness)["state"]["waiting_for"]
    due_at = datetime.fromisoformat(waits["until"])
    calls = Calls(harness)

    for _ in range(29):
        harness.advance(timedelta(days=1))
        assert calls.take() == {}
        harness.sweep()
        assert calls.take() == EMPTY_SWEEP

    assert len(harness.invocations) == invoked + 1 + 29  # the snapshot, and the sweeps
    assert everything(harness) == stored
    assert len(harness.schedules.pending()) == 1
    assert harness.queues.messages == []

    harness.settle(timedelta(days=2))

    (ended,) = snapshot(harness)["tool_calls"]
    assert shown(ended) == ended_as
    assert snapshot(harness)["messages"][-1]["parts"][0]["text"] == "done"
    assert timedelta(0) <= harness.clock.now() - due_at <= SECOND
    assert harness.schedules.pending() == []
