"""Several agents in one deployment on AWS: each session has its own, and one that is removed loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.models.scripted import ScriptedModel, user_texts
from perdure.testing.lambda_harness import LambdaHarness
from perdure.testing.moto import aws_in_process
from tests.build.cloudformation import ROOT


def an_echo(name: str) -> AgentDefinition:
    return AgentDefinition(name=name, model=ScriptedModel(lambda request: f"{name} says {user_texts(request)[-1]}"))


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[LambdaHarness]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with aws_in_process() as aws:
        yield LambdaHarness(aws, AgentRegistry([an_echo("sales"), an_echo("support")]), ROOT / "functions")


def deploy(harness: LambdaHarness, *names: str) -> None:
    """Put other agents in place, with new containers."""
    harness.agents = AgentRegistry([an_echo(name) for name in names])
    harness.cold_start()


def sent(harness: LambdaHarness, session: str, text: str, agent: str | None = None) -> tuple[int, Any]:
    body = {"text": text} | ({"agent": agent} if agent else {})
    reply = harness.gateway.http("POST", f"/v1/sessions/{session}/inputs", body)
    harness.settle()
    return reply.status, reply.body


def read(harness: LambdaHarness, path: str, **query: str) -> Any:
    reply = harness.gateway.http("GET", path, query=query or None)
    assert reply.status == 200, reply.body
    return reply.body


def texts(harness: LambdaHarness, session: str) -> list[str]:
    return [m["parts"][0]["text"] for m in read(harness, f"/v1/sessions/{session}")["messages"]]


def test_sessions_are_routed_to_their_agents_by_name(harness: LambdaHarness) -> None:
    assert sent(harness, "s-1", "one")[0] == 202
    assert sent(harness, "s-2", "two", "support")[0] == 202

    assert texts(harness, "s-1") == ["one", "sales says one"]
    assert texts(harness, "s-2") == ["two", "support says two"]
    assert sent(harness, "s-2", "three", "sales")[1]["error"]["code"] == "agent_mismatch"
    assert "use 'sales', 'support'" in sent(harness, "s-3", "four", "hr")[1]["error"]["message"]
    found = read(harness, "/v1/sessions", agent="support", query="SUPPORT", status="waiting_for_user_message")
    assert [row["session_id"] for row in found["sessions"]] == ["s-2"]


def test_an_agent_that_a_deployment_leaves_out_loses_nothing(harness: LambdaHarness) -> None:
    sent(harness, "s-2", "one", "support")
    deploy(harness, "sales")

    sent(harness, "s-2", "two")
    sent(harness, "s-2", "three")

    turn = read(harness, "/v1/sessions/s-2/turns/turn-2")
    assert (turn["status"], turn["error"]["code"]) == ("failed", "configuration")
    assert "'support' is not part of this deployment: deploy it again" in turn["error"]["message"]
    assert texts(harness, "s-2") == ["one", "support says one", "two"]

    deploy(harness, "sales", "support")
    assert harness.gateway.http("POST", "/v1/sessions/s-2/retry", {"retry_id": "r-1"}).status == 200
    harness.settle()

    assert texts(harness, "s-2") == [
        "one",
        "support says one",
        "two",
        "support says two",
        "three",
        "support says three",
    ]
    assert read(harness, "/v1/sessions/s-2/turns/turn-3")["answer"]["parts"][0]["text"] == "support says two"
