"""Remote work of tools: started, looked at, asked for, and asked to stop."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.core import texts
from perdure.core.commands import AttemptPutOff, ToolFinished, ToolsFinished
from perdure.core.expected import expected_timers, sweep_due_at
from perdure.core.head import Task
from perdure.core.limits import START_LEASE
from perdure.core.wait_commands import Question, TaskCancelled
from perdure.errors import NotFoundError
from tests.unit.core.builders import Play, a_call, a_read, a_single_write, asked_for

CALL = "call-2-0"
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def with_task(effect: str = "non_idempotent_write", interval: timedelta = MINUTE, **changes: Any) -> Play:
    """Return a session whose tool has started remote work; its call is `call-2-0`."""
    play, _ = asked_for(a_call("render", effect, **changes))
    play.begins(CALL)
    play.starts_task(CALL, interval, continuation={"page": 0})
    return play


def asking(play: Play, **changes: Any) -> str:
    """Have the work ask; returns the question's id."""
    play.looks(CALL, question=Question(question="Go on?", **changes), continuation={"page": 1})
    return play.pending[-1]


def task_of(play: Play) -> Task:
    task = play.call(CALL).task
    assert task is not None
    return task


def test_a_started_task_is_a_delayed_look_and_an_event() -> None:
    # TASK-01
    play = with_task()

    assert play.call(CALL).status == "waiting_for_task"
    (look,) = play.dispatches
    assert (look.kind, look.step_id, look.attempt, look.not_before) == ("poll_tool_task", CALL, 2, play.now + MINUTE)
    (started,) = play.events("tool_task_started")
    assert started.payload == {
        "tool_call_id": CALL,
        "tool_name": "render",
        "task_id": "job-1",
        "poll_interval_seconds": 60,
    }
    assert sweep_due_at(play.head) == play.now + MINUTE + START_LEASE


def test_a_look_that_is_too_far_away_for_a_queue_is_a_timer() -> None:
    # TASK-02
    play = with_task(interval=HOUR)
    assert (play.dispatches, [timer_id for timer_id, _ in play.timers]) == ((), [CALL])
    (timer,) = expected_timers(play.head)
    assert play.fires(CALL).entry is None  # early

    play.wait(HOUR)
    play.fires(CALL)

    (look,) = play.dispatches
    assert (look.kind, look.attempt, look.not_before) == ("poll_tool_task", 2, None)
    assert play.fires(CALL, timer.fence).entry is None


def test_every_look_is_in_the_history_and_has_a_budget_of_its_own() -> None:
    # TASK-02, TASK-03
    play = with_task()
    for _ in range(5):
        play.wait(MINUTE)
        play.finishes(CALL, outcome="error")
        play.wait(MINUTE)
        play.finishes(CALL, outcome="error")
        play.wait(MINUTE)
        play.looks(CALL)

    assert play.call(CALL).status == "waiting_for_task"
    assert task_of(play).looks == 5
    assert [e.payload["status"] for e in play.events("task.looked")] == ["error", "error", "pending"] * 5
    assert len({d.attempt for d in play.dispatches}) == 1


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_a_look_that_finds_the_result_ends_the_call(outcome: str) -> None:
    # TASK-03
    play = with_task()

    play.finishes(CALL, "rendered", outcome)

    assert (play.status(CALL), play.result(CALL)["output"]) == (outcome, "rendered")
    assert play.call(CALL).task is None
    assert play.turn.step is not None


@pytest.mark.parametrize(
    ("effect", "status"),
    [("read", "failed"), ("idempotent_write", "outcome_unknown"), ("unclassified", "outcome_unknown")],
)
def test_after_three_failed_looks_the_effect_decides(effect: str, status: str) -> None:
    # TASK-03
    play = with_task(effect)

    for _ in range(3):
        play.finishes(CALL, outcome="error")

    assert play.status(CALL) == status


def test_the_next_look_is_told_the_latest_continuation_and_none_when_there_is_none() -> None:
    # TASK-03
    play = with_task()
    play.looks(CALL, continuation={"page": 2})
    assert play.facts(CALL) == [("task", "", {"interval_seconds": 10.0, "continuation": {"page": 2}})]

    play.looks(CALL)

    assert play.facts(CALL)[0][2]["continuation"] is None


def test_a_lost_look_is_made_again_and_a_late_one_is_old_news() -> None:
    play = with_task()
    lost = play.call(CALL).attempt

    play.loses(CALL)

    assert play.call(CALL).attempt == lost + 1
    assert play.finishes(CALL, "late", attempt=lost).entry is None
    play.finishes(CALL, "on time")
    assert play.result(CALL)["output"] == "on time"


