"""AG-UI runs: whatever a model says, a client is told it in the protocol's own order, and shows what was committed."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.feed import Live
from perdure.streams.ag_ui_messages import ag_ui_messages
from tests.unit.streams.ag_ui_builders import HI, one_answer, shown, stepped, two_calls
from tests.unit.streams.ag_ui_client import Screen, told, verified, words
from tests.unit.streams.ui_builders import (
    COMPLETED,
    Log,
    begun,
    called,
    deferred,
    event,
    failed,
    reasoning,
    result,
    said,
    text,
    user,
)

JsonObject = dict[str, Any]


def test_an_answer_streams_inside_its_step_and_ends_the_run() -> None:
    log = one_answer(("text", "Hel"), ("text", "lo"), answer=said("m-2", text("Hello")))

    events = verified(told(log.items, messages=[HI]))

    assert words(events) == [
        "RUN_STARTED",
        "STEP_STARTED model-1",
        "START model-1",
        "CONTENT model-1 Hel",
        "CONTENT model-1 lo",
        "END model-1",
        "STEP_FINISHED model-1",
        "RUN_FINISHED",
    ]
    assert events[0] == {"type": "RUN_STARTED", "threadId": "s-1", "runId": "run-1", "protocolVersion": "1.0"}
    assert events[-1]["outcome"] == {"type": "success"}
    assert events[-1]["result"] == {"turn_id": "turn-1"}


@pytest.mark.parametrize("seen", [(), ("Hel",), ("Hel", "lo")])
def test_what_was_not_seen_live_comes_from_the_committed_message(seen: tuple[str, ...]) -> None:
    log = one_answer(*(("text", piece) for piece in seen), answer=said("m-2", text("Hello")))

    events = verified(told(log.items, messages=[HI]))

    assert not [event for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
    assert Screen(HI).take(events).shown == [("user", "hi"), ("assistant", "Hello")]


def test_an_answer_that_was_committed_otherwise_than_shown_is_put_right() -> None:
    log = one_answer(("text", "Hello wor"), answer=said("m-2", text("Hello"), status="interrupted"))

    assert shown(log.items) == [("user", "hi"), ("assistant", "Hello")]


def test_reasoning_is_a_message_of_its_own_in_front_of_the_answer() -> None:
    answer = said("m-2", reasoning("Hmm"), text("Hello"))
    log = one_answer(("reasoning", "H"), ("reasoning", "mm"), ("text", "Hel"), answer=answer)

    events = verified(told(log.items, messages=[HI]))

    kinds = [event["type"] for event in events if event["type"].startswith("REASONING")]
    assert kinds == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        *(["REASONING_MESSAGE_CONTENT"] * 2),
        "REASONING_MESSAGE_END",
        "REASONING_END",
    ]
    assert Screen(HI).take(events).shown == [("user", "hi"), ("reasoning", "Hmm"), ("assistant", "Hello")]


def test_each_segment_of_an_answer_is_a_message_and_its_calls_belong_to_the_last_text() -> None:
    log = Log()
    log.commit(*begun())
    pieces = (("reasoning", "H"), ("text", "Hel"), ("text", "lo"), ("text", "there"), ("reasoning", "m"))
    for number, (kind, piece) in zip((0, 1, 1, 2, 3), pieces, strict=True):
        log.live(f"{kind}_delta", "model-1", text=piece, segment=number)
    answer = said("m-2", reasoning("H"), text("Hello"), text("there"), reasoning("m"), called("call-1"))
    log.commit(answer, *stepped("model-1"), deferred("call-1"))

    events = verified(told(log.items, messages=[HI]), whole=False)

    assert Screen(HI).take(events).shown == [
        ("user", "hi"),
        ("reasoning", "H"),
        ("assistant", "Hello"),
        ("assistant", "there", "look({})"),
        ("reasoning", "m"),
    ]
    assert "MESSAGES_SNAPSHOT" not in [event["type"] for event in events]
    assert [m["id"] for m in ag_ui_messages(answer, "model-1")] == [m["id"] for m in Screen().take(events).messages]


def test_segments_that_are_committed_in_another_order_end_up_in_that_order() -> None:
    pieces = (("text", "Hel"), ("reasoning", "H"), ("text", "lo"), ("reasoning", "m"))
    log = one_answer(*pieces, answer=said("m-2", reasoning("Hm"), text("Hello")))

    assert shown(log.items) == [("user", "hi"), ("reasoning", "Hm"), ("assistant", "Hello")]
    assert shown(log.commits) == shown(log.items)


def test_live_text_of_which_some_is_missing_waits_for_the_commit() -> None:
    log = Log()
    log.commit(*begun())
    for piece in ("Hel", "lo ", "wor", "ld"):
        log.live("text_delta", "model-1", text=piece)
    log.commit(said("m-2", text("Hello world")), *stepped("model-1"), COMPLETED)
    del log.items[2]

    events = verified(told(log.items, messages=[HI]))

    assert [event["delta"] for event in events if "delta" in event] == ["Hel", "lo world"]


def test_an_applications_own_events_go_out_as_they_are() -> None:
    log = Log()
    log.commit(*begun())
    log.live("shop.basket", "call-1", items=2)
    log.commit(event("shop.paid", amount=7))

    events = verified(told(log.items), whole=False)

    ours = {event["name"]: event["value"] for event in events if event["type"] == "CUSTOM"}
    assert (ours["shop.basket"], ours["shop.paid"]) == ({"items": 2}, {"amount": 7})


def test_a_file_that_a_model_made_is_told_of() -> None:
    made = {"type": "file", "reference": "f-1", "media_type": "image/png"}
    log = one_answer(answer=said("m-2", text("Here"), made))

    events = verified(told(log.items, messages=[HI]))

    assert [e["value"] for e in events if e.get("name") == "perdure.file"] == [{"message_id": "m-2", **made}]


def test_an_answer_that_begins_anew_gets_a_new_id_and_stands_alone() -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1", text="Hel")
    log.live("attempt_reset", "model-1", reason="malformed")
    log.live("text_delta", "model-1", text="Good ")
    log.live("text_delta", "model-1", 2, text="Good day")
    log.commit(said("m-2", text("Good day")), event("attempt_reset", "model-1"), *stepped("model-1", 2), COMPLETED)

    events = verified(told(log.items, messages=[HI]))

    began = [event["messageId"] for event in events if event["type"] == "TEXT_MESSAGE_START"]
    assert began == ["model-1", "model-1~2", "model-1~3"]
    assert Screen(HI).take(events).messages == [HI, {"id": "model-1", "role": "assistant", "content": "Good day"}]


def test_the_attempt_behind_one_whose_worker_was_lost_gets_new_ids_too() -> None:
    log = Log()
    log.commit(*begun())
    log.live("reasoning_delta", "model-1", text="Well")
    log.live("text_delta", "model-1", text="Hel")
    log.commit(event("attempt_reset", "model-1", reason="lost"))
    log.live("reasoning_delta", "model-1", 2, text="So")
    log.live("text_delta", "model-1", 2, text="Good day")
    log.commit(*stepped("model-1", 2), said("m-2", reasoning("So"), text("Good day")), COMPLETED)

    events = verified(told(log.items, messages=[HI]))

    began = [event["messageId"] for event in events if event["type"].endswith("MESSAGE_START")]
    assert began == ["model-1-reasoning", "model-1", "model-1~2-reasoning", "model-1~2"]
    assert Screen(HI).take(events).shown == [("user", "hi"), ("reasoning", "So"), ("assistant", "Good day")]


def test_nothing_of_an_attempt_that_waits_for_its_reconnect_is_left() -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1", text="Hel")
    log.commit(event("attempt_reset", "model-1", reason="timeout"), event("model_retry_scheduled", "model-1"))

    screen = Screen(HI).take(verified(told(log.items, messages=[HI]), whole=False))

    assert screen.messages == [HI]


def test_calls_follow_the_text_they_belong_to_and_results_their_calls() -> None:
    events = verified(told(two_calls().items, messages=[HI]))

    assert words(events)[2:] == [
        "START model-1",
        "CONTENT model-1 Let me",
        "CONTENT model-1  see.",
        "END model-1",
        "START call-1",
        'ARGS call-1 {"city":"Oslo"}',
        "END call-1",
        "START call-2",
        "ARGS call-2 {}",
        "END call-2",
        "STEP_FINISHED model-1",
        "RESULT result-call-2 call-2 rain",
        "RESULT result-call-1 call-1 it broke",
        "STEP_STARTED model-2",
        "START model-2",
        "CONTENT model-2 It ",
        "CONTENT model-2 rains.",
        "END model-2",
        "STEP_FINISHED model-2",
        "RUN_FINISHED",
    ]
    assert {event["parentMessageId"] for event in events if event["type"] == "TOOL_CALL_START"} == {"model-1"}
    failure = next(event for event in events if event.get("messageId") == "result-call-1")
    assert failure["metadata"] == {"perdure": {"status": "failed"}}


def test_a_result_that_is_shown_in_part_says_so() -> None:
    log = Log()
    log.commit(*begun())
    log.commit(said("m-2", called("call-1")), *stepped("model-1"), deferred("call-1"))
    message, finished = result("call-1", "ra")
    message["parts"][0] |= {"truncated": True, "bytes": 4}
    log.commit(message, finished)

    (told_of,) = [e for e in told(log.items, messages=[HI]) if e["type"] == "TOOL_CALL_RESULT"]

    assert told_of["metadata"] == {"perdure": {"truncated": True, "bytes": 4}}


def test_a_call_without_a_word_makes_its_message() -> None:
    log = Log()
    log.commit(*begun())
    log.commit(said("m-2", called("call-1")), *stepped("model-1"), deferred("call-1"))

    screen = Screen(HI).take(verified(told(log.items, messages=[HI]), whole=False))

    assert screen.shown == [("user", "hi"), ("assistant", "", "look({})")]


def test_what_the_protocol_has_no_word_for_goes_out_under_ours_and_once() -> None:
    events = verified(told(two_calls().items, messages=[HI]))

    ours = [(event["name"], event["value"].get("step_execution_id")) for event in events if event["type"] == "CUSTOM"]
    assert ours.count(("perdure.tool_call_started", "call-1")) == 1
    assert ("perdure.tool_progress", "call-1") in ours
    assert ("perdure.turn_started", None) in ours
    assert not {"perdure.text_delta", "perdure.model_finished", "perdure.turn_completed"} & {name for name, _ in ours}


def test_a_piece_that_is_told_twice_is_shown_once() -> None:
    log = one_answer(("text", "Hel"), ("text", "lo"), answer=said("m-2", text("Hello")))
    lives = [item for item in log.items if isinstance(item, Live)]

    events = told([log.items[0], *lives, *lives, log.items[-1]], messages=[HI])

    assert [event["delta"] for event in verified(events) if "delta" in event] == ["Hel", "lo"]


def test_usage_is_that_of_the_runs_own_calls_and_what_was_not_reported_is_left_out() -> None:
    events = told(two_calls().items, messages=[HI])

    assert events[-1]["usage"] == [
        {"inputTokens": 18, "outputTokens": 8, "totalTokens": 26, "cachedInputTokens": 4},
    ]


def test_a_count_that_one_call_did_not_report_is_no_count_of_the_run() -> None:
    log = Log()
    log.commit(*begun())
    log.commit(said("m-2", called("call-1")), *stepped("model-1"), deferred("call-1"))
    log.commit(*result("call-1", "ok"))
    log.commit(said("m-3", text("Hi")), *stepped("model-2", output_tokens={"provenance": "unavailable"}), COMPLETED)

    assert told(log.items)[-1]["usage"] == [{"inputTokens": 18, "cachedInputTokens": 4}]


@pytest.mark.parametrize("seen", [(), (("text", "Hel"),)])
def test_a_failed_turn_ends_in_one_error_and_leaves_no_half_answer(seen: tuple[tuple[str, str], ...]) -> None:
    log = Log()
    log.commit(*begun())
    for kind, piece in seen:
        log.live(f"{kind}_delta", "model-1", text=piece)
    log.commit(*stepped("model-1"), failed("provider", "the model says no"))

    events = verified(told(log.items, messages=[HI]))

    assert events[-1] | {"usage": None} == {
        "type": "RUN_ERROR",
        "message": "the model says no",
        "code": "provider",
        "usage": None,
    }
    assert Screen(HI).take(events).messages == [HI]


@pytest.mark.parametrize(
    "end", [event("turn_cancelled", message_count=1), event("turn_steered", steered_message_count=1)]
)
def test_a_turn_that_was_stopped_or_gave_way_is_cancelled(end: JsonObject) -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1", text="Hello wor")
    log.commit(said("m-2", text("Hello wor"), status="interrupted"), *stepped("model-1"), end)

    events = verified(told(log.items, messages=[HI]))

    assert events[-1]["outcome"] == {"type": "cancelled"}
    assert "result" not in events[-1]
    assert Screen(HI).take(events).shown == [("user", "hi"), ("assistant", "Hello wor")]


def test_a_superseded_turn_leaves_nothing_that_it_said() -> None:
    log = two_calls()
    log.items.pop()
    log.commit(
        said("m-3", text("It"), status="superseded"),
        *stepped("model-2"),
        event("turn_cancelled", disposition="discard"),
    )

    assert shown(log.items) == [("user", "hi")]


def test_a_turn_that_was_superseded_before_anyone_looked_shows_nothing() -> None:
    log = Log()
    log.commit(*begun())
    log.commit(said("m-2", text("It"), called("call-1"), status="superseded"), *stepped("model-1"), deferred("call-1"))
    log.commit(*result("call-1", "rain"), event("turn_cancelled", disposition="discard"))

    events = verified(told(log.items, messages=[HI]))

    assert not [event for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
    assert Screen(HI).take(events).messages == [HI]


def test_nothing_is_left_of_an_answer_whose_worker_was_lost_for_good() -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1", text="Hel")
    log.commit(failed("timeout"))

    assert shown(log.items) == [("user", "hi")]


def test_the_result_of_a_call_that_the_client_never_saw_is_left_out() -> None:
    log = Log()
    log.commit(*result("call-0", "ok"), event("inbox.joined", message_id="m-1", sequence=4), user("m-1", "hi"))
    log.commit(said("m-2", text("Hello both")), *stepped("model-1"), COMPLETED)

    assert shown(log.items) == [("user", "hi"), ("assistant", "Hello both")]
