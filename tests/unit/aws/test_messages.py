"""A queue message is read strictly: what is missing, wrong or of another version is none of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.aws.messages import StepQueueMessage, TimerMessage, UnreadableMessageError, read_step_or_timer

STEP = {"schema_version": 1, "tenant": "acme", "session_id": "s-1", "kind": "run_model", "step_id": "m-1", "attempt": 1}
TIMER = {"tenant": "acme", "session_id": "s-1", "timer_id": "call-1", "fence": 3, "due_at_ms": 1_700_000_000_000}


def test_a_message_is_written_as_it_is_read_and_a_field_of_a_newer_version_is_left_out() -> None:
    message = StepQueueMessage.read(json.dumps(STEP | {"not_before_ms": 7, "newer": "field"}))

    assert json.loads(message.body()) == STEP | {"not_before_ms": 7}
    assert StepQueueMessage.read(json.dumps(STEP)).body() == json.dumps(STEP, separators=(",", ":"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema_version": 2},
        {"schema_version": True},
        {"tenant": None},
        {"tenant": 7},
        {"step_id": ["m-1"]},
        {"session_id": 7},
        {"kind": "drop_table"},
        {"kind": ["run_model"]},
        {"attempt": 0},
        {"attempt": True},
        {"attempt": "1"},
        {"not_before_ms": 1.5},
    ],
    ids=json.dumps,
)
def test_a_message_with_a_wrong_field_is_none_of_ours(wrong: dict[str, Any]) -> None:
    with pytest.raises(UnreadableMessageError):
        StepQueueMessage.read(json.dumps(STEP | wrong))


@pytest.mark.parametrize(
    "wrong", [{"timer_id": 1}, {"fence": "3"}, {"fence": True}, {"due_at_ms": 1.5}, {"due_at_ms": None}], ids=json.dumps
)
def test_a_timers_message_with_a_wrong_field_is_none_of_ours(wrong: dict[str, Any]) -> None:
    with pytest.raises(UnreadableMessageError):
        read_step_or_timer(json.dumps(TIMER | wrong))


@pytest.mark.parametrize("missing", [name for name in STEP if name != "schema_version"])
def test_a_message_that_lacks_a_field_is_none_of_ours(missing: str) -> None:
    with pytest.raises(UnreadableMessageError):
        StepQueueMessage.read(json.dumps({name: value for name, value in STEP.items() if name != missing}))


@pytest.mark.parametrize("body", ["", "{", "[]", "null", "7", '"text"', "[" * 100_000, "1" * 5_000])
def test_a_body_that_is_no_json_object_is_none_of_ours(body: str) -> None:
    for read in (StepQueueMessage.read, TimerMessage.read, read_step_or_timer):
        with pytest.raises(UnreadableMessageError):
            read(body)


def test_a_dead_letter_is_read_as_what_it_was() -> None:
    assert type(read_step_or_timer(json.dumps(STEP))) is StepQueueMessage
    assert type(read_step_or_timer(json.dumps(TIMER))) is TimerMessage
    assert json.loads(TimerMessage.read(json.dumps(TIMER)).body()) == {"schema_version": 1, **TIMER}
