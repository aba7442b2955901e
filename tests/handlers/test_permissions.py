"""What functions really call, held against what their roles allow: a missing permission shows here, not on AWS."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any

from perdure.agents.tools import function_tool
from perdure.testing.lambda_harness import LambdaHarness
from tests.build.cloudformation import Template, as_list, read_template, written
from tests.handlers.agents import SESSION, an_agent, send, snapshot

ACTIONS = {"apigatewaymanagementapi:PostToConnection": "execute-api:ManageConnections"}
"""Operations whose permission has another name."""

Used = dict[str, set[str]]


def watch(harness: LambdaHarness) -> Used:
    """Collect the actions that each function uses from now on; an index is named behind its action."""
    used: Used = defaultdict(set)

    def called(model: Any, params: dict[str, Any], **_: Any) -> None:
        if harness.running is None:
            return
        service = model.service_model.service_name
        name = f"{service}:{model.name}"
        index = "by-owner" if b"by-owner" in written_body(params) else "by-due"
        on_index = b'"IndexName"' in written_body(params)
        used[harness.running].add(ACTIONS.get(name, name) + (f" {index}" if on_index else ""))

    clients = harness.aws.clients
    for client in (clients.dynamodb, clients.sqs, clients.scheduler, clients.s3, clients.connections):
        client.meta.events.register_first("before-call.*.*", called)
    return used


def written_body(params: dict[str, Any]) -> bytes:
    body = params.get("body", b"")
    return body if isinstance(body, bytes) else b""


def allowed(template: Template, function: str) -> set[str]:
    """Return the actions that a function's role allows, on the table's indexes with the index behind it."""
    actions = set()
    for statement in template.statements_of(function):
        index = next((name for name in ("by-owner", "by-due") if f"index/{name}" in written(statement)), None)
        actions |= {action + (f" {index}" if index else "") for action in as_list(statement["Action"])}
    return actions


def test_no_function_calls_what_its_role_does_not_allow(harness: LambdaHarness) -> None:
    template = Template(read_template())
    used = watch(harness)

    live_through_everything(harness)

    roles = {template.folder(name): allowed(template, name) for name in template.functions}
    assert set(used) >= set(roles) - {"record_dead_letter"}
    assert {name: sorted(actions - roles[name]) for name, actions in used.items() if actions - roles[name]} == {}


def live_through_everything(harness: LambdaHarness) -> None:
    @function_tool(effect="non_idempotent_write")
    def pay() -> str:
        """Pay."""
        return "paid " * 100_000  # too large for a table item

    harness.agents = an_agent(pay, deadline=timedelta(hours=2))
    ticket = harness.gateway.http("POST", "/v1/socket-tickets", {}).body["ticket"]
    send(harness, "Pay.", key="k-1")
    viewer = harness.gateway.connect(ticket)
    assert viewer is not None
    harness.gateway.send(viewer, {"type": "subscribe", "session_id": "case-42"})
    harness.settle()
    (interrupt,) = snapshot(harness)["pending_interrupts"]
    harness.gateway.http("POST", f"{SESSION}/interrupts/{interrupt['interrupt_id']}", {"approved": True})
    harness.settle()
    send(harness, "Pay again.")
    for message in list(harness.queues.messages):
        harness.queues.delete(message)  # the sweep has to send it
    harness.settle(timedelta(hours=3))  # the deadline passes, by schedule and timer
    harness.gateway.http("GET", "/v1/sessions")
    harness.gateway.http("POST", f"{SESSION}/stop", {})
    harness.gateway.disconnect(viewer)
    look_up(harness)


def look_up(harness: LambdaHarness) -> None:
    """Run a tool that may run again, which has a function of its own."""

    @function_tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    harness.agents = an_agent(look)
    harness.cold_start()
    harness.gateway.http("POST", "/v1/sessions/second/inputs", {"text": "Look."})
    harness.settle()
