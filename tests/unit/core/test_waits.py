"""Waits for a time: how they begin and end, and what people do to them."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from perdure.core.expected import expected_timers, sweep_due_at
from perdure.core.limits import MAX_WAIT, TIMER_GRACE
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from tests.unit.core.builders import Play, a_question, a_read, a_single_write, a_wait, asked_for

HOUR = timedelta(hours=1)
CALL = "call-2-0"


def sleeping(seconds: float = 3600, reason: str | None = None) -> Play:
    """Return a session whose model sleeps; the call's id is `call-2-0`."""
    play, _ = asked_for(a_wait(seconds, reason))
    return play


def told(play: Play) -> object:
    return json.loads(play.result(CALL)["output"])


def test_a_wait_is_a_timer_and_nothing_else() -> None:
    # WAIT-01, WAIT-03
    play = sleeping(reason="the build")
    until = play.now + HOUR

    assert play.dispatches == ()
    assert play.timers == [(CALL, until)]
    assert sweep_due_at(play.head) == until + TIMER_GRACE
    assert play.call(CALL).status == "waiting_for_timer"
    assert play.public_calls()[0]["wait_until"] == "2026-01-15T13:00:00.020Z"
    (started,) = play.events("timer_started")
    assert started.payload == {
        "tool_call_id": CALL,
        "duration_seconds": 3600,
        "until": "2026-01-15T13:00:00.020Z",
        "reason": "the build",
    }


def test_its_timer_ends_it_with_the_time_that_was_asked_for_however_late_it_fires() -> None:
    # WAIT-01
    play = sleeping()
    (timer,) = expected_timers(play.head)
    play.wait(2 * HOUR)

    play.fires(CALL, timer.fence)

    assert told(play) == {"status": "completed", "waited_seconds": 3600}
    assert play.timers == []
    assert play.turn.step is not None
    assert play.fires(CALL, timer.fence).entry is None  # the Scheduler fires twice
    assert len(play.results) == 1


def test_a_timer_that_comes_early_or_with_an_older_fence_does_nothing() -> None:
    # WAIT-08
    play = sleeping()
    (timer,) = expected_timers(play.head)
    play.wait(HOUR - 2 * play.tick)

    assert play.fires(CALL, timer.fence).entry is None
    play.wait(HOUR)
    assert play.fires(CALL, timer.fence - 1).entry is None
    assert play.call(CALL).status == "waiting_for_timer"


def test_a_wait_of_milliseconds_says_so() -> None:
    play = sleeping(1.5)
    play.wait(HOUR)

    play.fires(CALL)

    assert told(play) == {"status": "completed", "waited_seconds": 1.5}


def test_a_person_may_skip_a_wait_and_the_model_is_told_how_long_it_was() -> None:
    # WAIT-04
    play = sleeping(reason="the build")
    (timer,) = expected_timers(play.head)
    play.wait(timedelta(seconds=90) - play.tick)

    play.skip(CALL, reason="the build")

    assert told(play) == {"status": "skipped", "waited_seconds": 90, "reason": "the build"}
    assert play.events("wait.skipped")[0].payload["actor"]["subject"] == "bob"
    play.wait(HOUR)
    assert play.fires(CALL, timer.fence).entry is None


def test_a_wait_that_is_moved_has_another_timer_and_the_old_one_does_nothing() -> None:
    # WAIT-08
    play = sleeping()
    (old,) = expected_timers(play.head)
    later = play.now + 3 * HOUR

    play.move(CALL, later)

    assert play.timers == [(CALL, later)]
    play.wait(2 * HOUR)
    assert play.fires(CALL, old.fence).entry is None
    play.wait(2 * HOUR)
    play.fires(CALL)
    assert told(play) == {"status": "completed", "waited_seconds": 10_800}


def test_a_wait_that_is_moved_into_the_past_ends_now() -> None:
    play = sleeping()
    play.wait(timedelta(seconds=60) - play.tick)

    play.move(CALL, play.now - 2 * HOUR)
    play.fires(CALL)

    assert told(play) == {"status": "completed", "waited_seconds": 60}


