"""Values that an application asks people for (APPR-15)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from perdure.core.commands import ResolveInterrupt, TimerFired
from perdure.core.control_commands import RequestValue, WithdrawRequest
from perdure.core.expected import expected_timers, sweep_due_at
from perdure.core.history import Transcript
from perdure.core.public import public_interrupts, public_state
from perdure.core.wait_commands import ChangeWait
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError
from tests.unit.core.builders import ALICE, BOB, Play

ADDRESS = RequestValue(name="address", prompt="Where to?", actor=ALICE, schema={"type": "object"})
ID = "input:address"


def wanted(**changes: Any) -> Play:
    """Return an idle session of which a value is wanted."""
    play = Play()
    play.send()
    play.model_answers()
    play.apply(replace(ADDRESS, schema=None, **changes) if "schema" not in changes else replace(ADDRESS, **changes))
    return play


def give(play: Play, value: Any, **changes: Any) -> None:
    play.apply(replace(ResolveInterrupt(interrupt_id=ID, actor=BOB, value={"value": value}), **changes))


def test_it_is_pending_in_a_session_that_does_nothing() -> None:
    play = wanted(schema={"type": "object"})

    assert public_interrupts(play.head, [], play.log) == [
        {"interrupt_id": ID, "kind": "input", "question": "Where to?", "schema": {"type": "object"}}
    ]
    state = public_state(play.head)
    assert state is not None
    assert state["waiting_for"] == [{"kind": "input", "id": ID, "since": "2026-01-15T12:00:00.030Z"}]
    assert state["status"] == "waiting_for_user_message"


@pytest.mark.parametrize("value", [{"street": "1 Road"}, "text", 5, [1, 2], False, None])
def test_any_value_is_kept_and_a_model_step_may_use_it(value: Any) -> None:
    play = wanted()

    give(play, value)

    assert play.head.requests == ()
    resolved = play.last.events[-1]
    assert resolved.type == "interrupt_resolved"
    assert resolved.payload["answered"] is True
    transcript = Transcript()
    transcript.extend(play.log)
    assert transcript.values == {"address": value}


def test_no_value_reaches_the_model_by_itself() -> None:
    play = wanted()

    give(play, "SECRET STREET")

    assert "SECRET STREET" not in repr(play.history)


def test_asking_again_while_it_is_open_changes_nothing() -> None:
    play = wanted()
    version = play.head.version

    play.apply(ADDRESS)

    assert play.head.version == version


def test_asking_again_later_replaces_the_value() -> None:
    play = wanted()
    give(play, "old")
    play.apply(ADDRESS)
    give(play, "new")

    transcript = Transcript()
    transcript.extend(play.log)

    assert transcript.values == {"address": "new"}


@pytest.mark.parametrize("answer", [{"approved": True}, {"answer": "text"}, {}])
def test_another_kind_of_answer_is_refused(answer: dict[str, Any]) -> None:
    play = wanted()

    with pytest.raises(InvalidRequestError, match="send `value`"):
        play.apply(replace(ResolveInterrupt(interrupt_id=ID, actor=BOB), **answer))


def test_it_can_be_declined_and_withdrawn() -> None:
    play = wanted()
    play.reject(ID, "not yours")
    assert play.last.events[-1].payload["rejection_message"] == "not yours"

    play.apply(ADDRESS)
    play.apply(WithdrawRequest(name="address", actor=ALICE))

    assert play.last.events[-1].payload["cancellation_reason"] == "withdrawn"
    with pytest.raises(NotFoundError):
        play.apply(WithdrawRequest(name="address", actor=ALICE))


def test_its_deadline_is_checked_when_it_is_answered_and_by_its_timer() -> None:
    play = wanted(deadline=timedelta(hours=1))
    (timer,) = expected_timers(play.head)
    assert sweep_due_at(play.head) is not None
    play.wait(timedelta(minutes=30))
    assert play.apply(TimerFired(timer_id=timer.timer_id, fence=timer.fence)).entry is None  # it came early

    play.wait(timedelta(minutes=30))
    with pytest.raises(RequestConflictError) as caught:
        give(play, "late")
    assert caught.value.code == "deadline_passed"
    play.apply(TimerFired(timer_id=timer.timer_id, fence=timer.fence))

    assert play.head.requests == ()
    assert expected_timers(play.head) == ()


def test_a_stop_leaves_it_open() -> None:
    play = wanted()
    play.send()

    play.stop()

    assert [each.interrupt_id for each in play.head.requests] == [ID]


def test_there_are_thirty_two_at_most() -> None:
    play = wanted()
    for number in range(31):
        play.apply(RequestValue(name=f"n{number}", prompt="?", actor=ALICE))

    with pytest.raises(InvalidRequestError, match="32"):
        play.apply(RequestValue(name="one more", prompt="?", actor=ALICE))


def test_its_deadline_can_be_moved_and_taken_away() -> None:
    play = wanted(deadline=timedelta(hours=1))
    (old,) = expected_timers(play.head)

    play.apply(ChangeWait(wait_id=ID, until=play.now + timedelta(hours=5), actor=ALICE))

    (new,) = expected_timers(play.head)
    assert new.due_at - old.due_at == timedelta(hours=4)
    assert play.head.requests[0].raised_version == old.fence
    play.wait(timedelta(hours=1))
    assert play.apply(TimerFired(timer_id=old.timer_id, fence=old.fence)).entry is None
    play.apply(ChangeWait(wait_id=ID, until=None, actor=ALICE))
    assert expected_timers(play.head) == ()


def test_a_deadline_that_has_passed_can_not_be_moved() -> None:
    play = wanted(deadline=timedelta(hours=1))
    play.wait(timedelta(hours=1))

    with pytest.raises(RequestConflictError) as caught:
        play.apply(ChangeWait(wait_id=ID, until=play.now + timedelta(hours=5), actor=ALICE))

    assert caught.value.code == "deadline_passed"
