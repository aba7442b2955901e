"""A turn as AI SDK chunks: the same message live and replayed, whatever happened on the way."""

from collections.abc import Callable
from typing import Any

import pytest

from perdure.streams.ui_chunks import TOKEN, UIChunks
from perdure.streams.ui_reducer import MessageReducer
from perdure.streams.ui_token import ResumePlace, read_token
from tests.unit.streams.ui_builders import (
    COMPLETED,
    Item,
    Log,
    asked,
    begun,
    called,
    decided,
    deferred,
    event,
    failed,
    mapped,
    reasoning,
    result,
    said,
    stepped,
    text,
    through_json,
    types,
    user,
    with_calls,
)

JsonObject = dict[str, Any]


def message_of(chunks: list[JsonObject], message: JsonObject | None = None) -> JsonObject:
    return MessageReducer(message).take_all(chunks)


def an_answer() -> Log:
    """Reasoning and text, seen live."""
    log = Log()
    log.commit(*begun())
    log.live("model_started", "model-1-0")
    log.live("reasoning_delta", "model-1-0", text="Well")
    log.live("reasoning_delta", "model-1-0", text=", now.")
    log.live("text_delta", "model-1-0", text="Hel")
    log.live("text_delta", "model-1-0", text="lo")
    log.commit(*stepped("model-1-0"), said("message-2-0", reasoning("Well, now."), text("Hello!")), COMPLETED)
    return log


def tools_and_approvals() -> Log:
    """Two steps; of three calls one is denied, one approved with other arguments, and one runs by itself."""
    log = Log()
    log.commit(*begun())
    log.live("model_started", "model-1-0")
    log.live("text_delta", "model-1-0", text="Let me")
    calls = [called("call-2-0", order=1), called("call-2-1", "pay", sum=5), called("call-2-2", "wipe")]
    log.commit(
        *stepped("model-1-0"),
        said("message-2-0", text("Let me see."), *calls),
        deferred("call-2-0"),
        deferred("call-2-1", "pay", asks=True),
        deferred("call-2-2", "wipe", asks=True),
        asked("call-2-1", "pay"),
        asked("call-2-2", "wipe"),
    )
    log.live("tool_call_started", "call-2-0", tool_call_id="call-2-0", tool_name="look")
    log.live("tool_progress", "call-2-0", tool_call_id="call-2-0", text="half")
    log.commit(event("tool.output", "call-2-0", tool_call_id="call-2-0", output="so far", preliminary=True))
    log.commit(
        event("tool_call_started", "call-2-0", tool_call_id="call-2-0", tool_name="look"), *result("call-2-0", "found")
    )
    log.commit(decided("call-2-2", approved=False, rejection_message="no"), *result("call-2-2", "denied", "rejected"))
    log.commit(decided("call-2-1", approved=True, arguments={"sum": 4}))
    log.commit(*result("call-2-1", "nobody knows", "outcome_unknown"))
    log.live("model_started", "model-7-0")
    log.live("text_delta", "model-7-0", text="Done")
    log.commit(*stepped("model-7-0"), said("message-8-0", text("Done.")), COMPLETED)
    return log


def attempts_and_joins() -> Log:
    """An attempt that is lost while a message joins, a reconnect, and a second message at the next step."""
    log = Log()
    log.commit(*begun())
    log.live("model_started", "model-1-0")
    log.live("text_delta", "model-1-0", text="I was")
    joined = event("inbox.joined", message_id="m-2", sequence=2)
    log.commit(event("attempt_reset", "model-1-0", reason="lost"), user("m-2", "and quickly"), joined)
    log.live("model_started", "model-1-0", 2)
    log.live("text_delta", "model-1-0", 2, text="Per")
    log.live("attempt_reset", "model-1-0", 2, reason="cut")
    retry = {"retry_in_ms": 250, "attempt": 1, "reason": "cut"}
    log.live("model_retry_scheduled", "model-1-0", 2, **retry)
    log.live("text_delta", "model-1-0", 2, text="Let")
    log.commit(
        event("model_started", "model-1-0", 2),
        event("attempt_reset", "model-1-0", 2, reason="cut"),
        event("model_retry_scheduled", "model-1-0", 2, **retry),
        event("model_finished", "model-1-0", 2, status="completed"),
        said("message-3-0", text("Let me see."), called("call-3-0")),
        deferred("call-3-0"),
    )
    log.commit(*result("call-3-0", "found"), user("m-3", "hurry"), event("inbox.joined", message_id="m-3", sequence=6))
    log.commit(*stepped("model-4-0"), said("message-5-0", text("Found.")), COMPLETED)
    return log


