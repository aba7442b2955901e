"""Turns on the deployment: real handlers, moto's AWS, virtual time."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.testing.crashes import CrashPoint
from perdure.testing.lambda_harness import Crash, LambdaHarness

SESSION = "/v1/sessions/case-42"
LOOK_UP = "Where is order 7?"
REFUND = "Refund order 7"
FROM_APPROVAL = ["assistant", "call", "result", "assistant"]
"""Roles of what the example agent says and does from the refund it asks for to the end of the turn."""


def send(harness: LambdaHarness, text: str, key: str | None = None) -> dict[str, Any]:
    reply = harness.gateway.http("POST", f"{SESSION}/inputs", {"text": text}, key=key)
    assert reply.status == 202, reply.body
    return dict(reply.body)


def snapshot(harness: LambdaHarness, session: str = SESSION) -> dict[str, Any]:
    reply = harness.gateway.http("GET", session)
    assert reply.status == 200, reply.body
    return dict(reply.body)


def transcript(harness: LambdaHarness) -> list[tuple[str, str]]:
    """Return role and text of every message; calls and results as their tool and status."""
    lines = []
    for message in snapshot(harness)["messages"]:
        for part in message["parts"]:
            if part["type"] == "text":
                lines.append((message["role"], part["text"]))
            elif part["type"] == "tool_call":
                lines.append(("call", part["tool_name"]))
            elif part["type"] == "tool_result":
                lines.append(("result", f"{part['tool_name']} {part['status']}"))
    return lines


def refunds() -> int:
    books = Path(os.environ["PERDURE_SHOP_FILE"])
    lines = books.read_text(encoding="utf-8").splitlines() if books.exists() else []
    return sum("refund" in json.dumps(json.loads(line)) for line in lines)


def worked(harness: LambdaHarness) -> Counter[str]:
    return Counter(done.function for done in harness.invocations if done.function not in ("api", "socket", "authorize"))


# --- the plain course --------------------------------------------------------------------------------------------


def test_a_turn_with_a_tool_takes_three_invocations_behind_the_api(harness: LambdaHarness) -> None:
    receipt = send(harness, LOOK_UP)

    harness.settle()

    assert receipt["turn_id"] == "turn-1"
    assert [line[0] for line in transcript(harness)] == ["user", "assistant", "call", "result", "assistant"]
    assert snapshot(harness)["state"]["status"] == "waiting_for_user_message"
    assert worked(harness) == {"run_model": 2, "call_tool": 1}
    assert harness.queues.messages == []


def test_a_write_waits_for_a_person_and_then_runs_once_in_the_function_for_such_tools(harness: LambdaHarness) -> None:
    send(harness, REFUND)
    harness.settle()
    (interrupt,) = snapshot(harness)["pending_interrupts"]
    before = worked(harness)

    reply = harness.gateway.http("POST", f"{SESSION}/interrupts/{interrupt['interrupt_id']}", {"approved": True})
    harness.settle()

    assert before["call_single_attempt_tool"] == 0
    assert reply.body == {"result": "resolved"}
    assert worked(harness)["call_single_attempt_tool"] == 1
    assert refunds() == 1
    assert snapshot(harness)["state"]["status"] == "waiting_for_user_message"


def test_a_waiting_session_costs_nothing(harness: LambdaHarness) -> None:
    send(harness, REFUND)
    harness.settle()
    before = len(harness.invocations)

    harness.advance(timedelta(days=30))

    assert len(harness.invocations) == before
    assert harness.queues.messages == []


def test_a_stop_ends_a_turn_that_waits_for_a_person(harness: LambdaHarness) -> None:
    send(harness, REFUND)
    harness.settle()
    (interrupt,) = snapshot(harness)["pending_interrupts"]

    stopped = harness.gateway.http("POST", f"{SESSION}/stop", {})
    harness.settle()
    late = harness.gateway.http("POST", f"{SESSION}/interrupts/{interrupt['interrupt_id']}", {"approved": True})

    assert stopped.body == {"result": "recorded"}
    assert late.status == 409
    assert refunds() == 0
    assert snapshot(harness)["state"]["status"] == "waiting_for_user_message"


def test_a_request_that_is_sent_again_after_a_gateway_timeout_starts_nothing_new(harness: LambdaHarness) -> None:
    first = send(harness, LOOK_UP, key="m-1")
    harness.settle()
    again = send(harness, LOOK_UP, key="m-1")
    harness.settle()

    assert again == first | {"duplicate": True}
    assert worked(harness) == {"run_model": 2, "call_tool": 1}


def test_containers_that_start_anew_between_steps_go_on_where_the_others_were(harness: LambdaHarness) -> None:
    send(harness, REFUND)
    while harness.deliver_one():
        harness.cold_start()
    (interrupt,) = snapshot(harness)["pending_interrupts"]
    harness.gateway.http("POST", f"{SESSION}/interrupts/{interrupt['interrupt_id']}", {"approved": True})
    while harness.deliver_one():
        harness.cold_start()

    assert refunds() == 1
    assert transcript(harness)[-1][0] == "assistant"


# --- what queues do ----------------------------------------------------------------------------------------------


def test_every_message_delivered_twice_changes_nothing(harness: LambdaHarness) -> None:
    harness.deliveries = 2
    send(harness, REFUND)
    harness.settle()
    (interrupt,) = snapshot(harness)["pending_interrupts"]
    harness.gateway.http("POST", f"{SESSION}/interrupts/{interrupt['interrupt_id']}", {"approved": True})
    harness.settle()

    assert refunds() == 1
    assert [done for done in harness.invocations if done.error] == []
    assert [line[0] for line in transcript(harness)] == ["user", "assistant", "call", "result", *FROM_APPROVAL]
    assert snapshot(harness)["state"]["version"] == 8, "six messages, the decision and the start of the write"


def test_an_old_message_that_arrives_late_is_old_news(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    first = harness.queues.event(harness.queues.messages[0])
    harness.settle()
    before = snapshot(harness)

    late = harness.invoke("run_model", first)

    assert late.answer == {"batchItemFailures": []}
    assert snapshot(harness) == before


def test_a_message_that_is_none_of_ours_becomes_a_dead_letter_and_harms_nobody(harness: LambdaHarness) -> None:
    harness.aws.clients.sqs.send_message(QueueUrl=harness.aws.queue_urls["run-model"], MessageBody='{"hello": 1}')
    send(harness, LOOK_UP)

    harness.settle(timedelta(hours=2))

    assert transcript(harness)[-1][0] == "assistant"
    assert [message.queue for message in harness.queues.messages] == ["run-model-dead-letters"]


# --- crashes -----------------------------------------------------------------------------------------------------


def test_a_model_step_whose_handler_died_is_found_by_the_sweep_within_three_minutes(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    began = harness.clock.now()
    with CrashPoint(at_write=2).of(harness) as point:  # the claim is the first write
        harness.settle()

    answered = datetime.fromisoformat(snapshot(harness)["messages"][-1]["created_at"])
    assert str(point.crashed).endswith("of run_model")
    assert transcript(harness)[-1][0] == "assistant"
    assert answered - began < timedelta(minutes=3, seconds=1), "a lease of 120 s and a sweep a minute"


def test_a_send_that_never_happened_is_made_up_for_by_the_sweep(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    for message in list(harness.queues.messages):
        harness.queues.delete(message)

    harness.settle()

    assert transcript(harness)[-1][0] == "assistant"


def test_a_function_that_can_not_even_start_ends_the_turn_visibly(harness: LambdaHarness) -> None:
    def broken(function: str, _event: Any) -> None:
        if function == "run_model":
            raise Crash

    harness.before_invocation = broken
    send(harness, LOOK_UP)
    harness.settle(timedelta(hours=6))
    failed = snapshot(harness)["state"]
    harness.before_invocation = lambda _function, _event: None
    retried = harness.gateway.http("POST", f"{SESSION}/retry", {"retry_id": "click-1"})
    harness.settle()

    assert failed["status"] == "waiting_for_user_message"
    assert failed["last_turn_error"]["code"] == "internal"
    assert failed["held"] is True
    assert retried.body == {"result": "recorded", "turn_id": "turn-2"}
    assert worked(harness)["record_dead_letter"] >= 1
    assert transcript(harness)[-1][0] == "assistant"


def test_a_payment_whose_function_never_started_is_known_not_to_have_run(harness: LambdaHarness) -> None:
    def broken(function: str, _event: Any) -> None:
        if function == "call_single_attempt_tool":
            raise Crash

    send(harness, REFUND)
    harness.settle()
    (interrupt,) = snapshot(harness)["pending_interrupts"]
    harness.before_invocation = broken
    harness.gateway.http("POST", f"{SESSION}/interrupts/{interrupt['interrupt_id']}", {"approved": True})

    harness.settle(timedelta(hours=6))

    assert refunds() == 0
    assert ("result", "refund_order failed") in transcript(harness)
    assert transcript(harness)[-1][0] == "assistant"


def crash_everywhere(harness: LambdaHarness, begin: Callable[[str], None]) -> Iterator[tuple[str, str]]:
    """Go through the same course with a crash at one place after the other; yield each session and where it crashed.

    The places: after every write, and before the first one of every invocation. Nothing that anybody could see happens
    between one write and the next, so these are all there are.
    """
    begin("/v1/sessions/counted")
    with CrashPoint().of(harness) as counted:
        harness.settle()
    assert counted.writes >= 8, "there are hardly any writes to crash at"
    places = [(number, True) for number in range(1, counted.writes + 1)] + [(n, False) for n in counted.firsts]
    for at_write, landed in places:
        session = f"/v1/sessions/crash-{at_write}-{landed}"
        begin(session)
        with CrashPoint(at_write=at_write, landed=landed).of(harness) as point:
            harness.settle(timedelta(hours=1))
        assert point.crashed is not None, at_write
        yield session, f"{point.crashed}, {'after' if landed else 'before'} write {at_write}"


@pytest.mark.slow
def test_a_crash_at_any_write_of_a_lookup_ends_like_a_run_without(harness: LambdaHarness) -> None:
    def begin(session: str) -> None:
        harness.gateway.http("POST", f"{session}/inputs", {"text": LOOK_UP})

    for session, crash in crash_everywhere(harness, begin):
        after = snapshot(harness, session)
        assert after["state"]["status"] == "waiting_for_user_message", crash
        assert "last_turn_error" not in after["state"], crash
        assert [message["role"] for message in after["messages"]] == ["user", "assistant", "tool", "assistant"], crash


@pytest.mark.slow
def test_a_crash_at_any_write_of_a_refund_never_refunds_twice_and_never_hides_what_happened(
    harness: LambdaHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(session: str) -> None:
        monkeypatch.setenv("PERDURE_SHOP_FILE", str(tmp_path / f"{Path(session).name}.jsonl"))
        harness.gateway.http("POST", f"{session}/inputs", {"text": REFUND})
        harness.settle()
        (interrupt,) = snapshot(harness, session)["pending_interrupts"]
        harness.gateway.http("POST", f"{session}/interrupts/{interrupt['interrupt_id']}", {"approved": True})

    for session, crash in crash_everywhere(harness, begin):
        after = snapshot(harness, session)
        (status,) = [
            part["status"]
            for message in after["messages"]
            for part in message["parts"]
            if part["type"] == "tool_result" and part["tool_name"] == "refund_order"
        ]
        assert (status, refunds()) in {("succeeded", 1), ("outcome_unknown", 1), ("outcome_unknown", 0)}, crash
        assert after["state"]["status"] == "waiting_for_user_message", crash
        assert after["messages"][-1]["role"] == "assistant", crash
