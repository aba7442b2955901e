"""The delivery modes: what each does to a turn that runs, and where its message goes (spec U-2, U-3)."""

import pytest

from perdure.core import texts
from perdure.core.commands import InboxPolicy
from perdure.core.history import ToolResultItem, history
from perdure.core.inbox import DELIVERIES
from perdure.errors import InvalidRequestError, NotFoundError
from tests.unit.core.builders import (
    Play,
    a_read,
    a_safe_write,
    a_session,
    a_single_write,
    asked_for,
    deliver,
    text_part,
    waiting,
    words,
)

COALESCING = {"support": InboxPolicy(coalesce=True)}


# --- nothing runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delivery", [mode for mode in DELIVERIES if mode != "passive"])
def test_every_mode_is_an_ordinary_send_when_nothing_runs_and_says_so(delivery: str) -> None:
    # INBOX-04, INBOX-07, U-2
    play = Play()

    reply = deliver(play, "hello", delivery)

    assert (reply["delivered_as"], reply["turn_id"]) == ("queue", "turn-1")


def test_passive_messages_start_nothing_and_ride_with_the_next_one_that_was_sent_after_them() -> None:
    # INBOX-03
    play = Play()
    assert deliver(play, "by the way", "passive")["delivered_as"] == "passive"
    assert play.head.turn is None

    deliver(play, "what now?")
    deliver(play, "queued behind")
    deliver(play, "much later", "passive")
    play.model_answers("this")

    assert words(play)[:3] == ["by the way", "what now?", "this"]
    assert play.turn.turn_id == "turn-2"
    assert waiting(play) == [("much later", "passive")]


def test_an_unknown_mode_is_named_and_nothing_is_accepted() -> None:
    play = a_session()

    with pytest.raises(InvalidRequestError, match="nudge"):
        deliver(play, "hi", "nudge")

    assert play.head.version == 1


# --- inject ----------------------------------------------------------------------------------------------------


def test_an_injected_message_joins_at_the_next_input_assembly_and_is_absorbed_by_the_answer() -> None:
    # INBOX-06, INBOX-08, U-3
    play, (look,) = asked_for(a_read("look"))
    reply = deliver(play, "and hurry", "inject")
    assert reply["delivered_as"] == "inject"
    assert waiting(play) == [("and hurry", "inject")]

    play.runs(look)

    assert waiting(play) == []
    assert words(play) == ["hello", "", "look: succeeded", "and hurry"]
    play.model_answers("there")
    assert play.last.events[-1].payload["absorbed"] == [reply["message_id"]]
    assert words(play)[-1] == "there"


@pytest.mark.parametrize("ending", ["failed", "stopped", "steered", "limit"])
def test_an_injected_message_that_got_no_answer_goes_back_and_has_the_next_turn(ending: str) -> None:
    # U-3: nothing that an accepted sender wrote is ever dropped, and no answer is claimed that was not given.
    play, (look,) = asked_for(a_read("look"))
    deliver(play, "and hurry", "inject")
    play.runs(look)
    if ending == "failed":
        play.model_ends("failed")
        play.stop()
    elif ending == "stopped":
        play.stop()
        play.model_ends("aborted")
    elif ending == "steered":
        deliver(play, "something else", "steer")
        play.model_asks(a_single_write())
    else:
        play.model_asks(a_read(), limit_reached=True)

    closing = next(e for e in play.events("turn_failed", "turn_cancelled", "turn_steered", "turn_completed"))
    assert closing.payload["rehomed"]
    if ending == "steered":
        play.model_answers("done otherwise")
    assert words(play)[-1] == "and hurry"
    assert words(play).count("and hurry") == 1
    statuses = [
        m.get("status") for m in play.public_messages() if m["parts"] == [{"type": "text", "text": "and hurry"}]
    ]
    assert statuses == ["rehomed", None]


def test_an_injected_message_that_never_joined_waits_for_its_own_turn() -> None:
    play = a_session()
    deliver(play, "and hurry", "inject")

    play.model_answers("done")

    assert play.turn.turn_id == "turn-2"
    assert words(play) == ["hello", "done", "and hurry"]


def test_a_message_can_not_be_injected_into_a_turn_that_is_being_stopped() -> None:
    play = a_session()
    play.stop()

    assert deliver(play, "and hurry", "inject")["delivered_as"] == "queue"


# --- steer -----------------------------------------------------------------------------------------------------


def test_a_steer_lets_a_running_model_finish_and_a_final_answer_completes_the_turn() -> None:
    # INBOX-05
    play = a_session()
    assert deliver(play, "something else", "steer")["delivered_as"] == "steer"
    assert play.turn.step is not None

    play.model_answers("the first")

    assert [e.type for e in play.events("turn_completed", "turn_steered")] == ["turn_completed"]
    assert words(play) == ["hello", "the first", "something else"]


