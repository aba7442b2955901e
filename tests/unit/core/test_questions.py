"""Questions to a person: of the model, and of a tool before it takes effect."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from perdure.core.expected import sweep_due_at
from perdure.core.limits import MAX_RECORDS
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from tests.unit.core.builders import (
    BOB,
    Play,
    a_call,
    a_question,
    a_read,
    a_safe_write,
    a_single_write,
    a_wait,
    asked_for,
)

HOUR = timedelta(hours=1)
WEEK = timedelta(days=7)
CALL = "call-2-0"
ASKED = "call-2-0-input-1"


def asking(effect: str = "non_idempotent_write") -> Play:
    """Return a session whose tool has asked; its call is `call-2-0`, the question `call-2-0-input-1`."""
    play, _ = asked_for(a_call("put", effect))
    play.begins(CALL)
    play.asks(CALL, continuation={"draft": 1})
    return play


def test_a_question_of_the_model_waits_for_a_person_under_its_calls_id() -> None:
    # APPR-11, APPR-17
    play, _ = asked_for(a_question(choices=["red", "blue"], allows_free_text=False, approval_deadline=HOUR))

    assert (play.dispatches, play.pending) == ((), [CALL])
    assert play.call(CALL).status == "awaiting_answer"
    (raised,) = play.events("interrupt_raised")
    assert raised.payload == {
        "interrupt_id": CALL,
        "kind": "question",
        "tool_call_id": CALL,
        "tool_name": "ask_user",
        "question": "Which colour?",
        "choices": ["red", "blue"],
        "allows_free_text": False,
        "deadline": "2026-01-15T13:00:00.020Z",
    }


def test_nobody_looks_at_a_session_that_awaits_an_answer_without_a_deadline() -> None:
    play, _ = asked_for(a_question())

    assert play.timers == []
    assert sweep_due_at(play.head) is None


def test_the_answer_is_the_result_of_the_models_question() -> None:
    # APPR-11
    play, _ = asked_for(a_question())

    assert play.answer(CALL, "red", message="dark, please").reply == {"result": "resolved"}

    told = json.loads(play.result(CALL)["output"])
    assert told == {"status": "answered", "answer": "red", "message": "dark, please"}
    assert play.status(CALL) == "succeeded"
    (resolved,) = play.events("interrupt_resolved")
    assert (resolved.payload["answered"], resolved.payload["actor"]["subject"]) == (True, BOB.subject)
    assert play.turn.step is not None


@pytest.mark.parametrize(("message", "told"), [(None, "The user declined to answer."), ("not now", "not now")])
def test_a_person_may_decline_to_answer(message: str | None, told: str) -> None:
    # APPR-11
    play, _ = asked_for(a_question())

    play.reject(CALL, message)

    assert (play.status(CALL), play.result(CALL)["output"], play.reason(CALL)) == ("rejected", told, "declined")
    assert play.turn.step is not None


def test_a_question_nobody_answers_in_time_is_over_and_a_late_answer_finds_nothing() -> None:
    # F066, APPR-12
    play, _ = asked_for(a_question(approval_deadline=HOUR))
    play.wait(HOUR)

    with pytest.raises(RequestConflictError) as late:  # the deadline decides, not its timer
        play.answer(CALL, "red")
    assert late.value.code == "deadline_passed"
    play.fires(CALL)
    with pytest.raises(NotFoundError):
        play.answer(CALL, "red")

    assert (play.status(CALL), play.result(CALL)["output"]) == ("rejected", "question deadline passed")
    assert play.reason(CALL) == "deadline_passed"
    assert play.turn.step is not None


def test_an_early_or_stale_deadline_does_nothing() -> None:
    # WAIT-08
    play, _ = asked_for(a_question(approval_deadline=HOUR))

    assert play.fires(CALL).entry is None
    play.wait(2 * HOUR)
    assert play.fires(CALL, fence=1).entry is None
    assert play.pending == [CALL]


@pytest.mark.parametrize("decision", [{"approved": True}, {"approved": None}, {"arguments": {"a": 1}}])
def test_a_question_is_answered_or_declined_and_nothing_else(decision: dict[str, object]) -> None:
    play, _ = asked_for(a_question())

    with pytest.raises(InvalidRequestError):
        play.approve(CALL, **decision)

    assert play.pending == [CALL]


@pytest.mark.parametrize("effect", ["read", "idempotent_write", "non_idempotent_write", "unclassified"])
def test_a_tool_that_asked_runs_again_with_what_was_answered(effect: str) -> None:
    # APPR-13
    play = asking(effect)
    assert (play.dispatches, play.pending, play.call(CALL).started) == ((), [ASKED], None)

    play.answer(ASKED, "yes", message="go on")

    (dispatch,) = play.dispatches
    assert (dispatch.step_id, dispatch.attempt) == (CALL, 2)
    assert play.facts(CALL) == [
        ("question", ASKED, {"question": "Really?", "continuation": {"draft": 1}}),
        ("answer", ASKED, {"status": "answered", "answer": "yes", "message": "go on"}),
    ]
    play.runs(CALL)
    assert play.status(CALL) == "succeeded"
    assert (play.call(CALL).records, len(play.results)) == ((), 1)


def test_a_week_later_the_attempts_behind_an_answer_have_their_whole_budget() -> None:
    play = asking("idempotent_write")
    play.wait(WEEK)
    play.answer(ASKED, "yes")

    for _ in range(2):
        play.begins(CALL)
        play.finishes(CALL, outcome="error")

    assert play.call(CALL).status == "approved"
    play.begins(CALL)
    play.finishes(CALL, outcome="error")
    assert play.status(CALL) == "outcome_unknown"


def test_a_tool_may_ask_again_and_parallel_tools_ask_at_once() -> None:
    # APPR-13
    play, (first, second) = asked_for(a_single_write("a"), a_single_write("b"))
    for call in (first, second):
        play.begins(call)
        play.asks(call)
    assert play.pending == [f"{first}-input-1", f"{second}-input-1"]

    play.answer(f"{second}-input-1", "yes")
    play.begins(second)
    play.asks(second)
    play.answer(f"{first}-input-1", "no")

    assert play.pending == [f"{second}-input-2"]
    assert play.dispatched == [first]
    play.answer(f"{second}-input-2", "yes")
    play.runs(first)
    play.runs(second)
    assert [fact[1] for fact in play.facts(second)] == []
    assert play.turn.step is not None


def test_a_tools_question_that_is_declined_ends_its_call_which_did_nothing() -> None:
    play = asking()

    play.reject(ASKED)

    assert (play.status(CALL), play.reason(CALL)) == ("rejected", "declined")
    assert not play.starts(CALL, attempt=1)


def test_a_tool_that_recorded_a_step_before_it_asked_is_not_said_to_have_done_nothing() -> None:
    play, _ = asked_for(a_single_write())
    play.begins(CALL)
    play.records(CALL)
    play.asks(CALL)

    play.reject(ASKED, "no")

    assert play.status(CALL) == "outcome_unknown"
    assert play.result(CALL)["output"].startswith("no\n\nThis tool call had begun")


def test_an_attempt_that_was_lost_before_the_one_that_asks_may_have_done_something() -> None:
    play, _ = asked_for(a_safe_write())
    play.begins(CALL)
    play.loses(CALL)
    play.begins(CALL)
    play.asks(CALL)

    play.stop()

    assert play.status(CALL) == "outcome_unknown"


def test_what_nobody_claimed_behind_an_answer_did_not_run() -> None:
    play = asking()
    play.answer(ASKED, "yes")

    play.loses(CALL, claimed=False, final=True)

    assert play.result(CALL)["output"].startswith("the tool did not run, so it is safe to call again")


def test_a_lost_attempt_behind_an_answer_of_what_runs_once_stays_unknown() -> None:
    play = asking()
    play.answer(ASKED, "yes")
    play.begins(CALL)

    play.loses(CALL)

    assert play.status(CALL) == "outcome_unknown"


def test_a_question_that_comes_twice_is_asked_once() -> None:
    play, _ = asked_for(a_read())
    play.asks(CALL)

    assert play.asks(CALL).entry is None
    assert play.pending == [ASKED]


@pytest.mark.parametrize("tool", [a_question(), a_safe_write()])
def test_a_stop_takes_the_question_back_and_a_late_answer_finds_nothing(tool: object) -> None:
    # APPR-16, STOP-06
    play, _ = asked_for(tool)  # type: ignore[arg-type]
    if play.dispatches:
        play.begins(CALL)
        play.asks(CALL)
    (pending,) = play.pending

    play.stop()

    assert (play.head.turn, play.status(CALL), play.reason(CALL)) == (None, "rejected", "turn_cancelled")
    assert play.result(CALL)["output"] == "The question was not answered: the user stopped this turn."
    (taken_back,) = play.events("interrupt_resolved")
    assert taken_back.payload["cancellation_reason"] == "turn_cancelled"
    with pytest.raises(NotFoundError):
        play.answer(pending, "red")


def test_a_steered_message_takes_the_question_back() -> None:
    # APPR-16
    play, _ = asked_for(a_question())

    play.send("never mind", delivery="steer")

    assert (play.status(CALL), play.reason(CALL)) == ("rejected", "steered")
    assert play.turn.turn_id == "turn-2"
    with pytest.raises(NotFoundError):
        play.answer(CALL, "red")


@pytest.mark.parametrize(("ending", "reason"), [("stop", "turn_cancelled"), ("steer", "steered")])
def test_a_tool_that_asks_while_its_turn_is_being_ended_asks_nobody(ending: str, reason: str) -> None:
    play, _ = asked_for(a_single_write())
    play.begins(CALL)
    play.stop() if ending == "stop" else play.send("other", delivery="steer")

    play.asks(CALL)

    assert (play.status(CALL), play.reason(CALL), play.pending) == ("rejected", reason, [])
    assert not play.events("interrupt_raised")


def test_a_question_is_answered_during_a_pause_and_its_tool_goes_on_when_it_is_over() -> None:
    # U-13
    play = asking()
    play.pause()

    play.answer(ASKED, "yes")
    assert play.dispatches == ()

    play.wait(WEEK)
    play.resume()
    assert play.dispatched == [CALL]
    assert play.call(CALL).first_attempt_at == play.now


def test_an_approval_beside_a_question_is_decided_on_its_own() -> None:
    play, (question, gated) = asked_for(a_question(), a_single_write(gated=True))

    play.approve(gated)
    assert (play.dispatched, play.pending) == ([gated], [question])
    play.runs(gated)
    assert play.turn.step is None
    play.answer(question, "red")
    assert play.turn.step is not None


def test_with_approvals_one_at_a_time_the_next_is_asked_when_a_question_is_answered() -> None:
    # APPR-07
    play = Play()
    play.send()
    question, first, second = play.model_asks(
        a_question(), a_single_write("a", gated=True), a_single_write("b", gated=True), one_by_one=True
    )
    assert play.pending == [question]

    play.answer(question, "red")
    assert play.pending == [first]
    play.reject(first)
    assert play.pending == [second]


def test_a_tool_that_asks_without_end_is_ended() -> None:
    play, _ = asked_for(a_read())
    for number in range(1, MAX_RECORDS // 2 + 1):
        play.asks(CALL)
        play.answer(f"{CALL}-input-{number}", "again")

    play.asks(CALL)

    assert (play.status(CALL), play.pending) == ("failed", [])


def test_a_queued_message_answers_nothing_and_ends_no_question() -> None:
    # WAIT-04
    play, _ = asked_for(a_question(), a_wait())

    play.send("by the way", delivery="queue")

    assert play.pending == [CALL]
    assert play.turn.turn_id == "turn-1"
