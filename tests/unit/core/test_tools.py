"""What follows the start and the end of a tool's attempt."""

from datetime import timedelta

import pytest

from perdure.core import texts
from perdure.core.commands import RequestedCall
from tests.unit.core.builders import (
    NOON,
    WRITE_EFFECTS,
    a_call,
    a_read,
    a_safe_write,
    a_session,
    a_single_write,
    asked_for,
)


def test_the_turn_waits_for_every_sibling_and_then_asks_the_model_once() -> None:
    # MODEL-09, SESS-05, SESS-26
    play, (first, second) = asked_for(a_read("a"), a_read("b"))

    play.runs(second)

    assert play.turn.step is None
    assert play.dispatched == [first]
    play.runs(first)
    assert play.dispatched == [play.step.step_id]
    assert play.step.step_id == f"model-{play.head.version}-0"


def test_a_failure_of_one_call_discards_no_sibling() -> None:
    # F131: three results, one following model call.
    play, (ok, boom, slow) = asked_for(a_read("ok"), a_single_write("boom"), a_read("slow"))
    play.runs(ok, "1")
    play.runs(boom, "boom failed with ValueError", "error")
    play.runs(slow, "2")

    assert [play.status(c) for c in (ok, boom, slow)] == ["succeeded", "outcome_unknown", "succeeded"]
    assert play.turn.model_calls == 1
    assert play.turn.step is not None


def test_the_same_outcome_delivered_again_changes_nothing() -> None:
    # F131, F103, EVT-08: one result per call.
    play, (ok, _) = asked_for(a_read("ok"), a_read("slow"))
    play.runs(ok, "1")

    decision = play.finishes(ok, "1 again")

    assert decision.entry is None
    assert play.result(ok)["output"] == "1"


@pytest.mark.parametrize("effect", WRITE_EFFECTS)
def test_a_write_is_recorded_as_started_before_its_body_runs(effect: str) -> None:
    # TOOL-07, F106
    play, (call,) = asked_for(a_call("put", effect))

    assert play.starts(call, owner="worker-1")

    assert play.last.events[0].type == "tool_call_started"
    assert play.last.events[0].payload == {"tool_call_id": call, "tool_name": "put"}
    assert (play.call(call).started, play.call(call).started_attempt) == ("worker-1", 1)


def test_a_worker_whose_answer_was_lost_recognises_its_own_start() -> None:
    # races.md X8
    play, (call,) = asked_for(a_single_write())
    play.starts(call, owner="worker-1")

    again = play.starts(call, owner="worker-1")

    assert again
    assert len(play.events("tool_call_started")) == 1


@pytest.mark.parametrize("effect", WRITE_EFFECTS)
def test_a_second_worker_never_starts_the_same_attempt(effect: str) -> None:
    # F103, TOOL-07, TOOL-21
    play, (call,) = asked_for(a_call("put", effect))
    play.starts(call, owner="worker-1")

    assert not play.starts(call, owner="worker-2")
    assert play.call(call).started == "worker-1"


def test_an_old_attempt_can_not_start() -> None:
    # TOOL-21
    play, (call,) = asked_for(a_safe_write())
    play.loses(call)

    assert not play.starts(call, attempt=1)


def test_a_call_of_a_turn_that_is_over_can_not_start() -> None:
    # TOOL-26
    play, (call,) = asked_for(a_single_write())
    play.stop()

    assert not play.starts(call, attempt=1)
    assert play.status(call) == "rejected"


def test_a_call_that_waits_for_a_person_can_not_start_or_end() -> None:
    # F060, APPR-01
    play, (call,) = asked_for(a_single_write(gated=True))

    assert not play.starts(call)
    assert play.finishes(call, "forged").entry is None
    assert play.pending == [call]


@pytest.mark.parametrize("requested", [a_read(), a_safe_write()])
def test_an_unexpected_error_is_tried_again_after_one_and_two_seconds(requested: RequestedCall) -> None:
    # TOOL-02, TOOL-09, surface §4.3
    play, (call,) = asked_for(requested)

    play.runs(call, "it failed with OSError", "error")

    assert (play.call(call).attempt, play.call(call).not_before) == (2, play.now + timedelta(seconds=1))
    assert play.last.events[-1].type == "attempt_reset"
    play.runs(call, "it failed with OSError", "error")
    assert (play.call(call).attempt, play.call(call).not_before) == (3, play.now + timedelta(seconds=2))
    play.runs(call, "at last")
    assert play.status(call) == "succeeded"


