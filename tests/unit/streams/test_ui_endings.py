"""How UI streams end, and what they wait for."""

from typing import Any

import pytest

from perdure.streams.ui_chunks import UIChunks
from tests.unit.streams.ui_builders import (
    COMPLETED,
    Log,
    asked,
    begun,
    called,
    decided,
    deferred,
    event,
    failed,
    mapped,
    result,
    said,
    stepped,
    text,
    through_json,
    types,
    user,
)

JsonObject = dict[str, Any]


# --- the end ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (COMPLETED, "stop"),
        (event("turn_completed", message_count=1, usage={}, reason="policy_stop"), "stop"),
        (event("turn_completed", message_count=1, usage={}, reason="model_call_limit"), "other"),
        (event("turn_steered", message_count=1, usage={}, steered_message_count=1), "other"),
        (event("turn_cancelled", message_count=1, usage={}, reason="stopped"), "interrupted"),
        (event("turn_cancelled", message_count=1, usage={}, reason="superseded"), "interrupted"),
        (failed("truncated"), "length"),
        (failed("filtered"), "content-filter"),
        (failed("refused"), "content-filter"),
    ],
)
def test_a_turn_finishes_with_an_honest_reason(ending: JsonObject, reason: str) -> None:
    log = Log()
    log.commit(*begun())
    log.commit(*stepped("model-1-0"), said("message-2-0", text("So far")), ending)
    mapping = UIChunks("turn-1")

    chunks = mapped(log.items, mapping)

    assert chunks[-2:] == [{"type": "finish-step"}, {"type": "finish", "finishReason": reason}]
    assert mapping.ended
    assert mapping.take(log.commits[0]) == []


@pytest.mark.parametrize("code", ["provider", "auth", "budget", "timeout", "internal", "not_accepted"])
def test_a_turn_that_fails_otherwise_has_one_error_and_it_is_the_last(code: str) -> None:
    log = Log()
    log.commit(*begun())
    log.commit(*stepped("model-1-0", status="failed"), failed(code, "the model is down"))

    chunks = mapped(log.items)

    assert chunks[-2:] == [
        {"type": "finish", "finishReason": "error"},
        {"type": "error", "errorText": "the model is down"},
    ]
    assert types(chunks).count("error") == 1


def approvals(log: Log, *, runs: bool = False) -> None:
    """Two calls wait for a person; a third runs, or not."""
    log.commit(*begun())
    calls = [called(f"call-2-{n}") for n in range(3 if runs else 2)]
    log.commit(
        *stepped("model-1-0"),
        said("message-2-0", *calls),
        deferred("call-2-0", asks=True),
        deferred("call-2-1", asks=True),
        *([deferred("call-2-2")] if runs else []),
        asked("call-2-0"),
    )


def test_a_turn_in_which_all_waits_for_people_finishes_with_tool_calls_once_nothing_follows() -> None:
    log, mapping = Log(), UIChunks("turn-1")
    approvals(log)

    mapped(log.items, mapping)
    assert mapping.may_rest
    assert mapping.rest() == [{"type": "finish-step"}, {"type": "finish", "finishReason": "tool-calls"}]
    assert mapping.ended
    assert mapping.rest() == []


def test_a_turn_in_which_something_runs_does_not_rest_until_that_has_ended() -> None:
    log, mapping = Log(), UIChunks("turn-1")
    approvals(log, runs=True)

    mapped(log.items, mapping)
    assert not mapping.may_rest
    assert mapping.rest() == []
    mapping.take(log.commit(*result("call-2-2", "done")))
    assert mapping.may_rest
    mapping.take(log.commit(decided("call-2-0", approved=True)))
    assert not mapping.may_rest


def test_a_stream_that_is_kept_open_or_whose_decision_was_just_made_does_not_rest() -> None:
    log = Log()
    approvals(log)
    kept, decided_now = UIChunks("turn-1", keep_open=True), UIChunks("turn-1", decided=["call-2-0"])

    for mapping in (kept, decided_now):
        mapped(log.items, mapping)
        assert not through_json(mapping).may_rest


def test_an_approval_by_a_grant_is_nothing_to_wait_for() -> None:
    log, mapping = Log(), UIChunks("turn-1")
    log.commit(*begun())
    granted = event("approval.by_grant", tool_call_id="call-2-0", tool_name="look", grant_id="grant-1-0")
    log.commit(*stepped("model-1-0"), said("message-2-0", called("call-2-0")), deferred("call-2-0", asks=True), granted)

    mapped(log.items, mapping)

    assert not mapping.may_rest


def test_a_stream_whose_session_is_lost_says_why() -> None:
    log, mapping = Log(), UIChunks("turn-1")
    log.commit(*begun())
    mapped(log.items, mapping)

    assert mapping.lose("it was purged") == [
        {"type": "finish", "finishReason": "other"},
        {"type": "error", "errorText": "it was purged"},
    ]
    assert mapping.ended


# --- waiting for a turn -------------------------------------------------------------------------


def test_a_message_is_followed_to_the_turn_that_takes_it_in() -> None:
    log = Log()
    log.commit(*begun())
    log.commit(event("message_queued", message_id="m-2", delivery="queue"))
    log.commit(event("message_queued", message_id="m-3", delivery="queue"))
    both = {"turn_id": "turn-2"}
    started = event("turn_started", sequence=4, message_id="m-3", message_ids=["m-2", "m-3"]) | both
    log.commit(COMPLETED, user("m-2", "a") | both, user("m-3", "b") | both, started)
    mapping = UIChunks(None, message_id="m-2")

    chunks = [chunk for item in log.items for chunk in through_json(mapping).take(item)]
    assert chunks[0] == {"type": "start", "messageId": "turn-2-assistant"}
    mapped(log.items, mapping)
    assert mapping.turn_id == "turn-2"


def test_a_message_that_joins_the_turn_it_waited_behind_ends_the_wait() -> None:
    log, mapping = Log(), UIChunks(None, message_id="m-2")
    log.commit(*begun())
    log.commit(user("m-2", "now"), event("inbox.joined", message_id="m-2", sequence=2))

    chunks = mapped(log.items, mapping)

    assert chunks == [{"type": "finish", "finishReason": "other"}]


def test_a_message_that_is_not_seen_to_wait_yet_may_have_ended_what_it_waits_behind() -> None:
    log, mapping = Log(), UIChunks(None, message_id="m-2")
    approvals(log)
    mapped(log.items, mapping)
    assert not mapping.may_rest

    mapping.take(log.commit(event("message_queued", message_id="m-2", delivery="queue")))

    assert through_json(mapping).may_rest
    assert types(mapping.rest()) == ["data-agent-event", "finish"]


@pytest.mark.parametrize("released", [False, True])
def test_a_message_behind_a_turn_that_fails_and_holds_is_told_unless_the_hold_is_released(released: bool) -> None:
    log, mapping = Log(), UIChunks(None, message_id="m-2")
    log.commit(*begun())
    log.commit(event("message_queued", message_id="m-2", delivery="queue"))
    log.commit(failed("provider", held=True))
    if released:
        log.commit(event("hold.released"))

    mapped(log.items, mapping)

    assert through_json(mapping).may_rest is not released
    assert [chunk["type"] for chunk in mapping.rest()[-1:]] == ([] if released else ["error"])


def test_it_has_to_be_told_what_to_follow() -> None:
    with pytest.raises(ValueError, match="name the turn"):
        UIChunks(None)
