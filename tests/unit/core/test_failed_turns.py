"""Waits before a reconnect, and what follows a failed turn: hold, retry, release (spec U-6, U-7)."""

from datetime import timedelta
from typing import Any

import pytest

from perdure.core.commands import ModelWaits, Reconnect
from perdure.core.control_commands import (
    CredentialChanged,
    DeliverMessage,
    RetryTurn,
)
from perdure.core.expected import sweep_due_at
from perdure.core.history import ModelItem, Transcript, UserItem, history
from perdure.core.public import public_state
from perdure.errors import RequestConflictError
from tests.unit.core.builders import (
    BOB,
    GOES_ON,
    SOME_USAGE,
    Play,
    a_claim,
    a_read,
    a_session,
    asked_for,
    text_part,
)


def retry(play: Play, retry_id: str = "r-1") -> dict[str, Any]:
    return play.apply(RetryTurn(actor=BOB, retry_id=retry_id, receipts=(a_claim(retry_id),))).reply


def waits(play: Play, seconds: int = 40, **changes: Any) -> None:
    reconnect = Reconnect(at=play.now, retry_in_ms=seconds * 1000, number=1, reason="rate_limited", partial=True)
    play.apply(
        ModelWaits(
            turn_id=play.turn.turn_id,
            step_id=play.step.step_id,
            attempt=play.step.attempt,
            started_at=play.now,
            retry_in=timedelta(seconds=seconds),
            usage=(SOME_USAGE,),
            reconnects=(reconnect,),
            **changes,
        )
    )


# --- reconnects that wait ---------------------------------------------------------------------------------------


def test_a_long_wait_holds_no_worker_and_says_until_when() -> None:
    # RETRY-01, U-7
    play = a_session()
    waits(play, partial="half an ans")

    (dispatch,) = play.dispatches
    assert (dispatch.attempt, dispatch.not_before) == (2, play.now + timedelta(seconds=40))
    state = public_state(play.head)
    assert state is not None
    assert [w["kind"] for w in state["waiting_for"]] == ["retry"]
    assert [e.type for e in play.last.events] == ["attempt_reset", "model_retry_scheduled", "usage_recorded"]
    assert play.turn.reconnects == 1
    transcript = Transcript()
    transcript.extend(play.log)
    assert transcript.partial == "half an ans"
    play.wait(timedelta(seconds=40))
    play.model_answers("done")
    transcript.extend(play.log)
    assert transcript.partial == ""


def test_retry_now_skips_the_wait_and_not_the_counter() -> None:
    # RETRY-03
    play = a_session()
    waits(play)

    assert retry(play) == {"result": "recorded"}

    (dispatch,) = play.dispatches
    assert (dispatch.attempt, dispatch.not_before) == (3, None)
    assert play.turn.reconnects == 1
    with pytest.raises(RequestConflictError) as caught:
        retry(play, "r-2")
    assert caught.value.code == "not_failed"


def test_a_stop_gives_a_waiting_reconnect_up_at_once() -> None:
    # RETRY-03, STOP-13
    play = a_session()
    waits(play)

    play.stop()

    assert play.head.turn is None
    assert play.events("turn_cancelled")


def test_a_wait_that_is_told_after_a_stop_or_a_steer_ends_the_turn() -> None:
    stopped, steered = a_session(), a_session()
    stopped.stop()
    steered.send("something else", delivery="steer")

    waits(stopped)
    waits(steered)

    assert stopped.events("turn_cancelled")
    assert steered.events("turn_steered")


@pytest.mark.parametrize("when", ["before the wait", "in the wait"])
def test_what_is_injected_around_a_long_wait_is_in_the_call_that_ends_it(when: str) -> None:
    # INBOX-06: the wait ends with an input assembly, which commits nothing.
    play = a_session()
    if when == "before the wait":
        play.send("and hurry", delivery="inject")
    waits(play)
    before = play.dispatches
    if when == "in the wait":
        reply = play.send("and hurry", delivery="inject").reply
        assert (reply["delivered_as"], reply["turn_id"]) == ("inject", "turn-1")
        assert play.dispatches[0].attempt > before[0].attempt, "a worker that began too early has not seen it"
        assert play.dispatches[0].not_before == before[0].not_before

    assert user_words(play) == ["hello", "and hurry"]
    play.wait(timedelta(seconds=40))
    play.model_answers("there")

    assert len(play.events("turn_completed")[-1].payload["absorbed"]) == 1
    assert play.head.turn is None


def test_a_turn_whose_wait_is_over_is_stopped_and_steered_like_one_that_runs() -> None:
    # U-4: the worker that took the step up keeps what the user saw of the answer.
    stopped, steered, hurried = a_session(), a_session(), a_session()
    for play in (stopped, steered, hurried):
        waits(play, 40)
        play.wait(timedelta(seconds=40))

    stopped.stop()
    steered.send("something else", delivery="steer")
    with pytest.raises(RequestConflictError):
        retry(hurried)
    assert [d.attempt for d in stopped.dispatches] == [d.attempt for d in hurried.dispatches] == [2]

    stopped.model_ends("aborted", parts=(text_part("Half an ans"),))
    steered.model_answers("a whole answer")
    assert stopped.messages[-1].status == "interrupted"
    assert steered.events("turn_completed")


