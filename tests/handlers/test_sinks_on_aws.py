"""Sinks on the deployment: the table's stream tells of every commit, at least once, in order, and nobody waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import EventSink, Notice
from perdure.agents.definition import AgentRegistry
from perdure.agents.example import support_agent
from perdure.aws.messages import NoticeMessage
from perdure.aws.sink_places import BEGINS_BEFORE, PUMP_LEASE
from perdure.sink_delivery import ENTRIES_PER_READ, LAST_RETRY
from perdure.testing.lambda_harness import QUEUES, TIMEOUTS, Crash, LambdaHarness
from perdure.testing.moto import aws_in_process
from tests.build.cloudformation import ROOT
from tests.handlers.agents import SESSION, send

LOOK_UP = "Where is order 7?"
DAY = timedelta(days=1)

JsonObject = dict[str, Any]


class Audit:
    """An application's own log, which may be told to fail.

    Attributes:
        failing: How many of the next deliveries raise, after they took nothing.
        losing: How many of the next raise after they took all.
    """

    def __init__(self) -> None:
        self.failing = 0
        self.losing = 0
        self.notices: list[Notice] = []

    async def deliver(self, notice: Notice) -> None:
        if self.failing:
            self.failing -= 1
            raise ConnectionError("the audit log is down")
        self.notices.append(notice)
        if self.losing:
            self.losing -= 1
            raise TimeoutError("no answer came")

    def sequences(self, session_id: str = "case-42") -> list[int]:
        return [e["sequence"] for notice in self.notices if notice.session_id == session_id for e in notice.events]


@pytest.fixture
def audit() -> Audit:
    return Audit()


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
        tenant="acme", session_id="case-42", committed_at_ms=int(harness.clock.now().timestamp() * 1000), **more
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


def test_every_durable_event_comes_once_in_order_and_as_the_events_route_shows_it(
    harness: LambdaHarness, audit: Audit
) -> None:
    send(harness, LOOK_UP)
    harness.settle()

    shown = all_of(harness)
    told = [event for notice in audit.notices for event in notice.events]
    assert audit.sequences() == list(range(1, len(shown) + 1))
    assert [{**event, "cursor": ""} for event in told] == [{**event, "cursor": ""} for event in shown]
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
    assert second.events[: len(first.events)] == first.events
    assert sorted(set(audit.sequences())) == in_order(harness)


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

    object.__setattr__(harness.sinks[0], "deliver", with_a_turn_meanwhile)
    send(harness, LOOK_UP)
    harness.settle()

    assert places == [1], "nobody else delivered meanwhile"
    assert audit.sequences() == in_order(harness)


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Let other functions run while one stands still in the middle of its event loop."""
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)


# --- failures ----------------------------------------------------------------------------------------------------


def test_a_failing_sink_delays_no_turn_and_is_tried_again_with_growing_waits(
    harness: LambdaHarness, audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    audit.failing = 12
    send(harness, LOOK_UP)
    harness.settle(timedelta(seconds=2))
    assert all_of(harness)[-1]["type"] == "turn_completed"
    harness.settle(timedelta(hours=1))

    told = [r.__dict__ for r in caplog.records if getattr(r, "event", "") == "sink_failing"]
    assert [r["count"] for r in told] == list(range(1, 13))
    assert [r["seconds"] for r in told] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert {(r["sink"], r["session_id"]) for r in told} == {("audit", "case-42")}
    assert "audit log is down" not in caplog.text
    assert audit.sequences() == in_order(harness)
    assert harness.queues.messages == []


def test_commits_meanwhile_neither_hurry_nor_multiply_the_tries_of_a_failing_sink(
    harness: LambdaHarness, audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    audit.failing = 10_000
    for number in range(40):
        send(harness, f"Where is order {number}?")
        harness.advance(timedelta(seconds=47))
    tries = [r for r in caplog.records if getattr(r, "event", "") == "sink_failing"]
    waiting = [message for message in harness.queues.messages if message.queue == "notices"]
    assert len(tries) <= 20, "a bit more than the nine tries of the first nine minutes, and one in five from then on"
    assert len(waiting) == 1

    audit.failing = 0
    harness.settle()
    assert audit.sequences() == in_order(harness)


def test_what_is_not_taken_for_as_long_as_the_sink_is_given_is_dropped_and_told(
    harness: LambdaHarness, audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    object.__setattr__(harness.sinks[0], "give_up_after", timedelta(minutes=30))
    audit.failing = 10_000
    send(harness, LOOK_UP)
    harness.settle(timedelta(hours=2))
    lost = len(all_of(harness))

    audit.failing = 0
    send(harness, "Where is order 8?")
    harness.settle()

    (told,) = [r.__dict__ for r in caplog.records if getattr(r, "event", "") == "sink_dropped"]
    assert told["count"] == lost
    assert audit.sequences() == in_order(harness)[lost:]


class TestTwoSinks:
    @pytest.fixture
    def other(self) -> Audit:
        return Audit()

    @pytest.fixture
    def sinks(self, audit: Audit, other: Audit) -> list[EventSink]:
        return [EventSink("audit", audit.deliver), EventSink("index", other.deliver, events=["turn_completed"])]

    def test_one_that_fails_is_nothing_to_the_other(self, harness: LambdaHarness, audit: Audit, other: Audit) -> None:
        audit.failing = 3
        send(harness, LOOK_UP)
        harness.settle(timedelta(seconds=2))
        assert [e["type"] for notice in other.notices for e in notice.events] == ["turn_completed"]
        assert audit.notices == []

        harness.settle()
        assert audit.sequences() == in_order(harness)
        assert len(other.sequences()) == 1


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
