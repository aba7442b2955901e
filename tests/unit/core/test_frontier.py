"""Whom a stop means, and what is left of a stopped answer (spec U-4, U-5)."""

from typing import Any

import pytest

from perdure.core import texts
from perdure.core.commands import StopTurn
from perdure.core.fates import fates_of
from perdure.core.head import Frontier
from perdure.core.history import HistoryOptions, ModelItem, Transcript, UserItem, history
from tests.unit.core.builders import (
    ALICE,
    a_read,
    a_safe_write,
    a_session,
    asked_for,
    text_part,
)

# --- stop: owners and frontier ------------------------------------------------------------------------------------


def test_a_stop_names_one_owner_and_a_stale_one_touches_nothing() -> None:
    # STOP-08, F031
    play, (look,) = asked_for(a_read())
    queued = play.send("next").reply["message_id"]

    assert play.stop(step_id="model-1-0").reply == {"result": "other_turn"}
    assert play.stop(message_id="message-9-0").reply == {"result": "other_turn"}
    assert play.stop(turn_id="turn-9").reply == {"result": "other_turn"}
    assert play.apply(StopTurn(actor=ALICE, message_id=queued)).reply == {"result": "recorded"}
    assert play.head.inbox == ()
    assert play.turn.stop is None
    assert play.apply(StopTurn(actor=ALICE, step_id=look)).reply == {"result": "recorded"}


def test_text_behind_the_frontier_is_cut_and_effects_never_are() -> None:
    # STOP-05, U-4
    play = a_session()
    play.model_asks(a_safe_write("note"), parts=(text_part("I look."),))
    seen = play.head.version - 1
    call = play.turn.calls[0].call_id
    play.starts(call)
    play.stop(frontier=Frontier(version=seen, text=3, reasoning=0))
    assert fates_of(play.log, play.head)["turn-1"].lengths

    play.finishes(call)
    play.send("and?")

    model = next(item for item in history(play.log) if isinstance(item, ModelItem))
    assert (model.text, [c.tool_name for c in model.calls]) == ("I l", ["note"])
    shown = next(m for m in play.public_messages() if m["role"] == "assistant")
    assert [p.get("text", p["type"]) for p in shown["parts"]] == ["I l", "tool_call"]
    assert play.messages[1].parts[0]["text"] == "I look."  # the log keeps all of it


def test_a_partial_answer_is_cut_at_the_frontier_too() -> None:
    play = a_session()
    play.stop(frontier=Frontier(version=1, text=5, reasoning=None))

    play.model_ends("aborted", parts=({"type": "reasoning", "text": "hm"}, text_part("Once upon")))

    assert play.public_messages()[-1]["parts"] == [{"type": "reasoning", "text": "hm"}, text_part("Once ")]
    assert isinstance(history(play.log)[1], ModelItem)
    assert "Once \n" in history(play.log)[1].text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("marked", ModelItem(text=f"Once\n\n{texts.NOTE} The user stopped this answer here.")),
        ("note", UserItem(text=f"{texts.NOTE} The user stopped an answer that had come this far:\n\nOnce")),
        ("turn_aborted", UserItem(text="[turn_aborted]\nOnce\n[/turn_aborted]")),
        ("omit", None),
    ],
)
def test_a_stopped_answer_is_shown_to_the_model_as_the_agent_wants_it(how: Any, expected: Any) -> None:
    # STOP-10, U-5
    play = a_session()
    play.stop()
    play.model_ends("aborted", parts=(text_part("Once"),))

    items = history(play.log, HistoryOptions(interrupted_assistant=how))

    assert (expected in items) == (expected is not None)
    assert len(items) == (3 if expected else 2)


def test_failed_evidence_is_shown_marked_when_it_is_wanted() -> None:
    # MODEL-24, MODEL-25
    play = a_session()
    play.model_ends("truncated", parts=(text_part("half"),))
    play.stop()
    play.send("and?")
    transcript = Transcript(HistoryOptions(failed_evidence=True))
    transcript.extend(play.log)

    assert transcript.items()[1] == ModelItem(text=f"half\n\n{texts.NOTE} This is no answer: truncated.")
    assert "'truncated'" in transcript.items()[2].text  # type: ignore[union-attr]
    assert [(d.decision, d.reason) for d in transcript.decisions] == [("shown", None), ("marked", "truncated")]
    plain = Transcript()
    plain.extend(play.log)
    assert [(d.decision, d.reason) for d in plain.decisions] == [("shown", None), ("left_out", "truncated")]
