"""Timers on the deployment when clocks differ and SQS and Scheduler are early, late, doubled, silent or full.

The one timer here is an approval's deadline: whatever happens, the call is rejected once, and on time where it can be.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.agents.policies import ToolPolicy
from perdure.agents.tools import function_tool
from perdure.core.history import ToolResultItem
from perdure.models import ScriptedModel
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, call
from perdure.testing.lambda_harness import Crash, LambdaHarness
from tests.handlers.agents import SESSION, an_agent, results, send, snapshot
from tests.unit.aws.builders import LostAnswers

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


# --- clocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deadline", [timedelta(minutes=10), HOURS], ids=["by-delay", "by-schedule"])
@pytest.mark.parametrize("skew", [-30, -2, 2, 30])
def test_clocks_that_differ_move_a_deadline_by_that_much_and_it_passes_once(
    harness: LambdaHarness, skew: int, deadline: timedelta
) -> None:
    harness.skews = {"fire_timer": timedelta(seconds=skew)}
    due_at = waiting_for(harness, deadline)
    ended = decided(harness)

    harness.settle(deadline + timedelta(minutes=5))

    was_rejected_once(harness)
    assert abs(ended[0] - due_at) <= abs(skew) * SECOND + SECOND


@pytest.mark.parametrize("skew", [-30, 30])
def test_the_sweep_of_a_host_whose_clock_is_wrong_does_not_end_a_wait_before_its_time(
    harness: LambdaHarness, skew: int
) -> None:
    harness.skews = {"sweep": timedelta(seconds=skew)}
    due_at = waiting_for(harness, HOURS)
    (_, name), *_ = harness.schedules.pending()
    harness.aws.clients.scheduler.delete_schedule(GroupName=harness.aws.schedule_group, Name=name)
    ended = decided(harness)

    harness.settle(HOURS + timedelta(minutes=10))

    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= timedelta(minutes=3)


# --- SQS and Scheduler ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [-119, -60, -1, 0, 59, 600, 899])
def test_a_schedule_that_fires_early_or_late_within_its_lead_ends_the_wait_on_the_second(
    harness: LambdaHarness, late: int
) -> None:
    harness.schedules.lateness = timedelta(seconds=late)
    due_at = waiting_for(harness, HOURS)
    ended = decided(harness)

    harness.settle(HOURS + timedelta(minutes=5))

    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND


def test_a_schedule_that_fires_much_too_late_finds_that_the_sweep_was_there(harness: LambdaHarness) -> None:
    harness.schedules.lateness = timedelta(minutes=40)
    due_at = waiting_for(harness, HOURS)
    ended = decided(harness)

    harness.settle(HOURS + timedelta(hours=1))

    was_rejected_once(harness)
    assert timedelta(minutes=1) <= ended[0] - due_at <= timedelta(minutes=3)


@pytest.mark.parametrize("deadline", [timedelta(minutes=10), HOURS], ids=["by-delay", "by-schedule"])
def test_a_timer_whose_every_message_comes_twice_ends_its_wait_once(
    harness: LambdaHarness, deadline: timedelta
) -> None:
    harness.deliveries = 2
    due_at = waiting_for(harness, deadline)
    ended = decided(harness)

    harness.settle(deadline + timedelta(minutes=5))

    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND


def test_a_schedule_that_fires_twice_ends_its_wait_once(harness: LambdaHarness) -> None:
    due_at = waiting_for(harness, HOURS)
    ended = decided(harness)
    (fires_at, name), *_ = harness.schedules.pending()
    where = {"GroupName": harness.aws.schedule_group, "Name": name}
    body = harness.aws.clients.scheduler.get_schedule(**where)["Target"]["Input"]
    harness.advance(fires_at - harness.clock.now() + SECOND)

    harness.aws.clients.sqs.send_message(QueueUrl=harness.aws.queue_urls["timers"], MessageBody=body)
    harness.queues.collect()
    assert len(harness.queues.messages) == 2
    harness.settle(HOURS)

    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND


def test_a_decision_while_the_schedules_message_is_on_its_way_stands(harness: LambdaHarness) -> None:
    waiting_for(harness, HOURS)
    (fires_at, _), *_ = harness.schedules.pending()
    harness.advance(fires_at - harness.clock.now() + timedelta(minutes=5))
    assert [message.queue for message in harness.queues.messages] == ["timers"]

    (interrupt,) = snapshot(harness)["pending_interrupts"]
    harness.gateway.http("POST", f"{SESSION}/interrupts/{interrupt['interrupt_id']}", {"approved": True})
    harness.settle(HOURS)

    assert results(harness) == [("pay", "succeeded")]
    assert harness.queues.messages == []
    assert harness.schedules.pending() == []


@pytest.mark.parametrize("on_the_way", [timedelta(0), timedelta(hours=1, minutes=50)], ids=["schedule", "message"])
@pytest.mark.parametrize("by", [timedelta(minutes=-5), timedelta(minutes=5), timedelta(days=3)], ids=str)
def test_x12_a_deadline_that_was_moved_passes_at_its_new_time_wherever_its_old_timer_was(
    harness: LambdaHarness, on_the_way: timedelta, by: timedelta
) -> None:
    due_at = waiting_for(harness, HOURS)
    (interrupt,) = snapshot(harness)["pending_interrupts"]
    harness.advance(on_the_way)
    moved = due_at + by

    reply = harness.gateway.http(
        "PATCH", f"{SESSION}/waits/{interrupt['interrupt_id']}", {"until": moved.isoformat().replace("+00:00", "Z")}
    )
    ended = decided(harness)
    harness.settle(HOURS + timedelta(days=4))

    assert reply.status == 200, reply.body
    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - moved <= SECOND


# --- a schedule that can't be made, or not be deleted --------------------------------------------------------------


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


def test_the_longest_wait_ends_on_the_second_a_year_later(harness: LambdaHarness) -> None:
    due_at = waiting_for(harness, timedelta(days=365))
    ended = decided(harness)
    scheduled = harness.schedules.pending()

    harness.settle(timedelta(days=366))

    assert [at for at, _ in scheduled] == [due_at - timedelta(minutes=15) + harness.schedules.lateness]
    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND


@pytest.mark.parametrize("ahead", [1, 900, 1019, 1020, 1021, 1800])
def test_a_wait_of_any_length_around_the_longest_delay_ends_on_the_second(harness: LambdaHarness, ahead: int) -> None:
    due_at = waiting_for(harness, timedelta(seconds=ahead))
    ended = decided(harness)

    harness.settle(timedelta(hours=1))

    was_rejected_once(harness)
    assert timedelta(0) <= ended[0] - due_at <= SECOND


def test_a_timer_that_takes_too_long_is_cut_off_and_its_message_comes_again(
    harness: LambdaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_at = waiting_for(harness, timedelta(minutes=10))
    monkeypatch.setattr("perdure.aws.handlers.FIRING_BUDGET", timedelta(0))
    done = harness.deliver_one()
    monkeypatch.undo()

    assert done is not None
    assert done.answer is not None
    assert len(done.answer["batchItemFailures"]) == 1
    ended = decided(harness)
    harness.settle(timedelta(minutes=10))

    was_rejected_once(harness)
    assert ended[0] - due_at <= timedelta(minutes=3)
