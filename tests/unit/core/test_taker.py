"""The hot turn in the core: a commit that claims the step that it makes ready (design §3)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from perdure.core.commands import AttemptLost, Taker
from perdure.core.expected import expected_dispatches, sweep_due_at
from perdure.core.limits import START_LEASE
from tests.unit.core.builders import Play, a_read, a_session, a_single_write

WORKER = Taker(owner="worker-1", any_tool=True)
MODEL_WORKER = Taker(owner="worker-1")


def a_hot_session(taker: Taker = WORKER) -> Play:
    play = a_session()
    play.taker = taker
    return play


def claimed(play: Play) -> list[tuple[str, str | None]]:
    return [(d.kind, d.claimed_by) for d in expected_dispatches(play.head)]


def test_a_call_that_is_alone_ready_is_claimed_by_the_commit_that_made_it() -> None:
    play = a_hot_session()

    play.model_asks(a_read())

    assert claimed(play) == [("call_tool", "worker-1")]
    assert sweep_due_at(play.head) == play.now + START_LEASE


def test_the_model_step_behind_the_last_result_is_claimed_too() -> None:
    play = a_hot_session()
    (call_id,) = play.model_asks(a_read())

    play.finishes(call_id)

    assert claimed(play) == [("run_model", "worker-1")]


def test_several_calls_go_out_to_workers_of_their_own() -> None:
    play = a_hot_session()

    play.model_asks(a_read("a"), a_read("b"))

    assert claimed(play) == [("call_tool", None), ("call_tool", None)]


def test_a_call_beside_one_that_waits_for_a_person_is_alone_ready() -> None:
    play = a_hot_session()

    play.model_asks(a_read(), a_single_write(gated=True))

    assert claimed(play) == [("call_tool", "worker-1")]


def test_a_model_worker_takes_only_calls_that_may_run_inline() -> None:
    play = a_hot_session(MODEL_WORKER)

    play.model_asks(a_read())
    others = a_hot_session(MODEL_WORKER)
    others.model_asks(a_read(inline=True))

    assert claimed(play) == [("call_tool", None)]
    assert claimed(others) == [("call_tool", "worker-1")]


def test_a_write_that_is_taken_has_started_in_the_same_commit() -> None:
    play = a_hot_session()

    (call_id,) = play.model_asks(a_single_write())

    call = play.call(call_id)
    assert (call.started, call.started_attempt) == ("worker-1", 1)
    assert [event.type for event in play.last.events][-1] == "tool_call_started"
    assert not play.starts(call_id, owner="worker-2")


def test_a_taken_write_that_is_lost_has_an_unknown_outcome_and_never_runs_again() -> None:
    play = a_hot_session()
    (call_id,) = play.model_asks(a_single_write())

    play.apply(AttemptLost(step_id=call_id, attempt=1, claimed=True, reason="its worker died"))

    (result,) = play.last.messages[0].parts
    assert result["status"] == "outcome_unknown"


def test_the_attempt_after_a_taken_one_is_nobodys() -> None:
    play = a_hot_session()
    (call_id,) = play.model_asks(a_read())

    play.apply(AttemptLost(step_id=call_id, attempt=1, claimed=True, reason="its worker died"))

    (dispatch,) = expected_dispatches(play.head)
    assert (dispatch.attempt, dispatch.claimed_by, dispatch.claimed_until) == (2, None, None)


def test_a_taken_model_step_that_is_lost_is_asked_again_by_anybody() -> None:
    play = a_hot_session()
    (call_id,) = play.model_asks(a_read())
    play.finishes(call_id)

    play.apply(AttemptLost(step_id=play.step.step_id, attempt=1, claimed=True, reason="its worker died"))

    assert claimed(play) == [("run_model", None)]


def test_a_stop_rejects_a_taken_read_and_waits_for_a_taken_write() -> None:
    reading, writing = a_hot_session(), a_hot_session()
    reading.model_asks(a_read())
    writing.model_asks(a_single_write())

    reading.stop()
    writing.stop()

    assert reading.head.turn is None
    assert writing.head.turn is not None
    assert len(writing.turn.open_calls) == 1


def test_the_turn_of_a_queued_message_is_taken_by_the_commit_that_answers_the_one_before() -> None:
    play = a_hot_session()
    play.taker = None
    play.send("next")
    play.taker = WORKER

    play.model_answers()

    assert play.turn.turn_id == "turn-2"
    assert claimed(play) == [("run_model", "worker-1")]


def test_a_retry_that_has_to_wait_is_not_taken() -> None:
    play = a_hot_session()
    (call_id,) = play.model_asks(a_read())

    play.finishes(call_id, outcome="error")

    (dispatch,) = expected_dispatches(play.head)
    assert (dispatch.attempt, dispatch.claimed_by) == (2, None)
    assert dispatch.not_before == play.now + timedelta(seconds=1)


def test_without_a_taker_nothing_is_claimed() -> None:
    play = a_session()

    play.model_asks(replace(a_read(), inline=True))

    assert claimed(play) == [("call_tool", None)]