def test_a_steer_rejects_what_did_not_start_and_waits_for_what_did() -> None:
    # INBOX-05, SESS-26, TOOL-26, APPR-16, STOP-03
    play, (asked, running, unstarted, reading) = asked_for(
        a_single_write("asked", requires_approval=True),
        a_safe_write("running"),
        a_safe_write("unstarted"),
        a_read("reading"),
    )
    assert play.starts(running)

    deliver(play, "something else", "steer")

    assert {c.call_id for c in play.turn.open_calls} == {running, reading}
    rejected = [e.payload for e in play.events("tool_call_finished")]
    assert {p["tool_call_id"] for p in rejected} == {asked, unstarted}
    assert {p["cancellation_reason"] for p in rejected} == {"steered"}
    assert play.events("interrupt_resolved")[0].payload["cancellation_reason"] == "steered"
    with pytest.raises(NotFoundError):
        play.approve(asked)

    play.finishes(running)
    play.finishes(reading)

    assert play.events("turn_steered")[0].payload["steered_message_count"] == 1
    assert play.turn.turn_id == "turn-2"
    results = {i.tool_name: i for i in history(play.log) if isinstance(i, ToolResultItem)}
    assert results["unstarted"].output == texts.STEERED_BEFORE_START
    note = words(play)[-2]
    assert "something else to do" in note
    assert "running (succeeded), reading (succeeded)" in note


def test_all_steered_messages_begin_one_turn_in_their_order() -> None:
    # INBOX-05
    play, _ = asked_for(a_single_write("slow", requires_approval=False))
    play.send("queued before")
    play.starts(play.turn.calls[0].call_id)
    deliver(play, "first", "steer")
    deliver(play, "second", "steer")

    play.finishes(play.turn.calls[0].call_id)

    assert words(play)[-2:] == ["first", "second"]
    assert play.events("turn_started")[-1].payload["message_ids"]
    assert waiting(play) == [("queued before", "queue")]


def test_a_turn_that_waits_for_a_person_only_gives_way_at_once() -> None:
    play, _ = asked_for(a_single_write(requires_approval=True))

    reply = deliver(play, "something else", "steer")

    assert reply["turn_id"] == "turn-2"
    assert play.last.events[-1].type == "turn_started"


def test_a_stop_wins_over_a_steer_and_the_steered_message_has_the_next_turn() -> None:
    # U-4
    play = a_session()
    deliver(play, "something else", "steer")
    play.stop()

    play.model_ends("aborted", parts=(text_part("half"),))

    assert play.events("turn_cancelled")
    assert not play.events("turn_steered")
    assert words(play)[-1] == "something else"


def test_a_lost_model_step_of_a_steered_turn_is_not_tried_again() -> None:
    play = a_session()
    deliver(play, "something else", "steer")

    play.loses("model-1-0")

    assert play.events("turn_steered")
    assert play.turn.turn_id == "turn-2"


# --- interrupt, interrupt_next, supersede ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delivery", "order"),
    [
        ("interrupt", ["before", "now"]),
        ("interrupt_next", ["now", "before"]),
        ("supersede", ["now", "before"]),
    ],
)
def test_an_interrupting_message_stops_the_turn_and_takes_its_place(delivery: str, order: list[str]) -> None:
    # INBOX-09
    play = a_session()
    play.send("before")
    reply = deliver(play, "now", delivery)
    assert reply["delivered_as"] == delivery
    assert "turn_id" not in reply

    play.model_ends("aborted", parts=(text_part("half"),))
    play.model_answers("done")

    sent = [word for word in words(play) if word in ("before", "now")]
    assert sent == order
    closed = play.events("turn_cancelled")[0].payload
    assert closed["reason"] == ("superseded" if delivery == "supersede" else "interrupted")


def test_urgent_messages_are_first_in_first_out() -> None:
    # INBOX-09
    play = a_session()
    for text in ("one", "two", "three"):
        deliver(play, text, "interrupt_next")

    assert [text for text, _ in waiting(play)] == ["one", "two", "three"]


def test_a_superseded_answer_stays_on_record_and_out_of_every_prompt_but_for_calls_that_ran() -> None:
    # STOP-10, U-5
    play, (paid, _) = asked_for(a_safe_write("paid"), a_safe_write("unpaid"))
    play.starts(paid)
    deliver(play, "no, this", "supersede")
    play.finishes(paid)

    assert [m["status"] for m in play.public_messages() if m["role"] == "assistant"] == ["superseded"]
    shown = history(play.log)
    assert [type(i).__name__ for i in shown] == [
        *("UserItem", "ModelItem", "ToolResultItem", "ToolResultItem", "UserItem", "UserItem")
    ]
    assert "paid (succeeded)" in words(play)[-2]

    other = a_session()
    deliver(other, "no, this", "supersede")
    other.model_ends("aborted", parts=(text_part("never mind"),))
    assert words(other) == ["hello", "no, this"]
    assert [m.get("status") for m in other.public_messages()] == [None, "superseded", None]
