"""Timers on the deployment whose schedules can't be made or deleted, or whose setter died."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.agents.policies import ToolPolicy
from perdure.core.history import ToolResultItem
from perdure.models import ScriptedModel
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, call
from perdure.testing.lambda_harness import Crash, LambdaHarness
from tests.handlers.agents import SESSION, an_agent, results, send, snapshot
from tests.handlers.timers import HOURS, SECOND, decided, pay, refused, waiting_for, was_rejected_once
from tests.unit.aws.builders import LostAnswers


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("ThrottlingException", 429),
        ("InternalServerException", 500),
        ("ServiceQuotaExceededException", 402),
        ("ValidationException", 400),
    ],
)
def test_a_schedule_that_was_refused_is_made_a_quarter_of_an_hour_later(
    harness: LambdaHarness, code: str, status: int
) -> None:
    with refused(harness.aws.clients.scheduler, "CreateSchedule", code, status=status):
        due_at = waiting_for(harness, HOURS)
    assert harness.schedules.pending() == []
    ended = decided(harness)

    harness.advance(timedelta(minutes=16))
    made = harness.schedules.pending()
    harness.settle(HOURS)

    assert [at for at, _ in made] == [due_at - timedelta(minutes=15) + harness.schedules.lateness]
    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND


def test_without_any_schedule_messages_alone_end_a_wait_on_the_second(harness: LambdaHarness) -> None:
    with refused(harness.aws.clients.scheduler, "CreateSchedule", "ThrottlingException", status=429) as calls:
        due_at = waiting_for(harness, HOURS)
        ended = decided(harness)

        harness.settle(HOURS + timedelta(minutes=5))

    assert len(calls) == 7  # at 0, 15, … 90 minutes; at 105 a delay reaches the end
    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND


@contextmanager
def dies_before(harness: LambdaHarness, operation: str) -> Iterator[list[str]]:
    """Let a function die right before its first call of an operation that is about a timer."""
    died: list[str] = []

    def die(params: dict[str, Any], **_: Any) -> None:
        if not died and "timer_id" in json.dumps(params):
            died.append(str(harness.running))
            raise Crash

    client = harness.aws.clients.scheduler if operation == "CreateSchedule" else harness.aws.clients.sqs
    event = f"provide-client-params.{client.meta.service_model.service_id.hyphenize()}.{operation}"
    client.meta.events.register(event, die)
    try:
        yield died
    finally:
        client.meta.events.unregister(event, die)


def test_x9_a_timer_whose_setter_died_is_set_when_its_message_comes_again(harness: LambdaHarness) -> None:
    harness.agents = an_agent(pay, deadline=HOURS)
    send(harness, "Pay.")
    with dies_before(harness, "CreateSchedule") as died:
        harness.deliver_one()
    (interrupt,) = snapshot(harness)["pending_interrupts"]
    due_at = datetime.fromisoformat(interrupt["deadline"])
    ended = decided(harness)
    assert (died, harness.schedules.pending()) == (["run_model"], [])

    harness.settle(HOURS + timedelta(minutes=5))

    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND


def test_x9_a_timer_whose_setter_died_is_set_when_its_command_is_sent_again(harness: LambdaHarness) -> None:
    waiting_for(harness, HOURS)
    (interrupt,) = snapshot(harness)["pending_interrupts"]
    moved = datetime.fromisoformat(interrupt["deadline"]) + HOURS
    path, body = f"{SESSION}/waits/{interrupt['interrupt_id']}", {"until": moved.isoformat().replace("+00:00", "Z")}
    with dies_before(harness, "CreateSchedule") as died:
        first = harness.gateway.http("PATCH", path, body, key="k-1")
    assert (first.status, died) == (500, ["api"])

    again = harness.gateway.http("PATCH", path, body, key="k-1")
    ended = decided(harness)
    harness.settle(2 * HOURS + timedelta(minutes=5))

    assert again.status == 200
    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - moved <= SECOND


def test_copies_of_timers_do_not_multiply(harness: LambdaHarness) -> None:
    harness.deliveries = 3
    sent: list[str] = []
    harness.aws.clients.sqs.meta.events.register(
        "provide-client-params.sqs.SendMessage", lambda params, **_: sent.append(params["MessageBody"])
    )
    harness.agents = AgentRegistry([_asking_for_five()])
    send(harness, "Pay five times.")

    harness.settle(HOURS)

    assert [status for _, status in results(harness)] == ["rejected"] * 5
    assert len([body for body in sent if "timer_id" in body]) < 5 * 2 * 3


def _asking_for_five() -> AgentDefinition:
    """Return an agent whose five calls wait for approval, each for a minute longer than the one before."""
    names = [f"pay_{number}" for number in range(5)]

    def script(request: ModelRequest) -> Reply:
        answered = isinstance(request.messages[-1], ToolResultItem)
        return Reply(text="done") if answered else Reply(calls=tuple(map(call, names)))

    deadlines = {name: ToolPolicy(approval_deadline=timedelta(minutes=5 + number)) for number, name in enumerate(names)}
    tools = [replace(pay, name=name) for name in names]
    return AgentDefinition(name="test", model=ScriptedModel(script), tools=tools, tool_policies=deadlines)


def test_a_schedule_whose_answer_was_lost_is_not_made_twice(harness: LambdaHarness) -> None:
    LostAnswers(harness.aws.clients.scheduler, "CreateSchedule", silently=False)
    due_at = waiting_for(harness, HOURS)
    ended = decided(harness)

    assert len(harness.schedules.pending()) == 1
    assert len(harness.queues.messages) == 1
    harness.settle(HOURS + timedelta(minutes=5))

    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND


def test_nobody_makes_a_schedule_later_for_a_wait_that_is_over(harness: LambdaHarness) -> None:
    with refused(harness.aws.clients.scheduler, "CreateSchedule", "ThrottlingException", status=429):
        waiting_for(harness, HOURS)
    (interrupt,) = snapshot(harness)["pending_interrupts"]
    harness.gateway.http("POST", f"{SESSION}/interrupts/{interrupt['interrupt_id']}", {"approved": True})

    with refused(harness.aws.clients.scheduler, "CreateSchedule", "TestFailed") as calls:
        harness.settle(HOURS)

    assert calls == []
    assert harness.queues.messages == []
    assert results(harness) == [("pay", "succeeded")]


def test_a_wait_whose_timer_could_be_set_in_no_way_is_ended_by_the_sweep(harness: LambdaHarness) -> None:
    sent: list[str] = []

    def lose(params: dict[str, Any], **_: Any) -> None:
        if "timer_id" in json.loads(params["MessageBody"]):
            sent.append(params["MessageBody"])
            raise ConnectionResetError

    with refused(harness.aws.clients.scheduler, "CreateSchedule", "ThrottlingException", status=429):
        harness.aws.clients.sqs.meta.events.register("provide-client-params.sqs.SendMessage", lose)
        due_at = waiting_for(harness, HOURS)
        harness.aws.clients.sqs.meta.events.unregister("provide-client-params.sqs.SendMessage", lose)
    ended = decided(harness)

    harness.settle(HOURS + timedelta(minutes=10))

    assert len(sent) == 1
    was_rejected_once(harness)
    assert timedelta(minutes=1) <= ended[0] - due_at <= timedelta(minutes=3)


@pytest.mark.parametrize(
    ("code", "status"), [("ThrottlingException", 429), ("ConflictException", 409), ("InternalServerException", 500)]
)
def test_a_schedule_that_could_not_be_deleted_fires_and_does_nothing(
    harness: LambdaHarness, code: str, status: int
) -> None:
    waiting_for(harness, HOURS)
    (interrupt,) = snapshot(harness)["pending_interrupts"]

    with refused(harness.aws.clients.scheduler, "DeleteSchedule", code, status=status) as calls:
        reply = harness.gateway.http("POST", f"{SESSION}/interrupts/{interrupt['interrupt_id']}", {"approved": True})
        harness.settle()
    left = len(harness.schedules.pending())
    harness.settle(HOURS)

    assert (reply.status, calls, left) == (200, [code], 1)
    assert harness.schedules.pending() == []
    assert results(harness) == [("pay", "succeeded")]


def test_a_role_that_may_not_make_schedules_is_told_of_and_holds_up_no_wait(
    harness: LambdaHarness, caplog: pytest.LogCaptureFixture
) -> None:
    with refused(harness.aws.clients.scheduler, "CreateSchedule", "AccessDeniedException", status=403):
        due_at = waiting_for(harness, HOURS)
        ended = decided(harness)

        harness.settle(HOURS + timedelta(minutes=5))

    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert {record.message for record in told} == {"a schedule could not be made; a message stands in for it"}
    assert "AccessDenied" in told[0].reason  # type: ignore[attr-defined]
