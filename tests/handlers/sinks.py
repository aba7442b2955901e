"""What the tests of sinks on the deployment share: an application's log, and ways to lose a process or an answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure import EventSink
from perdure.agents.definition import AgentRegistry
from perdure.agents.example import support_agent
from perdure.aws.messages import NoticeMessage
from perdure.testing.lambda_harness import Crash, LambdaHarness
from perdure.testing.moto import aws_in_process
from tests.audit_log import Audit
from tests.build.cloudformation import ROOT
from tests.handlers.agents import SESSION

LOOK_UP = "Where is order 7?"

JsonObject = dict[str, Any]


@pytest.fixture
def audit() -> Audit:
    return Audit(session_id="case-42")


@pytest.fixture
def sinks(audit: Audit) -> list[EventSink]:
    return [EventSink("audit", audit.deliver)]


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sinks: list[EventSink]) -> Iterator[LambdaHarness]:
    monkeypatch.setenv("PERDURE_SHOP_FILE", str(tmp_path / "shop.jsonl"))
    with aws_in_process() as aws:
        yield LambdaHarness(aws, AgentRegistry([support_agent()]), ROOT / "functions", sinks=sinks)


def all_of(harness: LambdaHarness, session: str = SESSION) -> list[JsonObject]:
    found: list[JsonObject] = harness.gateway.http("GET", f"{session}/events").body["events"]
    assert found
    return found


def in_order(harness: LambdaHarness, session: str = SESSION) -> list[int]:
    return [event["sequence"] for event in all_of(harness, session)]


def of_function(harness: LambdaHarness, function: str) -> int:
    return sum(done.function == function for done in harness.invocations)


def wake(harness: LambdaHarness, **more: Any) -> None:
    """Send what the stream's function sends."""
    body = NoticeMessage(
        tenant="acme",
        session_id="case-42",
        sink="audit",
        told_at_ms=int(harness.clock.now().timestamp() * 1000),
        **more,
    ).body()
    harness.aws.clients.sqs.send_message(QueueUrl=harness.aws.queue_urls["notices"], MessageBody=body)
    harness.collect()


def crashing(harness: LambdaHarness, function: str, operation: str, *, times: int = 1, after: bool = True) -> None:
    """Let a function's process die at its next calls of an operation, behind them or before."""
    left = [times]

    def die(**_: Any) -> None:
        if harness.running == function and left[0]:
            left[0] -= 1
            raise Crash

    service = {"SendMessage": "sqs"}.get(operation, "dynamodb")
    client = getattr(harness.aws.clients, service)
    client.meta.events.register(f"{'after' if after else 'before'}-call.{service}.{operation}", die)


def answering_twice(harness: LambdaHarness, function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every first answer of a write be lost behind it, so that the SDK sends the same again."""
    write = harness.aws.clients.dynamodb.update_item

    def twice(**parameters: Any) -> Any:
        if harness.running == function:
            write(**parameters)
        return write(**parameters)

    monkeypatch.setattr(harness.aws.clients.dynamodb, "update_item", twice)


def told(caplog: pytest.LogCaptureFixture, event: str) -> list[JsonObject]:
    return [record.__dict__ for record in caplog.records if getattr(record, "event", "") == event]


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Let other functions run while one stands still in the middle of its event loop."""
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)


def change(harness: LambdaHarness, **fields: Any) -> None:
    """Give the deployment's sink other values, as another deployment does."""
    first, *others = harness.sinks
    harness.sinks = [replace(first, **fields), *others]
    harness.cold_start()
