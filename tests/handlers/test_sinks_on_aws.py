"""Sinks on the deployment: the table's stream tells of every commit, at least once, in order, and nobody waits."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import EventSink, Notice
from perdure.agents.definition import AgentRegistry
from perdure.agents.example import support_agent
from perdure.aws.sink_places import BEGINS_BEFORE, PUMP_LEASE
from perdure.sink_delivery import ENTRIES_PER_READ, LAST_RETRY
from perdure.testing.lambda_harness import QUEUES, TIMEOUTS, Crash, LambdaHarness
from perdure.testing.moto import aws_in_process
from tests.audit_log import Audit
from tests.build.cloudformation import ROOT
from tests.handlers.agents import SESSION, send
from tests.handlers.sinks import (
    LOOK_UP,
    JsonObject,
    all_of,
    answering_twice,
    aside,
    audit,
    change,
    crashing,
    harness,
    in_order,
    of_function,
    sinks,
    wake,
)

__all__ = ["audit", "harness", "sinks"]

DAY = timedelta(days=1)


def test_every_durable_event_comes_once_in_order_and_as_the_events_route_shows_it(
    harness: LambdaHarness, audit: Audit
) -> None:
    send(harness, LOOK_UP)
    harness.settle()

    shown = all_of(harness)
    given = [event for notice in audit.notices for event in notice.events]
    assert audit.sequences() == list(range(1, len(shown) + 1))
    assert [{**event, "cursor": ""} for event in given] == [{**event, "cursor": ""} for event in shown]
    assert {(notice.tenant, notice.session_id) for notice in audit.notices} == {("acme", "case-42")}
    assert [message.queue for message in harness.queues.messages] == []


def test_a_turn_costs_few_deliveries_and_a_session_at_rest_none(harness: LambdaHarness, audit: Audit) -> None:
    send(harness, LOOK_UP)
    harness.settle()
    relays, deliveries = of_function(harness, "relay_commits"), of_function(harness, "deliver_notices")

    harness.advance(DAY)

    assert relays <= 3, "a turn is over within a second here, and a batch is gathered for one"
    assert deliveries == of_function(harness, "deliver_notices") == relays
    assert relays == of_function(harness, "relay_commits")


def test_without_sinks_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SHOP_FILE", str(tmp_path / "shop.jsonl"))
    with aws_in_process() as aws:
        harness = LambdaHarness(aws, AgentRegistry([support_agent()]), ROOT / "functions")
        send(harness, LOOK_UP)
        harness.settle()

        assert harness.stream is None
        assert of_function(harness, "relay_commits") == 0


# --- at least once -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["api", "run_model", "call_tool"])
def test_a_process_that_dies_behind_its_commit_has_told_of_it(
    harness: LambdaHarness, audit: Audit, function: str
) -> None:
    crashing(harness, function, "UpdateItem")
    harness.gateway.http("POST", f"{SESSION}/inputs", {"text": LOOK_UP})
    harness.settle()

    assert audit.sequences() == in_order(harness)


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize(
    ("function", "operation"),
    [
        ("relay_commits", "SendMessage"),
        ("deliver_notices", "UpdateItem"),
        ("deliver_notices", "GetItem"),
        ("deliver_notices", "PutItem"),
    ],
)
def test_a_process_that_dies_on_the_way_to_the_sink_loses_nothing(
    harness: LambdaHarness, audit: Audit, function: str, operation: str, after: bool
) -> None:
    crashing(harness, function, operation, times=2, after=after)
    send(harness, LOOK_UP)
    harness.settle()

    assert sorted(set(audit.sequences())) == in_order(harness)
    assert of_function(harness, function) > 1


def test_a_delivery_whose_end_was_not_seen_comes_again_as_it_was(harness: LambdaHarness, audit: Audit) -> None:
    audit.losing = 1
    send(harness, LOOK_UP)
    harness.settle()

    first, second, *_ = audit.notices
    assert second.events == first.events[: len(second.events)]
    assert sorted(set(audit.sequences())) == in_order(harness)


@pytest.mark.parametrize("failing", [0, 1, 3])
def test_an_answer_that_is_lost_and_asked_for_again_loses_nothing(
    harness: LambdaHarness, audit: Audit, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    answering_twice(harness, "deliver_notices", monkeypatch)
    audit.failing = failing
    send(harness, LOOK_UP)
    harness.settle()

    assert audit.sequences() == in_order(harness)


def test_a_record_that_is_a_moment_old_ends_no_delivery(
    harness: LambdaHarness, audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read may be a moment old on AWS, unless it is asked for otherwise."""
    send(harness, LOOK_UP)
    harness.settle()
    read = harness.aws.clients.dynamodb.get_item
    old = read(TableName=harness.aws.table, Key={"pk": {"S": "acme#case-42"}, "sk": {"S": "HEAD"}})

    def lagging(**parameters: Any) -> Any:
        lags = harness.running == "deliver_notices" and not parameters["ConsistentRead"]
        return old if lags and parameters["Key"]["sk"]["S"] == "HEAD" else read(**parameters)

    monkeypatch.setattr(harness.aws.clients.dynamodb, "get_item", lagging)
    harness.cold_start()
    send(harness, "Where is order 8?")
    harness.settle()

    assert audit.sequences() == in_order(harness)


