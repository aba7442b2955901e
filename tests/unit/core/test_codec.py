"""Dataclasses to JSON and back."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from perdure.core.codec import decode, encode, format_time, from_millis, to_millis
from perdure.core.entries import Entry, Event
from perdure.core.head import Head, QueuedMessage
from perdure.core.usage import CallUsage
from tests.unit.core.builders import NOON, Play, a_claim, a_read, a_safe_write, a_session, a_single_write, asked_for

NOTE = "the shipment left the harbour on tuesday and is expected on friday; the customer has been told of it twice."
LONG_KEY = a_claim("a" * 64, "b" * 64)
BIG_USAGE = CallUsage(input_tokens=5123, output_tokens=237, cached_input_tokens=4096, reasoning_tokens=128)


def a_busy_session() -> Play:
    """Return a session in which every part of HEAD and of entries is in use."""
    play, (gated, _, put, pay) = asked_for(
        a_single_write("a", gated=True, approval_deadline=timedelta(hours=1)),
        a_single_write("b", gated=True),
        a_safe_write(arguments=None, arguments_text="\ud83d", provider_call_id="g1"),
        a_single_write(),
    )
    play.send("queued 🚀 \x00", metadata={"a": [1, 2.5, None, ""]}, receipts=(a_claim("k"),))
    play.reject(gated, "no")
    play.starts(pay)
    play.runs(put, "it failed", "error")
    play.stop(disposition="discard")
    return play


def test_every_entry_of_a_plain_turn_is_under_a_kilobyte_and_so_one_write_unit() -> None:
    # docs/decisions/0004
    play = Play()
    for _ in range(10):
        play.send("Please read the note about the shipment and tell me when it will be here.", receipts=(LONG_KEY,))
        (look,) = play.model_asks(a_read(), usage=(BIG_USAGE,), run_state={"model_calls": 1})
        play.runs(look, NOTE)
        play.model_answers(f"I have read one note, and it says: {NOTE}", usage=(BIG_USAGE,))

    log = [replace(entry, commit_id="0" * 32) for entry in play.log[-4:]]
    sizes = [len(json.dumps(encode(entry), separators=(",", ":"))) for entry in log]

    assert max(sizes) <= 1024, sizes


def test_head_and_entries_read_back_as_they_were_written() -> None:
    play = a_busy_session()

    assert decode(Head, json.loads(json.dumps(encode(play.head)))) == play.head
    for entry in play.log:
        assert decode(Entry, json.loads(json.dumps(encode(entry)))) == entry
    assert play.head.turn is not None
    assert play.head.turn.stop is not None
    assert play.head.turn.denied


def test_what_is_at_its_default_takes_no_room() -> None:
    assert encode(Head()) == {}
    assert encode(QueuedMessage(message_id="m-1", input_version=3)) == {"message_id": "m-1", "input_version": 3}
    assert encode(Event(type="turn_started", sequence=1)) == {"type": "turn_started", "sequence": 1}


def test_a_false_and_a_zero_that_are_no_default_are_written() -> None:
    written = encode(Event(type="x", sequence=0, attempt=0, payload={"approved": False, "n": 0, "text": ""}))

    assert written == {"type": "x", "sequence": 0, "attempt": 0, "payload": {"approved": False, "n": 0, "text": ""}}


def test_keys_of_a_newer_version_are_ignored() -> None:
    # SESS-22: a record of a newer schema is refused by the adapters; a key that was added is no new schema.
    assert decode(QueuedMessage, {"message_id": "m", "input_version": 1, "rank": 5}) == QueuedMessage(
        message_id="m", input_version=1
    )


def test_a_missing_field_takes_its_default_and_a_required_one_is_missed() -> None:
    assert decode(QueuedMessage, {"message_id": "m", "input_version": 1}).delivery == "queue"
    with pytest.raises(TypeError):
        decode(QueuedMessage, {"message_id": "m"})


def test_times_are_whole_milliseconds() -> None:
    moment = datetime(2026, 1, 15, 12, 0, 0, 123999, tzinfo=UTC)

    assert from_millis(to_millis(moment)) == moment.replace(microsecond=123000)
    assert to_millis(datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)) == -1


def test_a_time_is_shown_in_utc_with_milliseconds() -> None:
    berlin = datetime(2026, 1, 15, 13, 0, 0, 7999, tzinfo=timezone(timedelta(hours=1)))

    assert format_time(berlin) == "2026-01-15T12:00:00.007Z"
    assert format_time(NOON) == "2026-01-15T12:00:00.000Z"


def test_a_session_goes_on_from_its_stored_form() -> None:
    # SESS-14: each step reads only committed state.
    play, (call,) = asked_for(a_read())
    play.head = decode(Head, json.loads(json.dumps(encode(play.head))))

    play.runs(call)
    play.model_answers()

    assert play.head.turn is None


def test_a_head_of_a_session_at_rest_is_small() -> None:
    # design §2: typically under 2 KB.
    play = a_session()
    play.model_answers()

    assert len(json.dumps(encode(play.head))) < 1024
