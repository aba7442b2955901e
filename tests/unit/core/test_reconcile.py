"""What became of an attempt whose outcome is not known is looked up, before the model is told that it is unknown."""

from __future__ import annotations

from perdure.core import texts
from perdure.core.limits import RECONCILE_DELAYS
from tests.unit.core.builders import Play, a_safe_write, a_single_write, asked_for

CALL = "call-2-0"


def reconciling() -> Play:
    play, _ = asked_for(a_single_write("pay", reconciles=True))
    play.begins(CALL)
    play.loses(CALL)
    return play


def test_what_became_of_a_lost_write_is_looked_up_before_the_model_is_told() -> None:
    play = reconciling()

    (look,) = play.dispatches
    assert look.kind == "poll_tool_task"
    assert play.events("task.reconciling")
    play.finishes(CALL, "paid")
    assert (play.status(CALL), play.result(CALL)["output"]) == ("succeeded", "paid")


def test_an_outcome_that_stays_unknown_is_said_to_be() -> None:
    play = reconciling()

    for delay in RECONCILE_DELAYS:
        play.looks(CALL)
        assert play.dispatches[0].not_before == play.now + delay
    play.looks(CALL)

    assert (play.status(CALL), play.result(CALL)["output"]) == ("outcome_unknown", texts.OUTCOME_UNKNOWN)


def test_a_failing_look_for_an_outcome_does_not_look_for_ever() -> None:
    play = reconciling()

    for _ in range(3):
        play.finishes(CALL, outcome="error")

    assert play.status(CALL) == "outcome_unknown"


def test_a_stop_ends_the_look_for_an_outcome_and_there_is_nothing_to_ask_to_stop() -> None:
    play = reconciling()

    play.stop()

    assert (play.status(CALL), play.head.turn, play.dispatches) == ("outcome_unknown", None, ())


def test_an_idempotent_write_is_looked_up_when_its_attempts_are_spent() -> None:
    play, _ = asked_for(a_safe_write(reconciles=True))
    for _ in range(3):
        play.begins(CALL)
        play.finishes(CALL, outcome="error")

    assert [d.kind for d in play.dispatches] == ["poll_tool_task"]
