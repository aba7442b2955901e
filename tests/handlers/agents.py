"""Agents and helpers of the handler tests."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.agents.policies import ToolPolicy
from perdure.agents.tools import FunctionTool
from perdure.core.history import ToolResultItem
from perdure.models import ScriptedModel
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, call
from perdure.testing.lambda_harness import LambdaHarness

SESSION = "/v1/sessions/case-42"


def an_agent(
    tool: FunctionTool, *, deadline: timedelta | None = None, tool_timeout: timedelta = timedelta(minutes=14)
) -> AgentRegistry:
    """Return an agent that calls its one tool, and says so when it has a result."""

    def script(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        return Reply(text="done") if isinstance(last, ToolResultItem) else Reply(calls=(call(tool.name),))

    policies = {tool.name: ToolPolicy(approval_deadline=deadline)} if deadline else {}
    agent = AgentDefinition(
        name="test", model=ScriptedModel(script), tools=[tool], tool_policies=policies, tool_timeout=tool_timeout
    )
    return AgentRegistry([agent])


def send(harness: LambdaHarness, text: str, key: str | None = None) -> dict[str, Any]:
    reply = harness.gateway.http("POST", f"{SESSION}/inputs", {"text": text}, key=key)
    assert reply.status == 202, reply.body
    return dict(reply.body)


def snapshot(harness: LambdaHarness, session: str = SESSION) -> dict[str, Any]:
    reply = harness.gateway.http("GET", session)
    assert reply.status == 200, reply.body
    return dict(reply.body)


def results(harness: LambdaHarness, session: str = SESSION) -> list[tuple[str, str]]:
    """Return tool and status of every result in a session."""
    return [
        (part["tool_name"], part["status"])
        for message in snapshot(harness, session)["messages"]
        for part in message["parts"]
        if part["type"] == "tool_result"
    ]