def test_a_delivery_that_dies_when_its_message_was_taken_by_another_one_is_made_up_for(
    harness: LambdaHarness, audit: Audit
) -> None:
    """A message that waited for a throttled function may show again while it is worked on."""
    begun: list[tuple[str, JsonObject]] = []
    dead: list[bool] = []
    harness.before_invocation = lambda function, event: begun.append((function, event))

    async def dying(notice: Notice) -> None:
        if not dead:
            dead.append(True)
            event = next(event for function, event in reversed(begun) if function == "deliver_notices")
            running, harness.running = harness.running, None
            with aside():
                done = harness.invoke("deliver_notices", event)
            harness.running = running
            assert done.answer == {"batchItemFailures": []}
            (message,) = [m for m in harness.queues.messages if m.queue == "notices" and m.receives]
            harness.queues.delete(message)
            raise Crash
        await audit.deliver(notice)

    change(harness, deliver=dying)
    send(harness, LOOK_UP)
    harness.settle()

    assert dead
    assert audit.sequences() == in_order(harness)


def test_a_message_for_a_sink_that_is_not_there_yet_waits_for_it_and_an_old_one_does_not(
    harness: LambdaHarness, audit: Audit
) -> None:
    there, harness.sinks = harness.sinks, [EventSink("other", audit.deliver)]
    wake(harness)
    harness.settle(timedelta(minutes=7))
    assert [message.queue for message in harness.queues.messages] == ["notices"]

    harness.sinks = there
    harness.cold_start()
    send(harness, LOOK_UP)
    harness.settle()
    assert audit.sequences() == in_order(harness)

    harness.sinks = [EventSink("other", audit.deliver)]
    harness.cold_start()
    wake(harness)
    harness.settle(timedelta(minutes=30))
    assert harness.queues.messages == []


def test_messages_that_come_twice_deliver_once(harness: LambdaHarness, audit: Audit) -> None:
    harness.deliveries = 2
    send(harness, LOOK_UP)
    harness.settle()

    assert audit.sequences() == in_order(harness)


def test_a_message_that_finds_a_delivery_at_work_leaves_its_events_to_it(harness: LambdaHarness, audit: Audit) -> None:
    again = ["Where is order 8?"]
    places: list[int] = []

    async def with_a_turn_meanwhile(notice: Notice) -> None:
        await audit.deliver(notice)
        if again:
            running, harness.running = harness.running, None
            with aside():
                send(harness, again.pop())
                harness.settle(timedelta(seconds=20))
            harness.running = running
            places.append(len(audit.notices))

    change(harness, deliver=with_a_turn_meanwhile)
    send(harness, LOOK_UP)
    harness.settle()

    assert places == [1], "nobody else delivered meanwhile"
    assert audit.sequences() == in_order(harness)


# --- where a sink begins -----------------------------------------------------------------------------------------


def test_a_new_sink_begins_with_what_is_committed_from_then_on_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audit: Audit
) -> None:
    monkeypatch.setenv("PERDURE_SHOP_FILE", str(tmp_path / "shop.jsonl"))
    registry = AgentRegistry([support_agent()])
    with aws_in_process() as aws:
        before = LambdaHarness(aws, registry, ROOT / "functions")
        for number in range(ENTRIES_PER_READ // 4 + 2):
            send(before, f"Where is order {number}?")
            before.settle()
        there = len(all_of(before))
        before.clock.advance(BEGINS_BEFORE.total_seconds() + 1)

        harness = LambdaHarness(
            aws, registry, ROOT / "functions", clock=before.clock, sinks=[EventSink("audit", audit.deliver)]
        )
        harness._ids = before._ids
        send(harness, LOOK_UP)
        harness.settle()
        assert audit.sequences() == in_order(harness)[there:]

        harness.cold_start()
        for number in range(ENTRIES_PER_READ // 4 + 2):
            send(harness, f"And order {number}?")
            harness.settle()
        assert audit.sequences() == in_order(harness)[there:]


def test_the_first_words_of_a_new_sink_may_come_in_any_order(harness: LambdaHarness, audit: Audit) -> None:
    send(harness, LOOK_UP)
    while harness.stream is not None and harness.stream.due_at is None:
        harness.deliver_one()
    harness.clock.advance(10)
    wake(harness)  # the word of a later commit, which is heard first
    harness.settle()

    assert audit.sequences() == in_order(harness)


def test_times_fit_together() -> None:
    function, visibility = QUEUES["notices"]
    assert TIMEOUTS[function] < PUMP_LEASE.total_seconds() < visibility
    assert LAST_RETRY.total_seconds() < visibility