def a_stopped_turn() -> Log:
    """Stopped in the middle; the worker dies, and what it had said is kept without word of its step."""
    log = Log()
    log.commit(*begun())
    log.live("model_started", "model-1-0")
    log.live("text_delta", "model-1-0", text="Once upon a time")
    log.commit(event("turn_stopping", disposition="keep", reason="stopped"))
    kept = said("message-3-0", text("Once upon"), status="interrupted")
    log.commit(kept, event("turn_cancelled", message_count=1, usage={}, reason="stopped"))
    return log


def a_failed_turn() -> Log:
    """What was shown of an answer is no part of the turn, which fails."""
    log = Log()
    log.commit(*begun())
    log.live("model_started", "model-1-0")
    log.live("text_delta", "model-1-0", text="I th")
    log.commit(*stepped("model-1-0", status="failed"), failed("provider", "the provider is down"))
    return log


TURNS = [an_answer, tools_and_approvals, attempts_and_joins, a_stopped_turn, a_failed_turn]

every_turn = pytest.mark.parametrize("turn", TURNS, ids=lambda turn: turn.__name__)


def test_live_text_streams_in_parts_of_stable_ids_and_is_completed_by_the_commit() -> None:
    chunks = mapped(an_answer().items)

    assert chunks == [
        {"type": "start", "messageId": "turn-1-assistant"},
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "model-1-0-reasoning-1"},
        {"type": "reasoning-delta", "id": "model-1-0-reasoning-1", "delta": "Well"},
        {"type": "reasoning-delta", "id": "model-1-0-reasoning-1", "delta": ", now."},
        {"type": "reasoning-end", "id": "model-1-0-reasoning-1"},
        {"type": "text-start", "id": "model-1-0-text-2"},
        {"type": "text-delta", "id": "model-1-0-text-2", "delta": "Hel"},
        {"type": "text-delta", "id": "model-1-0-text-2", "delta": "lo"},
        {"type": "text-delta", "id": "model-1-0-text-2", "delta": "!"},
        {"type": "text-end", "id": "model-1-0-text-2"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
    ]


@every_turn
def test_whoever_followed_live_and_whoever_reads_it_later_have_the_same_message(turn: Callable[[], Log]) -> None:
    log = turn()
    live, later = UIChunks("turn-1"), UIChunks("turn-1")

    followed, read = message_of(mapped(log.items, live)), message_of(mapped(log.commits, later))

    assert followed == read
    assert live.steps == later.steps
    assert live.ended
    assert later.ended


@every_turn
def test_a_mapping_goes_on_in_another_process_after_any_item(turn: Callable[[], Log]) -> None:
    items = turn().items
    mapping = UIChunks("turn-1")
    whole = [mapping.take(item) for item in items]

    moved = UIChunks("turn-1")
    chunks = []
    for item in items:
        moved = through_json(moved)
        chunks.append(moved.take(item))

    assert chunks == whole
    assert moved.state() == mapping.state()


@every_turn
def test_a_client_that_lost_its_stream_anywhere_goes_on_exactly_from_the_step_it_is_in(turn: Callable[[], Log]) -> None:
    log = turn()
    whole = message_of(mapped(log.commits))

    for cut in range(1, len(log.items)):
        client, had = UIChunks("turn-1"), MessageReducer()
        had.take_all(mapped(log.items[:cut], client))
        if not client.steps:
            continue  # it has nothing that could be gone on with
        again: list[Item] = [*[i for i in log.items[:cut] if i in log.commits], *log.items[cut:]]
        resumed = UIChunks("turn-1", from_step=client.steps)
        chunks = mapped(again, resumed)

        assert chunks[0]["type"] == "reset-step", cut
        assert MessageReducer(had.message).take_all(chunks) == whole, cut