def test_a_wait_needs_a_time_within_a_year() -> None:
    # WAIT-07
    play = sleeping()

    with pytest.raises(InvalidRequestError):
        play.move(CALL, None)
    with pytest.raises(InvalidRequestError):
        play.move(CALL, play.now + MAX_WAIT + HOUR)

    play.move(CALL, play.now + MAX_WAIT)
    assert len(play.timers) == 1


def test_a_wait_may_be_cancelled_and_the_model_is_told() -> None:
    play = sleeping()

    play.cancel(CALL)

    assert (play.status(CALL), play.reason(CALL)) == ("rejected", "cancelled")
    assert (play.timers, play.turn.step is not None) == ([], True)


@pytest.mark.parametrize("change", ["skip", "move", "cancel"])
def test_what_does_not_wait_can_not_be_changed(change: str) -> None:
    play, (running,) = asked_for(a_read())

    for wait_id in (running, "call-99-0"):
        with pytest.raises(NotFoundError) as caught:
            play.move(wait_id, play.now) if change == "move" else getattr(play, change)(wait_id)
        assert caught.value.code == "wait_not_found"


@pytest.mark.parametrize(
    ("ending", "reason", "text"),
    [
        ("stop", "turn_cancelled", "The wait ended before its time: the user stopped this turn."),
        ("steer", "steered", "The wait ended before its time: the user sent something else to do."),
    ],
)
def test_a_stop_and_a_steered_message_end_a_wait(ending: str, reason: str, text: str) -> None:
    # WAIT-04
    play = sleeping()

    play.stop() if ending == "stop" else play.send("other", delivery="steer")

    assert (play.status(CALL), play.reason(CALL), play.result(CALL)["output"]) == ("rejected", reason, text)
    assert play.timers == []


def test_a_queued_message_does_not_end_a_wait() -> None:
    # WAIT-04
    play = sleeping()

    play.send("by the way", delivery="queue")

    assert len(play.timers) == 1
    assert play.turn.turn_id == "turn-1"


def test_a_wait_that_ends_during_a_pause_is_recorded_and_the_model_is_asked_when_it_is_over() -> None:
    # U-13
    play = sleeping()
    play.pause()
    play.wait(2 * HOUR)

    play.fires(CALL)
    assert play.status(CALL) == "succeeded"
    assert play.dispatched == []

    play.resume()
    assert [d.kind for d in play.dispatches] == ["run_model"]


def test_a_wait_beside_another_calls_approval_holds_the_turn_until_both_are_over() -> None:
    play, (wait, gated) = asked_for(a_wait(), a_single_write(gated=True))
    play.wait(HOUR)
    play.fires(wait)
    assert (play.turn.step, play.pending) == (None, [gated])

    play.approve(gated)
    play.runs(gated)

    assert play.turn.step is not None


def test_deadlines_of_questions_and_approvals_can_be_moved_and_taken_away() -> None:
    play, (question, gated) = asked_for(
        a_question(approval_deadline=HOUR), a_single_write(gated=True, approval_deadline=HOUR)
    )
    (old, _) = expected_timers(play.head)

    play.move(question, None)
    play.move(gated, play.now + 2 * HOUR)

    assert [timer_id for timer_id, _ in play.timers] == [gated]
    play.wait(HOUR)
    assert play.fires(question, old.fence).entry is None
    play.answer(question, "red")
    play.approve(gated)
    assert play.dispatched == [gated]


def test_a_deadline_that_has_passed_can_not_be_moved() -> None:
    # F061
    play, (question,) = asked_for(a_question(approval_deadline=HOUR))
    play.wait(HOUR)

    with pytest.raises(RequestConflictError) as caught:
        play.move(question, play.now + HOUR)

    assert caught.value.code == "deadline_passed"


def test_a_deadline_that_is_moved_into_the_past_ends_the_question() -> None:
    play, (question,) = asked_for(a_question(approval_deadline=HOUR))

    play.move(question, play.now - HOUR)
    play.fires(question)

    assert play.result(question)["output"] == "question deadline passed"


def test_a_settled_wait_leaves_nothing_on_the_record() -> None:
    play = sleeping()
    play.skip(CALL)

    call = play.call(CALL)
    assert (call.wait, call.task, call.records, call.arrived, call.ready_at) == (None, None, (), (), None)