def test_a_read_whose_attempts_end_has_failed() -> None:
    # TOOL-05
    play, (call,) = asked_for(a_read())

    for _ in range(3):
        play.runs(call, "it failed with OSError", "error")

    assert play.status(call) == "failed"
    assert play.result(call)["output"] == "the tool failed in every attempt: it failed with OSError"


def test_a_write_whose_attempts_end_may_have_taken_effect() -> None:
    # TOOL-05
    play, (call,) = asked_for(a_safe_write())

    for _ in range(3):
        play.runs(call, "it failed with OSError", "error")

    assert play.status(call) == "outcome_unknown"
    assert play.result(call)["output"] == texts.OUTCOME_UNKNOWN


@pytest.mark.parametrize("effect", ["non_idempotent_write", "unclassified"])
def test_a_tool_that_runs_once_is_not_tried_again_after_an_error(effect: str) -> None:
    # TOOL-02, TOOL-05, TOOL-28
    play, (call,) = asked_for(a_call("pay", effect))

    play.runs(call, "it failed with OSError", "error")

    assert play.status(call) == "outcome_unknown"
    assert play.turn.step is not None


def test_an_error_before_a_write_began_may_be_tried_again_even_for_a_tool_that_runs_once() -> None:
    play, (call,) = asked_for(a_single_write())

    play.finishes(call, "the arguments could not be read", "error")

    assert play.call(call).attempt == 2
    assert play.starts(call)


def test_a_write_that_never_began_in_any_attempt_is_safe_to_call_again() -> None:
    # TOOL-06
    play, (call,) = asked_for(a_single_write())

    for _ in range(3):
        play.finishes(call, "the arguments could not be read", "error")

    assert play.status(call) == "failed"
    assert play.result(call)["output"].startswith("the tool did not run, so it is safe to call again: ")


@pytest.mark.parametrize("requested", [a_read(), a_safe_write(), a_single_write()])
def test_a_failure_that_the_tool_reports_itself_is_final(requested: RequestedCall) -> None:
    # TOOL-09
    play, (call,) = asked_for(requested)

    play.runs(call, "no such order", "failed")

    assert play.result(call)["status"] == "failed"
    assert play.result(call)["output"] == "no such order"


def test_attempts_begin_within_thirty_minutes() -> None:
    # MODEL-02, TOOL-02
    play, (call,) = asked_for(a_read())
    play.wait(timedelta(minutes=30))

    play.runs(call, "it failed with OSError", "error")

    assert play.status(call) == "failed"


def test_a_reads_start_is_recorded_with_its_end_and_the_time_it_began() -> None:
    # design §7
    play, (call,) = asked_for(a_read())

    play.finishes(call, started_at=NOON)

    started, finished = play.last.events[:2]
    assert (started.type, started.at, started.step_execution_id) == ("tool_call_started", NOON, call)
    assert (finished.type, finished.payload["status"]) == ("tool_call_finished", "succeeded")


def test_an_outcome_of_an_older_attempt_changes_nothing() -> None:
    # TOOL-21, SESS-13
    play, (call,) = asked_for(a_safe_write())
    play.starts(call)
    play.loses(call)

    assert play.finishes(call, "late", attempt=1).entry is None
    assert play.call(call).attempt == 2


def test_an_outcome_after_the_turn_closed_changes_nothing() -> None:
    # F029
    play, (call,) = asked_for(a_read())
    play.stop()

    assert play.finishes(call, "late").entry is None
    assert play.status(call) == "rejected"


def test_the_id_of_a_call_is_the_same_on_every_attempt() -> None:
    # TOOL-08: it is the last part of the idempotency key.
    play, (call,) = asked_for(a_safe_write())

    play.runs(call, "it failed", "error")

    assert [d.step_id for d in play.dispatches] == [call]


def test_a_chain_of_calls_keeps_only_the_last_responses_calls_in_head() -> None:
    play = a_session()
    for _ in range(3):
        (call,) = play.model_asks(a_read())
        play.runs(call)

    assert len(play.turn.calls) <= 1
    assert len(play.results) == 3
