"""How a turn opens, joins its calls and closes."""

import pytest

from perdure.core.turns import preview_of
from tests.unit.core.builders import GOES_ON, Play, a_read, a_session, a_single_write, asked_for


def test_only_one_step_is_named_at_a_time() -> None:
    # SESS-05, SESS-06
    play = a_session()
    assert (play.turn.step is not None, play.turn.open_calls) == (True, ())

    (call,) = play.model_asks(a_read())
    assert play.turn.step is None
    assert [c.call_id for c in play.turn.open_calls] == [call]

    play.runs(call)
    assert (play.turn.step is not None, play.turn.open_calls) == (True, ())


def test_the_status_follows_the_turn() -> None:
    # SESS-03
    play = Play()
    assert play.head.status == "waiting_for_user_message"
    play.send()
    assert play.head.status == "running_model"
    (call,) = play.model_asks(a_single_write(gated=True))
    assert play.head.status == "running_tools"
    play.reject(call)
    assert play.head.status == "running_model"
    play.model_answers()
    assert play.head.status == "waiting_for_user_message"


def test_a_commit_that_closes_a_turn_opens_the_next_and_tells_them_apart() -> None:
    # SESS-07, EVT-02
    play = a_session()
    play.send("second")

    play.model_answers("first answer")

    assert [(m.turn_id, m.role) for m in play.last.messages] == [("turn-1", "assistant"), ("turn-2", "user")]
    ends = [(e.type, e.turn_id, e.payload.get("message_count")) for e in play.last.events[-2:]]
    assert ends == [("turn_completed", "turn-1", 1), ("turn_started", "turn-2", None)]


def test_a_closed_turn_says_where_it_lies_in_the_log() -> None:
    play, (call,) = asked_for(a_read())
    play.runs(call)
    play.model_answers()

    closed = play.head.last_turn
    assert closed is not None
    assert (closed.turn_id, closed.opened_version, closed.closed_version) == ("turn-1", 1, play.head.version)
    assert closed.outcome == "completed"


def test_exactly_one_terminal_event_closes_a_turn() -> None:
    # SESS-18: a loser adds its usage and nothing else.
    play = a_session(policies=GOES_ON)
    outcome = {"step_id": play.step.step_id, "attempt": 1, "turn_id": "turn-1"}
    play.model_ends("failed")
    play.send("more")

    play.model_answers("late", **outcome)

    assert len(play.events("turn_completed", "turn_failed", "turn_cancelled")) == 1
    assert play.head.turn is not None


def test_ids_of_two_steps_of_one_turn_differ() -> None:
    # EVT-02
    play = a_session()
    first = play.step.step_id
    (call,) = play.model_asks(a_read())
    play.runs(call)

    assert play.step.step_id != first


@pytest.mark.parametrize(
    ("text", "preview"),
    [("a\n\tb  c ", "a b c"), ("", ""), ("x" * 120, "x" * 120), ("x" * 121, "x" * 119 + "…")],
)
def test_a_preview_is_one_short_line(text: str, preview: str) -> None:
    # SESS-20
    assert preview_of(text) == preview
