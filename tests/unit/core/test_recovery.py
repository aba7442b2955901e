"""What follows an attempt that nobody will finish."""

from datetime import timedelta

import pytest

from perdure.core import texts
from perdure.core.commands import RequestedCall
from tests.unit.core.builders import GOES_ON, Play, a_read, a_safe_write, a_session, a_single_write, asked_for


def test_a_lost_model_attempt_is_replaced_at_once_and_viewers_drop_its_partial() -> None:
    # F104, MODEL-02, MODEL-07, RETRY-11
    play = a_session()
    step = play.step.step_id

    play.loses(step)

    assert (play.step.step_id, play.step.attempt) == (step, 2)
    assert [(e.type, e.attempt, e.step_execution_id) for e in play.last.events] == [("attempt_reset", 1, step)]
    assert play.last.events[0].payload == {"reason": "its worker died"}
    assert len(play.messages) == 1


def test_a_lost_attempt_that_was_reported_before_changes_nothing() -> None:
    # F103
    play = a_session()
    step = play.step.step_id
    play.loses(step)

    assert play.loses(step, attempt=1).entry is None
    assert play.step.attempt == 2


def test_after_three_attempts_the_turn_fails_visibly() -> None:
    # MODEL-02
    play = a_session()
    for _ in range(3):
        play.loses(play.step.step_id)

    assert play.head.turn is None
    assert play.head.last_turn_error is not None
    assert play.head.last_turn_error.code == "internal"
    assert "attempt 3: its worker died" in play.head.last_turn_error.message
    assert [e.type for e in play.last.events] == ["model_started", "model_finished", "turn_failed"]


def test_after_thirty_minutes_no_attempt_begins() -> None:
    # MODEL-02
    play = a_session()
    play.wait(timedelta(minutes=30))

    play.loses(play.step.step_id)

    assert play.head.turn is None


def test_a_dead_letter_of_a_model_step_fails_the_turn() -> None:
    # design §2: never a silent queue.
    play = a_session(policies=GOES_ON)
    play.send("second")

    play.loses(play.step.step_id, claimed=False, final=True)

    assert play.events("turn_failed")
    assert play.turn.turn_id == "turn-2"


def test_provider_reconnects_do_not_use_up_attempts() -> None:
    # RETRY-09
    play = a_session()
    play.loses(play.step.step_id)

    play.model_asks(a_read())
    play.runs(play.dispatched[0])

    assert play.step.attempt == 1


def test_a_search_whose_worker_died_runs_again_and_a_payment_does_not() -> None:
    # F106, SESS-14
    play, (search, pay) = asked_for(a_read("search"), a_single_write("pay_invoice"))
    play.starts(pay)

    play.loses(search)
    play.loses(pay)

    assert play.call(search).attempt == 2
    assert (play.status(pay), play.result(pay)["output"]) == ("outcome_unknown", texts.OUTCOME_UNKNOWN)


def test_a_call_whose_worker_died_does_not_wait_before_it_runs_again() -> None:
    # The wait is for tools that fail; after a crash the restart has taken long enough.
    play, (search,) = asked_for(a_read("search"))

    play.loses(search)

    (dispatch,) = play.dispatches
    assert (dispatch.attempt, dispatch.not_before) == (2, None)
    assert play.call(search).ready_at == play.now


@pytest.mark.parametrize("requested", [a_safe_write(), a_single_write()])
def test_a_claimed_write_that_did_not_start_is_tried_again(requested: RequestedCall) -> None:
    play, (call,) = asked_for(requested)

    play.loses(call)

    assert play.call(call).attempt == 2
    assert play.starts(call, owner="worker-2")


def test_a_payment_that_started_in_its_second_attempt_does_not_get_a_third() -> None:
    # F106
    play, (call,) = asked_for(a_single_write())
    play.loses(call)
    play.starts(call)

    play.loses(call)

    assert play.status(call) == "outcome_unknown"


@pytest.mark.parametrize("requested", [a_read(), a_safe_write(), a_single_write()])
def test_a_first_attempt_that_nobody_ever_claimed_did_not_run(requested: RequestedCall) -> None:
    # TOOL-06, races.md X5
    play, (call,) = asked_for(requested)

    play.loses(call, claimed=False, final=True)

    assert play.status(call) == "failed"
    assert play.result(call)["output"] == "the tool did not run, so it is safe to call again: its worker died"
    assert play.turn.step is not None


def unclaimed_after_a_run(requested: RequestedCall) -> tuple[Play, str]:
    """Return a session whose call ran in attempt 1, and whose attempt 2 was given up unclaimed."""
    play, (call,) = asked_for(requested)
    if not play.call(call).is_read:
        play.starts(call)
    play.loses(call)
    play.loses(call, claimed=False, final=True)
    return play, call


def test_only_an_unclaimed_first_attempt_proves_that_a_call_did_not_run() -> None:
    # races.md X7
    play, read = unclaimed_after_a_run(a_read())
    assert play.result(read)["output"] == "the tool failed in every attempt: its worker died"

    play, put = unclaimed_after_a_run(a_safe_write())
    assert play.status(put) == "outcome_unknown"


@pytest.mark.parametrize(("requested", "status"), [(a_read(), "failed"), (a_safe_write(), "outcome_unknown")])
def test_a_dead_letter_of_a_running_call_gives_it_up(requested: RequestedCall, status: str) -> None:
    play, (call,) = asked_for(requested)
    if not play.call(call).is_read:
        play.starts(call)

    play.loses(call, final=True)

    assert play.status(call) == status


def test_a_retried_call_keeps_its_place_among_its_siblings() -> None:
    play, (first, second) = asked_for(a_read("a"), a_read("b"))
    play.loses(first)
    play.runs(second)

    assert play.dispatched == [first]
    play.runs(first)
    assert play.turn.step is not None


def test_a_call_that_waits_for_a_person_can_not_be_lost() -> None:
    play, (call,) = asked_for(a_single_write(gated=True))

    assert play.loses(call, attempt=1).entry is None


def test_an_attempt_of_a_turn_that_is_over_can_not_be_lost() -> None:
    play = a_session()
    step = play.step.step_id
    play.model_answers()

    assert play.loses(step, attempt=1).entry is None


def test_a_lost_attempt_of_a_call_that_was_reported_before_changes_nothing() -> None:
    # F103
    play, (call,) = asked_for(a_read())
    play.loses(call)

    assert play.loses(call, attempt=1).entry is None
    assert play.call(call).attempt == 2
