"""What waits in the inbox can be changed, and what shares a turn (spec INBOX-10..13)."""

from dataclasses import replace

import pytest

from perdure.core.commands import InboxPolicy
from perdure.core.control_commands import DeliverMessage, EditMessage, MoveMessage, RemoveMessage
from perdure.core.entries import Input
from perdure.core.inbox import DELIVERIES
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from tests.unit.core.builders import (
    ALICE,
    GOES_ON,
    a_call,
    a_read,
    a_session,
    asked_for,
    deliver,
    waiting,
    words,
)

COALESCING = {"support": InboxPolicy(coalesce=True)}


# --- what waits can be changed -----------------------------------------------------------------------------------


def test_a_waiting_message_can_be_edited_moved_and_taken_back() -> None:
    # INBOX-11, INBOX-12, INBOX-13
    play = a_session()
    one, two, three = (deliver(play, text)["message_id"] for text in ("one", "two", "three"))

    play.apply(MoveMessage(message_id=three, actor=ALICE, before=one))
    assert [t for t, _ in waiting(play)] == ["three", "one", "two"]
    play.apply(MoveMessage(message_id=three, actor=ALICE, position="last"))
    play.apply(MoveMessage(message_id=two, actor=ALICE, position="first"))
    play.apply(MoveMessage(message_id=two, actor=ALICE, after=one))
    assert [t for t, _ in waiting(play)] == ["one", "two", "three"]

    base = play.head.inbox[0].input_version
    play.apply(EditMessage(edited=Input(message_id=one, text="uno"), actor=ALICE, base_version=base))
    with pytest.raises(RequestConflictError) as stale:
        play.apply(EditMessage(edited=Input(message_id=one, text="ein"), actor=ALICE, base_version=base))
    assert stale.value.code == "stale_revision"

    removed = play.apply(RemoveMessage(message_id=two, actor=ALICE))
    assert removed.reply["result"] == "removed"
    assert play.last.events[0].type == "message_removed"

    play.model_answers("done")
    assert words(play)[-1] == "uno"
    assert play.public_messages()[-1]["parts"] == [{"type": "text", "text": "uno"}]


def test_what_a_turn_has_can_not_be_changed_any_more() -> None:
    # INBOX-12, U-2
    play, (look,) = asked_for(a_read())
    joined = deliver(play, "and hurry", "inject")["message_id"]
    play.runs(look)

    for message_id in (joined, play.turn.message_id):
        with pytest.raises(RequestConflictError) as caught:
            play.apply(RemoveMessage(message_id=message_id, actor=ALICE))
        assert caught.value.code == "already_delivered"
    with pytest.raises(NotFoundError) as gone:
        play.apply(RemoveMessage(message_id="message-9-0", actor=ALICE))
    assert gone.value.code == "message_not_found"


def test_a_message_does_not_move_past_those_that_are_delivered_another_way() -> None:
    play = a_session()
    plain = deliver(play, "plain")["message_id"]
    urgent = deliver(play, "urgent", "interrupt_next")["message_id"]

    with pytest.raises(InvalidRequestError, match="another way"):
        play.apply(MoveMessage(message_id=plain, actor=ALICE, before=urgent))
    play.apply(MoveMessage(message_id=urgent, actor=ALICE, position="first"))

    assert [t for t, _ in waiting(play)] == ["urgent", "plain"]


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_waiting_message_can_be_delivered_in_every_other_way(delivery: str) -> None:
    # INBOX-04, INBOX-11: steer by id, send now
    play, _ = asked_for(a_read())
    first = deliver(play, "first")["message_id"]
    second = deliver(play, "second")["message_id"]

    reply = play.apply(DeliverMessage(message_id=second, delivery=delivery, actor=ALICE)).reply

    assert reply["delivered_as"] == delivery
    ahead = delivery in ("steer", "interrupt_next", "supersede")
    if play.head.turn and play.turn.turn_id == "turn-2":  # a read does not keep a stopped turn from ending
        assert play.turn.message_id == (second if ahead else first)
    else:
        assert [m.message_id for m in play.head.inbox] == ([second, first] if ahead else [first, second])


# --- coalescing, and the agent's word ------------------------------------------------------------------------------


def test_messages_that_coalesce_share_the_next_turn() -> None:
    # INBOX-10
    play = a_session(policies=COALESCING)
    for text in ("one", "two"):
        deliver(play, text, policies=COALESCING)
    deliver(play, "apart", policies=GOES_ON)

    play.model_answers("done")

    assert words(play)[-2:] == ["one", "two"]
    assert waiting(play) == [("apart", "queue")]


def test_messages_that_coalesce_are_absorbed_whole_or_not_at_all() -> None:
    # INBOX-10
    play, (look,) = asked_for(a_read())
    ids = [deliver(play, text, policies=COALESCING)["message_id"] for text in ("one", "two")]

    play.apply(DeliverMessage(message_id=ids[1], delivery="inject", actor=ALICE))
    play.runs(look)

    assert words(play)[-2:] == ["one", "two"]
    assert [m.message_id for m in play.turn.joined] == ids


def test_the_agents_inbox_says_how_a_message_is_delivered_that_does_not_say() -> None:
    # INBOX-02
    play, _ = asked_for(a_call("look", "read"))
    injecting = {"support": InboxPolicy(delivery="inject")}

    assert deliver(play, "one", policies=injecting)["delivered_as"] == "inject"
    assert deliver(play, "two", "queue", policies=injecting)["delivered_as"] == "queue"


def test_a_turn_that_an_older_version_began_takes_neither_stop_nor_steer() -> None:
    # SESS-21
    play = a_session()
    play.head = replace(play.head, turn=replace(play.turn, controls=0))

    assert play.stop().reply == {"result": "not_controllable"}
    assert deliver(play, "something else", "steer")["delivered_as"] == "queue"
    assert play.turn.stop is None


# --- what went back to the inbox ---------------------------------------------------------------------------------


def test_a_message_that_went_back_to_the_inbox_and_was_edited_is_shown_as_edited() -> None:
    # U-3
    play, (look,) = asked_for(a_read("look"))
    message_id = deliver(play, "and hurry", "inject")["message_id"]
    play.runs(look)
    play.model_ends("failed")
    base = play.head.inbox[0].input_version

    edited = Input(message_id=message_id, text="take your time")
    play.apply(EditMessage(edited=edited, actor=ALICE, base_version=base))
    play.stop()

    assert words(play)[-1] == "take your time"
    shown = [m["parts"][0]["text"] for m in play.public_messages() if m["role"] == "user"]
    assert shown == ["hello", "and hurry", "take your time"]


def test_messages_that_share_a_turn_are_steered_into_one_turn_even_when_the_running_one_ends_at_once() -> None:
    # INBOX-10: the second one must not steer away the turn that the first one has just begun.
    play, _ = asked_for(a_call(gated=True))
    one, two = (deliver(play, text, policies=COALESCING)["message_id"] for text in ("one", "two"))

    play.apply(DeliverMessage(message_id=one, delivery="steer", actor=ALICE))

    assert play.turn.turn_id == "turn-2"
    assert not play.turn.steer
    assert play.events("turn_started")[-1].payload["message_ids"] == [one, two]