def test_a_looks_outcome_shares_a_commit_with_those_of_its_siblings() -> None:
    play, (task, read) = asked_for(a_single_write("render"), a_read())
    play.begins(task)
    play.starts_task(task)
    ends = [
        ToolFinished(
            turn_id="turn-1",
            call_id=c,
            attempt=play.call(c).attempt,
            started_at=play.now,
            outcome="succeeded",
            output=c,
        )
        for c in (task, read)
    ]

    play.apply(ToolsFinished(outcomes=tuple(ends)))

    assert [play.result(c)["output"] for c in (task, read)] == [task, read]
    assert play.turn.step is not None


# --- its questions --------------------------------------------------------------------


@pytest.mark.parametrize("how", ["answered", "declined", "deadline_passed"])
def test_whatever_becomes_of_its_question_goes_to_the_very_next_look(how: str) -> None:
    # TASK-04
    play = with_task()
    asked = asking(play, deadline=HOUR)
    assert (play.dispatches, play.call(CALL).status) == ((), "awaiting_answer")

    if how == "answered":
        play.answer(asked, "yes")
    elif how == "declined":
        play.reject(asked, "no")
    else:
        play.wait(HOUR)
        play.fires(asked)

    (look,) = play.dispatches
    assert (look.kind, look.not_before) == ("poll_tool_task", None)
    assert task_of(play).resolution == play.head.version
    assert ("answer", asked) in [(kind, name) for kind, name, _ in play.facts(CALL)]
    assert [v["status"] for k, _, v in play.facts(CALL) if k == "answer"] == [how]
    assert [v["continuation"] for k, _, v in play.facts(CALL) if k == "task"] == [{"page": 1}]


def test_an_answer_is_delivered_again_when_its_look_failed_and_never_to_a_later_question() -> None:
    # TASK-04, TASK-05
    play = with_task()
    first = asking(play)
    play.answer(first, "yes")
    given = play.head.version

    play.finishes(CALL, outcome="error")
    assert task_of(play).resolution == given
    play.loses(CALL)
    assert task_of(play).resolution == given

    second = asking(play)
    assert second != first
    assert task_of(play).resolution is None
    play.answer(second, "no")
    assert [v["answer"] for k, _, v in play.facts(CALL) if k == "answer"] == ["no"]
    play.looks(CALL)
    assert task_of(play).resolution is None


def test_head_does_not_grow_with_the_questions_of_a_task() -> None:
    play = with_task()
    for _ in range(50):
        play.answer(asking(play), "yes")

    assert len(play.call(CALL).records) <= 2


# --- stop, steer, pause --------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["read", "idempotent_write", "non_idempotent_write"])
@pytest.mark.parametrize("state", ["looked_at", "far_away", "asking"])
def test_a_stop_abandons_a_task_and_asks_it_to_stop(effect: str, state: str) -> None:
    # TASK-08
    play = with_task(effect, HOUR if state == "far_away" else MINUTE)
    attempt = play.call(CALL).attempt
    if state == "asking":
        asking(play, deadline=HOUR)

    play.stop()

    assert (play.head.turn, play.status(CALL), play.reason(CALL)) == (None, "outcome_unknown", "turn_cancelled")
    assert play.result(CALL)["output"] == texts.TASK_ABANDONED
    assert play.timers == []
    (cancel,) = play.dispatches
    assert (cancel.kind, cancel.attempt) == ("cancel_tool_task", 1)
    assert play.finishes(CALL, "late", attempt=attempt).entry is None
    play.apply(TaskCancelled(step_id=cancel.step_id, attempt=1, done=True))
    (told,) = play.events("task.cancelled")
    assert (told.payload["cancelled"], told.turn_id) == (True, "turn-1")
    assert (play.head.cancellations, sweep_due_at(play.head)) == ((), None)


def test_a_task_that_is_started_while_its_turn_is_stopped_is_abandoned_at_once() -> None:
    play, _ = asked_for(a_single_write("render"))
    play.begins(CALL)
    play.stop()

    play.starts_task(CALL)

    assert (play.head.turn, play.status(CALL)) == (None, "outcome_unknown")
    assert [d.kind for d in play.dispatches] == ["cancel_tool_task"]
    handle = play.head.cancellations[0].task_version
    (fact,) = play.log[handle - 1].facts
    assert fact.value["task_id"] == "job-1"


def test_the_next_turn_does_not_wait_for_the_work_that_is_asked_to_stop() -> None:
    play = with_task()
    play.send("next", delivery="queue")

    play.stop()

    assert {d.kind for d in play.dispatches} == {"run_model", "cancel_tool_task"}
    assert sweep_due_at(play.head) is not None


