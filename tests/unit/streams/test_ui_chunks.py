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
