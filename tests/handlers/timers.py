"""A session whose approval has a deadline, and what a test may do to its timer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from perdure.agents.tools import function_tool
from perdure.testing.lambda_harness import LambdaHarness
from tests.handlers.agents import SESSION, an_agent, results, send, snapshot

SECOND = timedelta(seconds=1)
HOURS = timedelta(hours=2)


@function_tool(effect="non_idempotent_write")
def pay() -> str:
    """Pay."""
    return "paid"


@contextmanager
def refused(client: Any, operation: str, code: str, *, status: int = 400) -> Iterator[list[str]]:
    """Have a service refuse every call of an operation; yields a list that gets an element for each."""
    calls: list[str] = []
    event = f"before-call.{client.meta.service_model.service_id.hyphenize()}.{operation}"

    def refuse(**_: Any) -> tuple[AWSResponse, dict[str, Any]]:
        calls.append(code)
        metadata = {"HTTPStatusCode": status, "HTTPHeaders": {}}
        return AWSResponse("https://aws.example", status, HTTPHeaders(), None), {
            "Error": {"Code": code, "Message": "not now"},
            "ResponseMetadata": metadata,
        }

    client.meta.events.register_first(event, refuse)
    try:
        yield calls
    finally:
        client.meta.events.unregister(event, refuse)


def waiting_for(harness: LambdaHarness, deadline: timedelta) -> datetime:
    """Have a session wait for an approval; returns its deadline."""
    harness.agents = an_agent(pay, deadline=deadline)
    send(harness, "Pay.")
    while harness.queues.messages and harness.queues.messages[0].queue != "timers":
        harness.deliver_one()
    (interrupt,) = snapshot(harness)["pending_interrupts"]
    return datetime.fromisoformat(interrupt["deadline"])


def decided(harness: LambdaHarness) -> list[datetime]:
    """Return a list that gets the real time of each invocation that ends the wait."""
    times: list[datetime] = []
    commit = harness.aws.clients.dynamodb.meta.events

    def look(params: dict[str, Any], **_: Any) -> None:
        if params["Key"]["sk"]["S"] == "HEAD" and harness.running in ("fire_timer", "sweep", "record_dead_letter"):
            times.append(harness.clock.now())

    commit.register("provide-client-params.dynamodb.UpdateItem", look)
    return times


def was_rejected_once(harness: LambdaHarness) -> None:
    assert results(harness) == [("pay", "rejected")]
    events = harness.gateway.http("GET", f"{SESSION}/events").body["events"]
    assert [event["type"] for event in events].count("interrupt_resolved") == 1
    assert harness.schedules.pending() == []
    assert harness.queues.messages == []