def test_work_is_asked_to_stop_three_times_within_two_minutes() -> None:
    # TASK-08
    play = with_task()
    play.stop()

    for attempt in (1, 2, 3):
        (cancel,) = play.dispatches
        assert cancel.attempt == attempt
        assert play.apply(TaskCancelled(step_id=cancel.step_id, attempt=attempt - 1, done=True)).entry is None
        play.apply(TaskCancelled(step_id=cancel.step_id, attempt=attempt, done=False))

    assert play.head.cancellations == ()
    assert play.events("task.cancelled")[0].payload["cancelled"] is False


def test_a_lost_try_to_stop_it_counts_and_is_over_after_two_minutes() -> None:
    play = with_task()
    play.stop()
    (cancel,) = play.dispatches
    play.loses(cancel.step_id)
    assert play.dispatches[0].attempt == 2

    play.wait(timedelta(minutes=2))
    play.loses(cancel.step_id)

    assert play.head.cancellations == ()


def test_a_pause_does_not_hold_back_that_work_is_asked_to_stop() -> None:
    play = with_task()
    play.stop()
    play.pause()

    assert [d.kind for d in play.dispatches] == ["cancel_tool_task"]


def test_a_steered_message_waits_for_a_started_task_its_questions_included() -> None:
    # TASK-07
    play = with_task()
    play.send("other", delivery="steer")
    asked = asking(play)
    assert (play.turn.turn_id, play.pending) == ("turn-1", [asked])

    play.answer(asked, "yes")
    play.finishes(CALL, "rendered")

    assert (play.status(CALL), play.turn.turn_id) == ("succeeded", "turn-2")


def test_a_task_started_in_a_steered_turn_is_let_finish() -> None:
    # TASK-07
    play, _ = asked_for(a_single_write("render"))
    play.begins(CALL)
    play.send("other", delivery="steer")

    play.starts_task(CALL)
    play.finishes(CALL, "rendered")

    assert (play.status(CALL), play.turn.turn_id) == ("succeeded", "turn-2")


def test_during_a_pause_no_look_begins_and_one_that_was_claimed_is_numbered_anew() -> None:
    play = with_task()
    play.pause()
    assert play.dispatched == []
    claimed = play.call(CALL).attempt
    play.apply(AttemptPutOff(step_id=CALL, attempt=claimed))
    play.wait(HOUR)

    play.resume()

    (look,) = play.dispatches
    assert (look.kind, look.attempt) == ("poll_tool_task", claimed + 1)
    assert play.call(CALL).first_attempt_at == play.now


def test_a_person_may_cancel_a_task_and_its_question_is_taken_back() -> None:
    play, (task, first, second) = asked_for(
        a_single_write("render"), a_single_write("a", gated=True), a_single_write("b", gated=True)
    )
    play.begins(task)
    play.starts_task(task)
    asked = asking(play)

    play.cancel(task)

    assert (play.status(task), play.reason(task)) == ("outcome_unknown", "cancelled")
    assert play.pending == [first, second]
    taken_back = play.events("interrupt_resolved")[-1].payload
    assert taken_back == {"interrupt_id": asked, "kind": "question", "cancellation_reason": "cancelled"}
    assert "cancel_tool_task" in {d.kind for d in play.dispatches}
    with pytest.raises(NotFoundError):
        play.answer(asked, "yes")


def test_a_cancelled_task_lets_the_next_approval_be_asked_when_they_are_asked_one_at_a_time() -> None:
    # APPR-07
    play = Play()
    play.send()
    task, gated = play.model_asks(a_single_write("render"), a_single_write("a", gated=True), one_by_one=True)
    play.approve(gated)
    play.runs(gated)
    play.begins(task)
    play.starts_task(task)
    play.looks(task, question=Question(question="Go on?"))

    play.cancel(task)

    assert play.pending == []
    assert play.turn.step is not None


def test_a_far_look_can_be_made_now_and_put_off() -> None:
    play = with_task(interval=HOUR)
    play.move(CALL, play.now + 2 * HOUR)
    assert play.timers[0][1] == play.now - play.tick + 2 * HOUR

    play.skip(CALL)

    assert [d.kind for d in play.dispatches] == ["poll_tool_task"]
    assert play.timers == []


@pytest.mark.parametrize(("effect", "status"), [("read", "failed"), ("non_idempotent_write", "outcome_unknown")])
def test_a_task_that_nobody_can_look_after_is_over(effect: str, status: str) -> None:
    # TASK-09
    play, _ = asked_for(a_call("render", effect))
    play.begins(CALL)

    play.starts_task(CALL, polls=False)

    assert (play.status(CALL), play.result(CALL)["output"]) == (status, texts.NO_POLLER)
