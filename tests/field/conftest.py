"""A deployment in this process, for the cases that are about AWS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.testing.gateway import Connection
from perdure.testing.lambda_harness import LambdaHarness
from perdure.testing.moto import aws_in_process
from tests.build.cloudformation import ROOT

Deploy = Callable[[AgentDefinition], LambdaHarness]


@pytest.fixture
def deploy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deploy]:
    """Return what makes a deployment of one agent on an empty account."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with aws_in_process() as aws:
        yield lambda agent: LambdaHarness(aws, AgentRegistry([agent]), ROOT / "functions")


def a_viewer(harness: LambdaHarness, session_id: str = "case-42", **who: Any) -> Connection:
    """Return a connection that is attached to a session."""
    reply = harness.gateway.http("POST", "/v1/socket-tickets", {}, **who)
    connection = harness.gateway.connect(reply.body["ticket"])
    assert connection is not None
    harness.gateway.send(connection, {"type": "attach", "session_id": session_id})
    return connection
