"""Tool calls, approvals and questions as AI SDK chunks."""

import json
from dataclasses import replace
from typing import Any

import pytest

from perdure.feed import Commit
from perdure.streams.ui_chunks import UIChunks
from perdure.streams.ui_events import EVENT
from tests.unit.streams.ui_builders import (
    Log,
    asked,
    begun,
    called,
    decided,
    deferred,
    event,
    mapped,
    message_of,
    result,
    said,
    stepped,
    through_json,
    with_calls,
)

JsonObject = dict[str, Any]


def test_the_start_of_a_read_is_told_once_though_its_end_tells_of_it_again() -> None:
    log, mapping = Log(), UIChunks("turn-1")
    log.commit(*begun())
    with_calls(log, called("call-2-0"))
    log.live("tool_call_started", "call-2-0", tool_call_id="call-2-0", tool_name="look")
    log.commit(
        event("tool_call_started", "call-2-0", tool_call_id="call-2-0", tool_name="look"), *result("call-2-0", "found")
    )

    chunks = []
    for item in log.items:
        mapping = through_json(mapping)
        chunks += mapping.take(item)

    assert [c["data"]["type"] for c in chunks if c["type"] == EVENT].count("tool_call_started") == 1


def test_arguments_that_are_no_object_are_an_error_of_the_input() -> None:
    log = Log()
    log.commit(*begun())
    part = {"type": "tool_call", "tool_call_id": "call-2-0", "tool_name": "look", "arguments_text": "{oops"}
    settled = result("call-2-0", "invalid look arguments: no JSON", "failed")
    log.commit(*stepped("model-1-0"), said("message-2-0", part), deferred("call-2-0"), *settled)

    chunks = mapped(log.items)

    assert [c["type"] for c in chunks[-2:]] == ["tool-input-error", "tool-output-error"]
    assert message_of(chunks)["parts"][-1] == {
        "type": "dynamic-tool",
        "toolCallId": "call-2-0",
        "toolName": "look",
        "state": "output-error",
        "input": "{oops",
        "errorText": "invalid look arguments: no JSON",
    }


def test_a_call_that_its_provider_ran_says_so() -> None:
    log = Log()
    log.commit(*begun())
    part = called("call-2-0", "search", q="x") | {"provider_executed": True, "tool_metadata": {"icon": "lens"}}
    with_calls(log, part)

    chunk = mapped(log.items)[-1]

    assert chunk["providerExecuted"] is True
    assert chunk["toolMetadata"] == {"icon": "lens"}
    assert chunk["dynamic"] is True


def test_a_call_that_is_rejected_without_asking_anybody_tells_of_an_automatic_decision() -> None:
    log = Log()
    log.commit(*begun())
    with_calls(log, called("call-2-0"))
    log.commit(*result("call-2-0", "not in this mode", "rejected"))

    part = message_of(mapped(log.items))["parts"][-1]

    assert part["state"] == "output-denied"
    assert part["approval"] == {"id": "call-2-0", "isAutomatic": True, "approved": False, "reason": "not in this mode"}


def test_an_approval_that_is_withdrawn_settles_its_part() -> None:
    log = Log()
    log.commit(*begun())
    with_calls(log, called("call-2-0"))
    log.commit(asked("call-2-0"))
    gone = result("call-2-0", "withdrawn", "rejected")
    log.commit(decided("call-2-0", cancellation_reason="turn_cancelled"), *gone)

    part = message_of(mapped(log.items))["parts"][-1]

    assert part["state"] == "output-denied"
    assert part["approval"] == {"id": "call-2-0", "approved": False, "reason": "turn_cancelled"}


def a_question(**more: Any) -> JsonObject:
    asked_for = {"interrupt_id": "call-2-0", "tool_call_id": "call-2-0", "tool_name": "ask_user", "question": "Which?"}
    return event("interrupt_raised", kind="question", **asked_for, **more)


@pytest.mark.parametrize(
    ("how", "shown"),
    [
        ({"answered": True, "answer": "this"}, {"state": "answered", "answer": "this"}),
        ({"answered": False, "rejection_message": "why?"}, {"state": "declined", "message": "why?"}),
        (
            {"answered": False, "actor": {"issuer": "perdure", "subject": "deadline"}},
            {"state": "deadline_passed"},
        ),
        ({"cancellation_reason": "steered"}, {"state": "withdrawn"}),
    ],
)
def test_a_question_is_one_part_that_ends_with_its_answer(how: JsonObject, shown: JsonObject) -> None:
    log = Log()
    log.commit(*begun())
    with_calls(log, called("call-2-0", "ask_user"))
    log.commit(a_question(choices=["this", "that"], allows_free_text=False))
    log.commit(event("interrupt_resolved", interrupt_id="call-2-0", kind="question", **how))
    mapping = UIChunks("turn-1")

    chunks = []
    for item in log.items:
        mapping = through_json(mapping)
        chunks += mapped([item], mapping)

    part = message_of(chunks)["parts"][-1]
    assert (part["type"], part["id"]) == ("data-question", "call-2-0")
    question = {"question": "Which?", "choices": ["this", "that"], "allows_free_text": False}
    place = {"interrupt_id": "call-2-0", "kind": "question", "tool_call_id": "call-2-0", "tool_name": "ask_user"}
    assert part["data"] == place | question | shown


def test_a_question_too_large_to_keep_still_ends_with_its_answer() -> None:
    log = Log()
    log.commit(*begun())
    with_calls(log, called("call-2-0", "ask_user"))
    log.commit(a_question(schema={"description": "x" * 20_000}))
    log.commit(event("interrupt_resolved", interrupt_id="call-2-0", kind="question", answered=True, answer="yes"))
    mapping = UIChunks("turn-1")

    chunks = mapped(log.items, mapping)

    assert len(str(mapping.state())) < 1000
    assert message_of(chunks)["parts"][-1]["data"]["answer"] == "yes"


def test_the_state_stays_small_however_many_long_questions_are_open() -> None:
    log, count = Log(), 64
    log.commit(*begun())
    ids = [f"call-2-{number}" for number in range(count)]
    with_calls(log, *(called(call_id, "ask") for call_id in ids))
    log.commit(*(deferred(call_id, "ask") for call_id in ids))
    about = {"kind": "question", "tool_name": "ask", "question": "x" * 8_000}
    log.commit(
        *(event("interrupt_raised", i, interrupt_id=f"{i}-input-1", tool_call_id=i, **about) for i in ids),
        *(event("interrupt_resolved", i, interrupt_id=f"{i}-input-1", kind="question", answered=True) for i in ids),
    )
    mapping = UIChunks("turn-1", keep_open=True)
    *before, commit = log.items
    assert isinstance(commit, Commit)
    chunks = mapped(before, mapping) + mapping.take(replace(commit, events=commit.events[:count]))
    size = len(json.dumps(mapping.state()))
    chunks += mapping.take(replace(commit, events=commit.events[count:]))
    states = [part["data"]["state"] for part in message_of(chunks)["parts"] if part["type"] == "data-question"]

    assert size < 200 * 1024, "an item of DynamoDB has 400 KB"
    assert states == ["answered"] * count
