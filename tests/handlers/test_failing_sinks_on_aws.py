"""Sinks that fail, on the deployment: they are tried again, are given up in the end, and are nobody else's trouble."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from perdure import EventSink, Notice
from perdure.aws.notices import REST, SESSIONS_UNTIL_REST
from perdure.testing.lambda_harness import Crash, LambdaHarness
from tests.audit_log import Audit
from tests.handlers.agents import send
from tests.handlers.sinks import (
    LOOK_UP,
    all_of,
    audit,
    change,
    harness,
    in_order,
    of_function,
    sinks,
    told,
)

__all__ = ["audit", "harness", "sinks"]


def test_a_failing_sink_delays_no_turn_and_is_tried_again_with_growing_waits(
    harness: LambdaHarness, audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    audit.failing = 12
    send(harness, LOOK_UP)
    harness.settle(timedelta(seconds=2))
    assert all_of(harness)[-1]["type"] == "turn_completed"
    harness.settle(timedelta(hours=1))

    tries = told(caplog, "sink_failing")
    assert [r["count"] for r in tries] == list(range(1, 13))
    assert [r["seconds"] for r in tries] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert {(r["sink"], r["session_id"]) for r in tries} == {("audit", "case-42")}
    assert "audit log is down" not in caplog.text
    assert audit.sequences() == in_order(harness)
    assert harness.queues.messages == []


def test_commits_meanwhile_neither_hurry_nor_multiply_the_tries_of_a_failing_sink(
    harness: LambdaHarness, audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    audit.failing = 10_000
    for number in range(16):
        send(harness, f"Where is order {number}?")
        harness.advance(timedelta(seconds=118))
    tries = told(caplog, "sink_failing")
    waiting = [message for message in harness.queues.messages if message.queue == "notices"]
    assert len(tries) <= 20, "a bit more than the nine tries of the first nine minutes, and one in five from then on"
    assert len(waiting) == 1

    audit.failing = 0
    harness.settle()
    assert audit.sequences() == in_order(harness)


def test_what_is_not_taken_for_as_long_as_the_sink_is_given_is_dropped_and_told(
    harness: LambdaHarness, audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    change(harness, give_up_after=timedelta(minutes=30))
    audit.failing = 10_000
    send(harness, LOOK_UP)
    harness.settle(timedelta(hours=2))
    lost = len(all_of(harness))

    audit.failing = 0
    send(harness, "Where is order 8?")
    harness.settle()

    assert [record["count"] for record in told(caplog, "sink_dropped")] == [lost]
    assert audit.sequences() == in_order(harness)[lost:]


def test_only_what_was_tried_for_that_long_is_dropped(
    harness: LambdaHarness, audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    change(harness, give_up_after=timedelta(minutes=60))
    audit.failing = 10_000
    send(harness, LOOK_UP)
    harness.advance(timedelta(minutes=58))
    old = len(all_of(harness))
    send(harness, "Where is order 8?")
    harness.advance(timedelta(minutes=8))
    audit.failing = 0
    harness.settle()

    assert [record["count"] for record in told(caplog, "sink_dropped")] == [old]
    assert audit.sequences() == in_order(harness)[old:]


def test_what_ends_its_process_is_given_up_in_time_and_what_is_behind_it_comes_through(
    harness: LambdaHarness, audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    async def deadly(notice: Notice) -> None:
        if any(event["type"] == "turn_started" for event in notice.events):
            raise Crash
        await audit.deliver(notice)

    change(harness, give_up_after=timedelta(minutes=30))
    change(harness, deliver=deadly)
    send(harness, LOOK_UP)
    harness.settle(timedelta(hours=2))

    (dropped,) = told(caplog, "sink_dropped")
    assert dropped["count"] >= 1
    assert audit.sequences() == in_order(harness)[dropped["count"] :]
    assert of_function(harness, "deliver_notices") < 20


def test_waits_begin_anew_behind_what_was_taken(
    harness: LambdaHarness, audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    again: list[bool] = []

    async def failing_again(notice: Notice) -> None:
        if len(audit.notices) == 1 and not again:
            again.append(True)
            audit.failing = 1
        await audit.deliver(notice)

    audit.failing = 5
    change(harness, deliver=failing_again)
    send(harness, LOOK_UP)
    harness.settle()

    assert [record["count"] for record in told(caplog, "sink_failing")] == [1, 2, 3, 4, 5, 1]
    assert audit.sequences() == in_order(harness)


def test_a_failure_that_is_over_shortens_no_later_one(
    harness: LambdaHarness, audit: Audit, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails for most of its time; then it takes, but that can't be kept at once; then it fails once more."""
    change(harness, give_up_after=timedelta(minutes=60))
    audit.failing = 10_000
    send(harness, LOOK_UP)
    harness.settle(timedelta(minutes=50))
    write, outage = harness.aws.clients.dynamodb.update_item, [True]

    def out(**parameters: Any) -> Any:
        if outage and "REMOVE #pump, #pump_until_ms, #failures" in parameters["UpdateExpression"]:
            outage.pop()
            raise ReadTimeoutError(endpoint_url="nowhere")
        return write(**parameters)

    monkeypatch.setattr(harness.aws.clients.dynamodb, "update_item", out)
    audit.failing = 0
    harness.settle(timedelta(minutes=6))
    assert not outage
    harness.advance(timedelta(minutes=20))
    audit.failing = 1
    send(harness, "Where is order 8?")
    harness.settle()

    assert told(caplog, "sink_dropped") == []
    assert sorted(set(audit.sequences())) == in_order(harness)


def test_a_sink_that_takes_nothing_of_several_sessions_is_left_alone_for_a_while(
    harness: LambdaHarness, audit: Audit
) -> None:
    tries: list[str] = []

    async def down(notice: Notice) -> None:
        tries.append(notice.session_id)
        await audit.deliver(notice)

    change(harness, deliver=down)
    audit.failing = 10_000
    sessions = [f"/v1/sessions/s-{number}" for number in range(8)]
    for session in sessions:
        harness.gateway.http("POST", f"{session}/inputs", {"text": LOOK_UP})
        harness.settle(timedelta(seconds=2))
    harness.advance(REST)
    assert len(tries) < 3 * SESSIONS_UNTIL_REST, "of eight sessions, each with tries behind 1, 2, 4 … s"

    audit.failing = 0
    harness.settle()
    for session in sessions:
        assert audit.sequences(session.rpartition("/")[2]) == in_order(harness, session)


def test_sinks_that_can_not_be_delivered_to_are_an_error_of_the_function_that_hears_of_commits(
    harness: LambdaHarness, audit: Audit
) -> None:
    """An alarm looks at those; that a message failed is none."""
    send(harness, LOOK_UP)
    harness.settle()
    there, harness.sinks = harness.sinks, [EventSink("audit", audit.deliver, timeout=timedelta(minutes=5))]
    harness.cold_start()
    send(harness, "Where is order 8?")
    harness.settle(timedelta(seconds=20))
    relays = [done for done in harness.invocations if done.function == "relay_commits"]
    assert "longer than the 240 s" in str(relays[-1].error)

    harness.sinks = there
    harness.cold_start()
    harness.settle()
    assert audit.sequences() == in_order(harness)


class TestTwoSinks:
    @pytest.fixture
    def other(self) -> Audit:
        return Audit(session_id="case-42")

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
