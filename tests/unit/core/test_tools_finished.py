"""Several outcomes in one commit (races.md X14)."""

from __future__ import annotations

from dataclasses import replace

from perdure.core.commands import ToolFinished, ToolsFinished
from perdure.core.expected import expected_dispatches
from tests.unit.core.builders import Play, a_read, a_safe_write, a_session


def an_outcome(play: Play, call_id: str, output: str = "ok", outcome: str = "succeeded") -> ToolFinished:
    return ToolFinished(
        turn_id="turn-1",
        call_id=call_id,
        attempt=play.call(call_id).attempt,
        started_at=play.now,
        outcome=outcome,  # type: ignore[arg-type]
        output=output,
    )


def test_many_outcomes_take_one_commit_and_ask_the_model_once() -> None:
    play = a_session()
    calls = play.model_asks(*(a_read(f"tool-{number}") for number in range(64)))
    version = play.head.version

    play.apply(ToolsFinished(outcomes=tuple(an_outcome(play, call_id) for call_id in calls)))

    assert play.head.version == version + 1
    assert len(play.last.messages) == 64
    assert [d.kind for d in expected_dispatches(play.head)] == ["run_model"]


def test_outcomes_that_are_old_news_are_left_out() -> None:
    play = a_session()
    first, second = play.model_asks(a_read("a"), a_read("b"))
    done, late = an_outcome(play, first), replace(an_outcome(play, second), attempt=7)
    play.finishes(first)

    decision = play.apply(ToolsFinished(outcomes=(done, late)))
    both = play.apply(ToolsFinished(outcomes=(done, an_outcome(play, second))))

    assert decision.entry is None
    assert both.entry is not None
    assert [part["tool_call_id"] for message in both.entry.messages for part in message.parts] == [second]


def test_each_outcome_is_followed_as_its_own_effect_allows() -> None:
    play = a_session()
    read, write = play.model_asks(a_read(), a_safe_write())
    play.starts(write)

    play.apply(ToolsFinished(outcomes=(an_outcome(play, read), an_outcome(play, write, "broke", "error"))))

    assert [(d.step_id, d.attempt) for d in expected_dispatches(play.head)] == [(write, 2)]
    assert play.call(read).status == "succeeded"