# --- failed turns -----------------------------------------------------------------------------------------------


def test_a_turn_that_a_person_began_holds_the_inbox_when_it_fails_and_others_do_not() -> None:
    # U-6
    play, other = a_session(), a_session(source="webhook")
    for session in (play, other):
        session.send("next")
        session.model_ends("failed")

    assert play.head.turn is None
    state = public_state(play.head)
    assert state is not None
    assert state["held"] is True
    assert play.send("later").reply["delivered_as"] == "queue"
    assert other.turn.turn_id == "turn-2"


def test_a_dismissed_failure_lets_the_inbox_go_on() -> None:
    # U-6, RETRY-08
    play = a_session()
    play.send("next")
    play.model_ends("failed")

    assert play.stop().reply == {"result": "recorded"}

    assert play.turn.turn_id == "turn-2"
    assert play.events("hold.released")
    play.model_answers()
    assert play.stop().reply == {"result": "idle"}


@pytest.mark.parametrize("delivery", ["interrupt", "interrupt_next", "supersede"])
def test_an_interrupting_message_ends_a_hold(delivery: str) -> None:
    play = a_session()
    play.model_ends("failed")

    assert "turn_id" in play.send("now", delivery=delivery).reply


def test_a_retry_goes_on_from_the_failed_step_and_keeps_what_was_done() -> None:
    # RETRY-08: finished steps and tool results stay, and the failure is not told to the model.
    play, (look,) = asked_for(a_read("look"))
    play.send("next")
    play.runs(look)
    play.model_ends("failed")

    reply = retry(play)

    assert reply == {"result": "recorded", "turn_id": "turn-2"}
    assert play.events("turn_started")[-1].payload["retry_of"] == "turn-1"
    assert play.turn.model_calls == 2
    assert len(history(play.log)) == 3
    play.model_answers("done after all")
    assert history(play.log)[3] == ModelItem(text="done after all")
    assert play.turn.turn_id == "turn-3"  # the message that waited
    assert not any(m.role == "user" and m.turn_id == "turn-2" for m in play.messages)


def test_only_the_latest_turn_can_be_retried_and_only_if_it_failed() -> None:
    play = a_session(policies=GOES_ON)
    for session_state in ("running", "answered"):
        with pytest.raises(RequestConflictError) as caught:
            retry(play, session_state)
        assert caught.value.code == "not_failed"
        if session_state == "running":
            play.model_answers()


def test_a_refused_credential_blocks_until_there_is_another_one() -> None:
    # RETRY-05, U-6
    play = a_session(policies=GOES_ON)
    play.send("next", policies=GOES_ON)
    play.model_ends("failed", error_code="auth", credential="old")
    state = public_state(play.head)
    assert state is not None
    assert (state["held"], state["blocked_reason"]) == (True, "auth")
    assert sweep_due_at(play.head) is not None

    play.apply(CredentialChanged(credential="old"))
    assert play.head.turn is None
    play.apply(CredentialChanged(credential="new"))

    assert play.turn.turn_id == "turn-2"
    assert play.head.hold is None


def test_the_next_message_looks_at_the_credential_too() -> None:
    play = a_session()
    play.model_ends("failed", error_code="credits", credential="old")
    assert "turn_id" not in play.send("still", credentials={"support": "old"}).reply

    play.send("again", credentials={"support": "new"})

    assert play.turn.turn_id == "turn-2"


def test_what_went_back_to_the_inbox_is_no_part_of_the_turn_that_is_retried() -> None:
    # U-3, RETRY-08: it has its own turn, whole and once.
    play, (look,) = asked_for(a_read("look"))
    play.send("and hurry", delivery="inject")
    play.runs(look)
    play.model_ends("failed")

    retry(play)
    assert user_words(play) == ["hello"]
    play.model_answers("there")

    assert user_words(play) == ["hello", "and hurry"]


def test_what_went_back_to_the_inbox_may_join_the_turn_that_is_retried() -> None:
    play, (look,) = asked_for(a_read("look"))
    message_id = play.send("and hurry", delivery="inject").reply["message_id"]
    play.runs(look)
    play.model_ends("failed")
    retry(play)

    play.apply(DeliverMessage(message_id=message_id, delivery="inject", actor=BOB))
    play.runs(play.model_asks(a_read("look"))[0])

    assert user_words(play) == ["hello", "and hurry"]
    play.model_answers("there")
    assert user_words(play) == ["hello", "and hurry"]
    assert play.events("turn_completed")[-1].payload["absorbed"] == [message_id]


def user_words(play: Play) -> list[str]:
    return [item.text for item in play.history() if isinstance(item, UserItem)]
