"""Stopping a turn: what did not start never starts, what started is waited for."""

import pytest

from perdure.core import texts
from perdure.core.history import UserItem, history
from perdure.errors import NotFoundError
from tests.unit.core.builders import (
    ALICE,
    WRITE_EFFECTS,
    Play,
    a_call,
    a_claim,
    a_read,
    a_safe_write,
    a_session,
    a_single_write,
    asked_for,
    text_part,
)


def test_a_stop_is_recorded_once_with_its_actor() -> None:
    # STOP-01
    play = a_session()

    assert play.stop().reply == {"result": "recorded"}

    assert play.turn.stop is not None
    assert play.last.events[0].type == "turn_stopping"
    assert play.last.events[0].payload == {
        "actor": {"issuer": ALICE.issuer, "subject": ALICE.subject},
        "disposition": "keep",
        "reason": "stopped",
    }
    assert play.stop().entry is None
    assert play.stop(turn_id="turn-1").reply == {"result": "already_recorded"}


def test_a_stop_with_a_key_is_remembered_even_when_it_changes_nothing() -> None:
    # SESS-12
    play = a_session()
    play.stop()

    decision = play.stop(receipts=(a_claim("k"),))

    assert decision.reply == {"result": "already_recorded"}
    assert [r.reply for r in play.last.receipts] == [{"result": "already_recorded"}]
    assert play.last.events == ()


@pytest.mark.parametrize(
    ("turn_id", "result"),
    [(None, "idle"), ("turn-1", "too_late"), ("turn-2", "already_recorded"), ("turn-9", "other_turn")],
)
def test_a_stop_while_nothing_runs_says_why_it_did_nothing(turn_id: str | None, result: str) -> None:
    # STOP-01, F029: `too_late` keeps the committed answer.
    play = a_session()
    play.model_answers()
    if turn_id == "turn-2":
        play.send("more")
        play.stop()
        play.model_ends("aborted")

    decision = play.stop(turn_id=turn_id)

    assert decision.reply == {"result": result}
    assert decision.entry is None


def test_a_stop_of_an_older_turn_can_not_touch_its_successor() -> None:
    # STOP-06
    play = a_session()
    play.model_answers()
    play.send("more")

    assert play.stop(turn_id="turn-1").reply == {"result": "too_late"}
    assert play.turn.stop is None


def test_a_session_that_was_never_written_can_not_be_stopped() -> None:
    with pytest.raises(NotFoundError):
        Play().stop()


def test_a_running_model_call_is_aborted_and_what_the_user_saw_is_kept() -> None:
    # STOP-02, F033
    play = a_session()
    play.stop()

    play.model_ends("aborted", parts=(text_part("The first"),))

    assert play.head.turn is None
    assert play.head.last_turn is not None
    assert play.head.last_turn.outcome == "cancelled"
    assert play.messages[-1].status == "interrupted"
    assert play.last.events[-1].type == "turn_cancelled"
    assert play.last.events[-1].payload == {"message_count": 1, "reason": "stopped", "disposition": "keep"}
    assert play.head.last_turn_error is None


def test_a_stop_that_discards_keeps_the_answer_on_record_and_out_of_every_prompt() -> None:
    play = a_session()
    play.stop(disposition="discard")

    play.model_ends("aborted", parts=(text_part("The first"),))

    assert [message.status for message in play.messages] == [None, "superseded"]
    assert play.last.events[-1].payload == {"message_count": 1, "reason": "stopped", "disposition": "discard"}
    assert history(play.log) == (UserItem(text="hello"),)


@pytest.mark.parametrize("ending", ["answer", "tool_calls", "failed", "refused"])
def test_whatever_a_model_brings_after_the_stop_runs_nothing(ending: str) -> None:
    # STOP-02, STOP-06
    play = a_session()
    play.stop()

    play.model_ends(ending, parts=(text_part("hm"),), calls=(a_single_write(),) if ending == "tool_calls" else ())

    assert play.head.turn is None
    assert play.results == []
    assert play.head.last_turn_error is None
    assert play.head.usage.model_calls == 1


