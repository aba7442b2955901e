"""Pause and resume: the gate for new steps and turns (spec U-13)."""

from datetime import timedelta

from perdure.core.commands import AttemptPutOff, ModelWaits
from perdure.core.control_commands import (
    PauseSession,
    ResumeSession,
)
from perdure.core.expected import awaited_steps, sweep_due_at
from perdure.core.public import public_state
from tests.unit.core.builders import (
    ALICE,
    Play,
    a_read,
    a_safe_write,
    a_session,
    a_single_write,
    asked_for,
)


def pause(play: Play) -> str:
    return str(play.apply(PauseSession(actor=ALICE)).reply["result"])


def resume(play: Play) -> str:
    return str(play.apply(ResumeSession(actor=ALICE)).reply["result"])


# --- pause -----------------------------------------------------------------------------------------------------


def test_a_pause_lets_nothing_begin_and_what_runs_finishes() -> None:
    # INBOX-15, U-13
    play, (write, look) = asked_for(a_safe_write(), a_read())
    assert play.starts(write)
    assert pause(play) == "recorded"
    assert pause(play) == "already_recorded"

    assert not play.dispatched
    assert sweep_due_at(play.head) is None
    play.finishes(write)
    play.finishes(look)

    assert play.turn.step is not None
    assert not play.dispatched
    state = public_state(play.head)
    assert state is not None
    assert state["paused"] is True
    assert resume(play) == "recorded"
    assert resume(play) == "already_recorded"
    assert [d.kind for d in play.dispatches] == ["run_model"]


def test_a_tool_does_not_begin_after_a_pause_and_begins_with_the_next_attempt_when_it_ends() -> None:
    # U-13: its claim can't be taken again, so the attempt is numbered anew; that costs no attempt of its budget.
    play, (write,) = asked_for(a_single_write())
    pause(play)

    assert not play.starts(write)

    assert (play.call(write).attempt, play.call(write).spared) == (2, 1)
    resume(play)
    assert play.starts(write)
    play.loses(write)
    assert play.messages[-1].parts[0]["status"] == "outcome_unknown"


def test_a_step_whose_claim_came_too_late_is_numbered_anew_and_keeps_its_budget() -> None:
    play = a_session()
    pause(play)
    for attempt in (1, 2, 3, 4):
        play.apply(AttemptPutOff(step_id="model-1-0", attempt=attempt))
    play.apply(AttemptPutOff(step_id="model-1-0", attempt=1))
    assert play.step.attempt == 5
    resume(play)

    play.loses("model-1-0")

    assert play.step.attempt == 6  # the second of three


def test_calls_that_are_decided_in_a_pause_begin_when_it_ends() -> None:
    play, (asked,) = asked_for(a_single_write(requires_approval=True))
    pause(play)

    play.approve(asked)

    assert awaited_steps(play.head) == ()
    resume(play)
    assert play.dispatched == [asked]


def test_messages_wait_while_paused_and_a_stop_still_works() -> None:
    # U-13: stop, steer and queue edits still work
    play = Play()
    play.send("one")
    pause(play)
    assert play.send("two").reply["delivered_as"] == "queue"
    play.stop()
    assert [d.kind for d in play.dispatches] == ["run_model"]  # somebody has to end it
    play.model_ends("aborted")

    assert play.head.turn is None
    assert [m.message_id for m in play.head.inbox] == ["message-3-0"]
    resume(play)
    assert play.turn.message_id == "message-3-0"


def test_the_times_of_what_waited_count_from_the_end_of_the_pause() -> None:
    play, _ = asked_for(a_read())
    pause(play)
    play.wait(timedelta(days=30))
    resume(play)

    assert play.turn.calls[0].first_attempt_at == play.now
    due = sweep_due_at(play.head)
    assert due is not None
    assert due > play.now


def test_the_times_of_a_step_whose_wait_ended_in_the_pause_count_from_its_end_too() -> None:
    play = a_session()
    step = play.step
    play.apply(
        ModelWaits(
            turn_id="turn-1",
            step_id=step.step_id,
            attempt=1,
            started_at=play.now,
            retry_in=timedelta(minutes=1),
            usage=(),
            reconnects=(),
        )
    )
    pause(play)
    play.wait(timedelta(days=30))
    resume(play)

    play.loses(step.step_id)

    assert play.dispatched == [step.step_id], "a worker that died used up no more than one attempt"
