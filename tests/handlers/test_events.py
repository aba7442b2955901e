"""The sample events of `events/`, handed to the functions they are for, in the order of one conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import EventSink, Notice
from perdure.testing.lambda_harness import LambdaHarness
from tests.build.cloudformation import ROOT
from tests.handlers.agents import snapshot

ANSWERED: dict[str, Any] = {"batchItemFailures": []}

# Which function each event is for.
FUNCTIONS = {
    "api-health": "api",
    "api-read-session": "api",
    "api-resolve-interrupt": "api",
    "api-send-input": "api",
    "api-socket-ticket": "api",
    "authorize-stream": "authorize_stream",
    "call-single-attempt-tool": "call_single_attempt_tool",
    "call-tool": "call_tool",
    "cancel-tool-task": "cancel_tool_task",
    "deliver-notices": "deliver_notices",
    "fire-timer": "fire_timer",
    "poll-tool-task": "poll_tool_task",
    "relay-commits": "relay_commits",
    "record-dead-letter": "record_dead_letter",
    "run-model": "run_model",
    "socket-authorize": "authorize",
    "socket-connect": "socket",
    "socket-disconnect": "socket",
    "socket-ping": "socket",
    "socket-attach": "socket",
    "stream-events": "stream",
    "sweep": "sweep",
}


def event(name: str) -> dict[str, Any]:
    return dict(json.loads((ROOT / "events" / f"{name}.json").read_text(encoding="utf-8")))


def handed_over(harness: LambdaHarness, name: str) -> dict[str, Any]:
    done = harness.invoke(FUNCTIONS[name], event(name))
    assert done.error is None, done.error
    assert done.answer is not None
    return done.answer


def test_there_is_an_event_for_every_function_and_every_event_is_known() -> None:
    assert {path.stem for path in (ROOT / "events").glob("*.json")} == set(FUNCTIONS)
    assert {path.parent.name for path in (ROOT / "functions").glob("*/app.py")} == set(FUNCTIONS.values())


def test_the_events_of_one_conversation_make_that_conversation(harness: LambdaHarness) -> None:
    accepted = handed_over(harness, "api-send-input")
    model = handed_over(harness, "run-model")
    tool = handed_over(harness, "call-tool")
    harness.settle()
    read = handed_over(harness, "api-read-session")

    assert accepted["statusCode"] == 202
    assert (model, tool) == (ANSWERED, ANSWERED)
    body = json.loads(read["body"])
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool", "assistant"]


def test_the_dead_letter_of_a_step_that_never_ran_fails_its_turn(harness: LambdaHarness) -> None:
    handed_over(harness, "api-send-input")

    assert handed_over(harness, "record-dead-letter") == ANSWERED

    read = json.loads(handed_over(harness, "api-read-session")["body"])
    assert read["state"]["last_turn_error"]["code"] == "internal"


@pytest.mark.parametrize(
    "name", ["run-model", "call-tool", "call-single-attempt-tool", "poll-tool-task", "cancel-tool-task", "fire-timer"]
)
def test_a_message_about_a_session_that_was_never_written_is_old_news(harness: LambdaHarness, name: str) -> None:
    assert handed_over(harness, name) == ANSWERED
    assert snapshot(harness)["state"] is None


def test_a_viewer_gets_in_with_a_ticket_only_and_is_answered(harness: LambdaHarness) -> None:
    handed_over(harness, "api-send-input")

    assert handed_over(harness, "socket-authorize")["policyDocument"]["Statement"][0]["Effect"] == "Deny"
    assert handed_over(harness, "socket-connect") == {"statusCode": 200}
    assert handed_over(harness, "socket-attach") == {"statusCode": 200}, "what comes of it is posted"
    assert json.loads(handed_over(harness, "socket-ping")["body"]) == {"type": "pong"}
    assert handed_over(harness, "socket-disconnect") == {"statusCode": 200}


def test_a_reader_gets_what_the_authorizers_context_says_until_the_token_ends(harness: LambdaHarness) -> None:
    handed_over(harness, "api-send-input")

    streamed = handed_over(harness, "stream-events")
    text = b"".join(streamed["pieces"]).decode()

    assert (streamed["statusCode"], streamed["broken"]) == (200, False)
    assert text.index("event: turn_started") < text.index("event: access_denied")


def test_a_ticket_that_was_never_issued_opens_no_stream(harness: LambdaHarness) -> None:
    done = harness.invoke("authorize_stream", event("authorize-stream"))

    assert str(done.error) == "Unauthorized", "the one message that API Gateway makes a 401 of"


def test_the_other_requests_are_answered(harness: LambdaHarness) -> None:
    assert handed_over(harness, "api-health")["statusCode"] == 200
    assert handed_over(harness, "api-socket-ticket")["statusCode"] in (200, 201)
    assert handed_over(harness, "api-resolve-interrupt")["statusCode"] == 404
    assert handed_over(harness, "sweep") == {"sessions": 0}


def test_a_batch_of_the_stream_gives_sinks_what_its_session_has(harness: LambdaHarness) -> None:
    notices: list[Notice] = []
    harness.deliver_to([EventSink("audit", notices.append)])
    handed_over(harness, "api-send-input")

    assert handed_over(harness, "relay-commits") == {"messages": 1}
    assert handed_over(harness, "deliver-notices") == ANSWERED

    assert [event["type"] for event in notices[0].events] == ["turn_started"]
