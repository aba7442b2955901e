"""Accepting a message: it is durable and starts its turn, or waits for it, in one commit."""

import pytest

from perdure.core.head import Head
from perdure.core.limits import MAX_HEAD_BYTES
from perdure.core.size import head_bytes
from perdure.errors import InvalidRequestError, RequestConflictError, TooLargeError
from tests.unit.core.builders import ALICE, BOB, GOES_ON, Play, a_claim, a_read, a_session, a_single_write, asked_for


def test_the_first_message_creates_the_session_and_starts_its_turn() -> None:
    # SESS-01, SESS-02, SESS-04, SESS-11
    play = Play()

    reply = play.send("hello").reply

    assert reply == {"message_id": "message-1-0", "delivered_as": "queue", "version": 1, "turn_id": "turn-1"}
    assert (play.head.agent, play.head.owner, play.head.created_at) == ("support", ALICE, play.now)
    assert play.last.inputs[0].text == "hello"
    assert play.last.inputs[0].actor == ALICE
    assert [(m.role, m.sequence) for m in play.last.messages] == [("user", 1)]
    assert [(e.type, e.payload) for e in play.last.events] == [
        ("turn_started", {"sequence": 1, "message_id": "message-1-0"})
    ]
    assert play.head.status == "running_model"


def test_a_message_to_a_known_session_does_not_reset_it() -> None:
    # SESS-01
    play = a_session()
    created = play.head.created_at
    play.model_answers()

    play.send("more", actor=BOB, default_agent="another")

    assert (play.head.agent, play.head.owner, play.head.created_at) == ("support", ALICE, created)
    assert play.turn.turn_id == "turn-2"


def test_turns_and_messages_are_numbered_without_gaps() -> None:
    # SESS-04
    play = a_session()
    (call,) = play.model_asks(a_read())
    play.send("queued")
    play.runs(call)
    play.model_answers()
    play.model_answers()

    assert [m.sequence for m in play.messages] == list(range(1, 7))
    assert [e.sequence for e in play.events()] == list(range(1, len(play.events()) + 1))
    assert [e.version for e in play.log] == list(range(1, play.head.version + 1))
    assert [e.turn_id for e in play.events("turn_started")] == ["turn-1", "turn-2"]


def test_a_message_during_a_turn_waits_and_the_next_turn_takes_one() -> None:
    # INBOX-01, INBOX-14, SESS-06
    play = a_session()

    reply = play.send("second").reply
    play.send("third")

    assert "turn_id" not in reply
    assert [q.message_id for q in play.head.inbox] == ["message-2-0", "message-3-0"]
    assert play.last.events[0].type == "message_queued"
    assert len(play.messages) == 1
    play.model_answers()
    assert play.turn.message_id == "message-2-0"
    assert [q.message_id for q in play.head.inbox] == ["message-3-0"]
    assert play.messages[-1].input_version == 2


def test_a_message_while_a_person_is_awaited_waits_behind_the_turn() -> None:
    play, _ = asked_for(a_single_write(gated=True))

    play.send("and?")

    assert len(play.head.inbox) == 1
    assert len(play.pending) == 1


@pytest.mark.parametrize("ending", ["failed", "refused", "aborted"])
def test_the_next_message_is_taken_however_the_turn_ended(ending: str) -> None:
    # INBOX-01, SESS-09
    play = a_session(policies=GOES_ON)
    play.send("second")

    play.model_ends(ending)

    assert play.turn.turn_id == "turn-2"
    assert play.head.inbox == ()


def test_a_sender_may_choose_the_messages_id() -> None:
    # SESS-12
    play = Play()

    assert play.send(message_id="m-1").reply["message_id"] == "m-1"
    assert play.turn.message_id == "m-1"


def test_an_id_that_is_already_queued_is_a_conflict() -> None:
    play = a_session()
    play.send(message_id="m-1")

    with pytest.raises(RequestConflictError) as caught:
        play.send(message_id="m-1")

    assert caught.value.code == "idempotency_mismatch"


def test_a_receipt_keeps_the_reply_for_the_same_key() -> None:
    # SESS-11, SESS-12
    play = Play()

    reply = play.send(receipts=(a_claim("k-1", "hash"), a_claim("k-2", "hash"))).reply

    assert [(r.key_hash, r.content_hash, r.reply) for r in play.last.receipts] == [
        ("k-1", "hash", reply),
        ("k-2", "hash", reply),
    ]


def test_a_session_keeps_its_agent() -> None:
    play = Play()
    play.send(agent="billing")
    play.send(agent="billing")

    with pytest.raises(RequestConflictError) as caught:
        play.send(agent="support")

    assert caught.value.code == "agent_mismatch"
    assert play.head.agent == "billing"


def test_a_delivery_mode_that_there_is_not_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequestError, match="nudge"):
        a_session().send(delivery="nudge")


def test_metadata_stays_with_the_message() -> None:
    play = Play()

    play.send(metadata={"source": "mail"})

    assert play.public_messages()[0]["metadata"] == {"source": "mail"}


def send_three(play: Play) -> None:
    for number in range(3):
        play.send(message_id=f"{number:x>128}")


def test_a_session_that_is_full_refuses_messages_and_nothing_else() -> None:
    # STORE-03
    play, (call,) = asked_for(a_read())
    while head_bytes(play.head) < MAX_HEAD_BYTES - 300:
        play.send(message_id=f"{play.head.version:0>128}")

    with pytest.raises(TooLargeError, match="queued messages"):
        send_three(play)

    assert MAX_HEAD_BYTES - 300 < head_bytes(play.head) <= MAX_HEAD_BYTES
    play.runs(call)
    play.model_answers()
    assert play.turn.turn_id == "turn-2"


def test_the_list_shows_the_start_of_the_newest_text_on_one_line() -> None:
    # SESS-20
    play = a_session("Hello\n  there " + "x" * 500)

    assert play.head.preview.startswith("Hello there xxx")
    assert len(play.head.preview) == 120
    assert play.head.last_activity_at == play.now


def test_a_new_life_after_a_purge_goes_on_counting() -> None:
    # races.md X11: what is left of a purged session keeps version and counters.
    play = Play(Head(version=40, turn_count=7, message_sequence=30, event_sequence=90))

    play.send()

    assert play.head.version == 41
    assert play.turn.turn_id == "turn-8"
    assert play.messages[0].sequence == 31
    assert play.events()[0].sequence == 91