@every_turn
def test_every_token_names_the_turn_and_the_steps_of_the_client(turn: Callable[[], Log]) -> None:
    mapping = UIChunks("turn-1")

    for item in turn().items:
        chunks = mapping.take(item)
        tokens = [chunk["data"]["token"] for chunk in chunks if chunk["type"] == TOKEN]

        assert len(tokens) == (1 if chunks and not mapping.ended else 0)
        for token in tokens:
            assert chunks[-1] == {"type": TOKEN, "data": {"token": token}, "transient": True}
            assert read_token(token, "s-1") == ResumePlace("turn-1", mapping.steps)
            assert read_token(token, "s-2") is None
            assert read_token(token[:-2] + "zz", "s-1") is None


def test_another_text_than_was_shown_takes_the_step_back_and_gives_it_anew() -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1-0", text="Hello wurld")
    log.commit(*stepped("model-1-0"), said("message-2-0", text("Hello world")), COMPLETED)

    chunks = mapped(log.items)

    assert types(chunks)[4:8] == ["reset-step", "text-start", "text-delta", "text-end"]
    assert message_of(chunks)["parts"][1:] == [{"type": "text", "text": "Hello world", "state": "done"}]


# --- steps and attempts -------------------------------------------------------------------------


def test_a_new_attempt_of_a_step_takes_back_what_the_lost_one_had_shown() -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1-0", text="I was")
    log.live("model_started", "model-1-0", 2)
    log.live("text_delta", "model-1-0", text="too late")
    log.live("text_delta", "model-1-0", 2, text="Hi")

    chunks = mapped(log.items)

    assert types(chunks) == [
        "start",
        "start-step",
        "text-start",
        "text-delta",
        "reset-step",
        "text-start",
        "text-delta",
    ]
    assert message_of(chunks)["parts"][1]["text"] == "Hi"


def test_live_text_that_comes_again_or_with_a_gap_never_makes_a_wrong_message() -> None:
    log = Log()
    log.commit(*begun())
    first = log.live("text_delta", "model-1-0", text="one ")
    lost = log.live("text_delta", "model-1-0", text="two ")
    log.live("text_delta", "model-1-0", text="three")
    log.commit(*stepped("model-1-0"), said("message-2-0", text("one two three")), COMPLETED)
    seen = [item for item in log.items if item is not lost]

    chunks = mapped([*seen[:2], first, *seen[2:]])

    assert message_of(chunks)["parts"][1]["text"] == "one two three"
    assert "reset-step" not in types(chunks)


def test_live_text_behind_the_commit_of_its_step_is_left_out() -> None:
    log = Log()
    log.commit(*begun())
    with_calls(log, called("call-2-0"))
    log.live("text_delta", "model-1-0", text="late")

    assert mapped(log.items)[-1]["type"] == "tool-input-available"


def test_one_commit_may_end_a_turn_and_begin_the_next_which_is_another_message() -> None:
    log = Log()
    log.commit(*begun())
    following = {"turn_id": "turn-2"}
    second = tuple(fact | following for fact in begun("m-2", "more"))
    log.commit(*stepped("model-1-0"), said("message-2-0", text("Hello")), COMPLETED, *second)
    log.commit(*[fact | following for fact in (*stepped("model-2-0"), said("message-3-0", text("Bye")), COMPLETED)])

    first, other = mapped(log.items), mapped(log.items, UIChunks("turn-2"))

    assert [part.get("text") for part in message_of(first)["parts"]] == [None, "Hello"]
    assert message_of(other)["id"] == "turn-2-assistant"
    assert [part.get("text") for part in message_of(other)["parts"]] == [None, "Bye"]


def test_an_answer_of_text_in_several_parts_keeps_them() -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1-0", text="Same")
    log.commit(*stepped("model-1-0"), said("message-2-0", text("Same"), reasoning("hm"), text("Same")), COMPLETED)

    parts = message_of(mapped(log.items))["parts"]

    assert [(part["type"], part.get("text")) for part in parts[1:]] == [
        ("text", "Same"),
        ("reasoning", "hm"),
        ("text", "Same"),
    ]


def test_half_a_character_between_two_pieces_is_no_trouble() -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1-0", text="\ud83d")
    log.live("text_delta", "model-1-0", text="\ude00")
    log.commit(*stepped("model-1-0"), said("message-2-0", text("\U0001f600")), COMPLETED)

    assert message_of(mapped(log.items))["parts"][1]["text"] == "\U0001f600"


# --- calls, approvals and questions -------------------------------------------------------------


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
