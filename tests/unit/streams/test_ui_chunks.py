"""A turn as AI SDK chunks: the same message live and replayed, whatever happened on the way."""

from collections.abc import Callable
from typing import Any

from perdure.streams.ui_chunks import TOKEN, UIChunks
from perdure.streams.ui_events import EVENT
from perdure.streams.ui_reducer import MessageReducer
from perdure.streams.ui_token import ResumePlace, read_token
from tests.unit.streams.ui_builders import (
    COMPLETED,
    Item,
    Log,
    begun,
    called,
    event,
    mapped,
    message_of,
    reasoning,
    said,
    stepped,
    text,
    through_json,
    types,
    user,
    with_calls,
)
from tests.unit.streams.ui_turns import a_steered_turn, an_answer, every_turn

JsonObject = dict[str, Any]


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


def test_what_was_shown_of_an_answer_that_nobody_kept_is_taken_back_from_every_client() -> None:
    log = a_steered_turn()
    followed = MessageReducer()
    followed.take_all(mapped(log.items))
    cut_off = MessageReducer()
    cut_off.take_all(mapped(log.items[:3]))

    exactly = mapped(log.commits, UIChunks("turn-1", from_step=1))

    assert followed.message["parts"] == [{"type": "step-start"}]  # which shows nothing
    assert exactly == [{"type": "reset-step"}, {"type": "finish", "finishReason": "other"}]
    assert cut_off.take_all(exactly) == followed.message


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


def test_what_was_taken_back_live_is_not_taken_back_again_by_the_commit_that_tells_of_it() -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1-0", text="I was")
    log.live("attempt_reset", "model-1-0", reason="cut")
    retry = {"retry_in_ms": 250, "attempt": 1, "reason": "cut"}
    log.live("model_retry_scheduled", "model-1-0", **retry)
    log.live("text_delta", "model-1-0", text="Hi")
    started, used, finished = stepped("model-1-0")
    told = (event("attempt_reset", "model-1-0", reason="cut"), event("model_retry_scheduled", "model-1-0", **retry))
    log.commit(started, *told, used, finished, said("message-2-0", text("Hi there")), COMPLETED)
    mapping = UIChunks("turn-1")

    chunks = [chunk for item in log.items for chunk in mapping.take(item)]

    assert types(chunks).count("reset-step") == 1
    events = [chunk["data"]["type"] for chunk in chunks if chunk["type"] == EVENT]
    assert events.count("model_retry_scheduled") == 1
    assert message_of(chunks)["parts"][1]["text"] == "Hi there"


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


def test_live_text_of_an_attempt_or_a_step_that_is_over_is_left_out() -> None:
    log, mapping = Log(), UIChunks("turn-1")
    log.commit(*begun())
    log.live("text_delta", "model-1-0", text="I was")
    log.commit(event("attempt_reset", "model-1-0", reason="lost"))
    lost = log.live("text_delta", "model-1-0", text=" saying")
    mapped(log.items[:-1], mapping)

    assert mapped([lost], through_json(mapping)) == []
    joined = log.commit(user("m-2", "now"), event("inbox.joined", message_id="m-2", sequence=2))
    mapping.take(joined)
    assert mapped([lost], through_json(mapping)) == []
    assert types(mapped([log.live("text_delta", "model-1-0", 2, text="Hi")], mapping))[0] == "start-step"
    late = log.live("text_delta", "model-0-0", text="older")
    assert mapped([late], through_json(mapping)) == []


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


def test_a_part_that_had_ended_and_goes_on_in_the_commit_is_given_anew() -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1-0", text="One", segment=0)
    log.live("reasoning_delta", "model-1-0", text="hm", segment=1)
    log.commit(*stepped("model-1-0"), said("message-2-0", text("One more"), reasoning("hm")), COMPLETED)

    parts = message_of(mapped(log.items))["parts"]

    assert [part.get("text") for part in parts[1:]] == ["One more", "hm"]


def test_half_a_character_between_two_pieces_is_no_trouble() -> None:
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1-0", text="\ud83d")
    log.live("text_delta", "model-1-0", text="\ude00")
    log.commit(*stepped("model-1-0"), said("message-2-0", text("\U0001f600")), COMPLETED)

    assert message_of(mapped(log.items))["parts"][1]["text"] == "\U0001f600"


def test_the_segments_of_an_answer_are_parts_that_start_and_end() -> None:
    log = Log()
    log.commit(*begun())
    for segment, words in enumerate(["One.", "Two."]):
        log.live("text_delta", "model-1-0", text=words[:2], segment=segment)
        log.live("text_delta", "model-1-0", text=words[2:], segment=segment)
    log.commit(*stepped("model-1-0"), said("message-2-0", text("One."), text("Two.")), COMPLETED)

    chunks = mapped(log.items)

    part = ["text-start", "text-delta", "text-delta", "text-end"]
    assert types(chunks) == ["start", "start-step", *part, *part, "finish-step", "finish"]
    assert [p["text"] for p in message_of(chunks)["parts"][1:]] == ["One.", "Two."]


def test_behind_a_gap_in_the_progress_nothing_live_is_shown_until_the_commit_brings_the_rest() -> None:
    log, mapping = Log(), UIChunks("turn-1")
    log.commit(*begun())
    log.live("text_delta", "model-1-0", text="One ", segment=0)
    log.live("progress.gap", "model-1-0", reason="budget")
    mapped(log.items, mapping)
    again = log.live("text_delta", "model-1-0", text="three", segment=0)

    assert mapped([again], mapping) == []
    rest = log.commit(*stepped("model-1-0"), said("message-2-0", text("One two three")), COMPLETED)
    assert mapped([rest], mapping)[0] == {"type": "text-delta", "id": "model-1-0-text-1", "delta": "two three"}


def test_events_without_a_chunk_of_their_own_reach_the_page_as_they_are() -> None:
    log, mapping = Log(), UIChunks("turn-1")
    log.commit(*begun())
    drafts = log.live("tool.arguments_delta", "model-1-0", index=0, text='{"a"', tool_name="look")
    mine = log.commit(event("shop.stock_checked", "call-2-0", left=3))
    mapped(log.items[:1], mapping)

    chunks = [*mapping.take(drafts), *mapping.take(mine)]

    told = [chunk for chunk in chunks if chunk["type"] == EVENT]
    assert [chunk["data"]["type"] for chunk in told] == ["tool.arguments_delta", "shop.stock_checked"]
    assert all(chunk["transient"] and "cursor" not in chunk["data"] for chunk in told)
    assert told[1]["data"]["payload"] == {"left": 3}