@pytest.mark.parametrize("effect", ["read", *WRITE_EFFECTS])
def test_a_call_that_did_not_start_is_rejected_at_once(effect: str) -> None:
    # STOP-03, TOOL-26
    play, (call,) = asked_for(a_call("tool", effect))

    play.stop()

    assert play.head.turn is None
    assert play.result(call)["status"] == "rejected"
    assert play.result(call)["output"] == texts.STOPPED_BEFORE_START
    assert play.events("tool_call_finished")[0].payload["cancellation_reason"] == "turn_cancelled"


@pytest.mark.parametrize("effect", WRITE_EFFECTS)
@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_a_write_that_started_is_waited_for_and_keeps_its_outcome(effect: str, outcome: str) -> None:
    # STOP-02, STOP-14, F028
    play, (call, other) = asked_for(a_call("pay", effect), a_read())
    play.starts(call)

    play.stop()

    assert play.head.status == "running_tools"
    assert play.status(other) == "rejected"
    assert play.dispatched == [call]
    play.finishes(call, "the outcome", outcome)
    assert play.head.turn is None
    assert (play.status(call), play.result(call)["output"]) == (outcome, "the outcome")
    assert [e.type for e in play.events("turn_cancelled", "turn_completed", "turn_failed")] == ["turn_cancelled"]


def test_a_safe_write_that_fails_after_the_stop_is_not_tried_again() -> None:
    play, (call,) = asked_for(a_safe_write())
    play.starts(call)
    play.stop()

    play.finishes(call, "it failed", "error")

    assert play.head.turn is None
    assert play.status(call) == "outcome_unknown"


def test_a_write_that_ran_in_an_earlier_attempt_is_not_called_rejected() -> None:
    # races.md X7
    play, (call,) = asked_for(a_safe_write())
    play.starts(call)
    play.loses(call)

    play.stop()

    assert play.turn.open_calls
    assert not play.starts(call)
    assert play.status(call) == "outcome_unknown"
    assert play.head.turn is None


def test_an_unclaimed_later_attempt_ends_as_unknown_too() -> None:
    # races.md X7
    play, (call,) = asked_for(a_safe_write())
    play.starts(call)
    play.loses(call)
    play.stop()

    play.loses(call, claimed=False)

    assert play.status(call) == "outcome_unknown"
    assert play.head.turn is None


def test_waits_for_a_person_end_with_the_stop() -> None:
    # STOP-02, APPR-16
    play, (call,) = asked_for(a_single_write(gated=True))

    play.stop()

    assert play.pending == []
    assert play.status(call) == "rejected"
    assert play.head.turn is None


def test_a_stop_and_a_start_can_not_both_come_first() -> None:
    # F029 order C, TOOL-26: whichever commits first decides.
    play, (call,) = asked_for(a_single_write())
    play.stop()

    assert not play.starts(call, attempt=1)

    other, (started,) = asked_for(a_single_write())
    other.starts(started)
    other.stop()
    assert other.turn.open_calls


def test_nothing_is_said_to_have_not_run_after_it_started() -> None:
    # F028
    play, (call,) = asked_for(a_single_write())
    play.starts(call)
    play.stop()

    play.loses(call, final=True)

    assert play.status(call) == "outcome_unknown"
    assert "may have taken effect" in play.result(call)["output"]


def test_a_stopped_turn_makes_room_for_the_next_message() -> None:
    # F031
    play = a_session()
    play.send("second")
    play.stop()

    play.model_ends("aborted")

    assert play.turn.turn_id == "turn-2"
    assert play.turn.stop is None
    assert [e.type for e in play.last.events[-2:]] == ["turn_cancelled", "turn_started"]
    assert [e.turn_id for e in play.last.events[-2:]] == ["turn-1", "turn-2"]


def test_a_model_step_whose_worker_died_ends_the_stopped_turn() -> None:
    # F031: no second attempt.
    play = a_session()
    play.stop()

    play.loses(play.step.step_id)

    assert play.head.turn is None
    assert play.head.last_turn is not None
    assert play.head.last_turn.outcome == "cancelled"
