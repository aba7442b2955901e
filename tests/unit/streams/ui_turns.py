"""Turns as feeds, with all that may happen on the way."""

from typing import Any

import pytest

from tests.unit.streams.ui_builders import (
    COMPLETED,
    Log,
    asked,
    begun,
    called,
    decided,
    deferred,
    event,
    failed,
    reasoning,
    result,
    said,
    stepped,
    text,
    user,
)

JsonObject = dict[str, Any]


def an_answer() -> Log:
    """Reasoning and text, seen live."""
    log = Log()
    log.commit(*begun())
    log.live("model_started", "model-1-0")
    log.live("reasoning_delta", "model-1-0", text="Well")
    log.live("reasoning_delta", "model-1-0", text=", now.")
    log.live("text_delta", "model-1-0", text="Hel")
    log.live("text_delta", "model-1-0", text="lo")
    log.commit(*stepped("model-1-0"), said("message-2-0", reasoning("Well, now."), text("Hello!")), COMPLETED)
    return log


def tools_and_approvals() -> Log:
    """Two steps; of three calls one is denied, one approved with other arguments, and one runs by itself."""
    log = Log()
    log.commit(*begun())
    log.live("model_started", "model-1-0")
    log.live("text_delta", "model-1-0", text="Let me")
    calls = [called("call-2-0", order=1), called("call-2-1", "pay", sum=5), called("call-2-2", "wipe")]
    log.commit(
        *stepped("model-1-0"),
        said("message-2-0", text("Let me see."), *calls),
        deferred("call-2-0"),
        deferred("call-2-1", "pay", asks=True),
        deferred("call-2-2", "wipe", asks=True),
        asked("call-2-1", "pay"),
        asked("call-2-2", "wipe"),
    )
    log.live("tool_call_started", "call-2-0", tool_call_id="call-2-0", tool_name="look")
    log.live("tool_progress", "call-2-0", tool_call_id="call-2-0", text="half")
    log.commit(event("tool.output", "call-2-0", tool_call_id="call-2-0", output="so far", preliminary=True))
    log.commit(
        event("tool_call_started", "call-2-0", tool_call_id="call-2-0", tool_name="look"), *result("call-2-0", "found")
    )
    log.commit(decided("call-2-2", approved=False, rejection_message="no"), *result("call-2-2", "denied", "rejected"))
    log.commit(decided("call-2-1", approved=True, arguments={"sum": 4}))
    log.commit(*result("call-2-1", "nobody knows", "outcome_unknown"))
    log.live("model_started", "model-7-0")
    log.live("text_delta", "model-7-0", text="Done")
    log.commit(*stepped("model-7-0"), said("message-8-0", text("Done.")), COMPLETED)
    return log


def attempts_and_joins() -> Log:
    """An attempt that is lost while a message joins, a reconnect, and a second message at the next step."""
    log = Log()
    log.commit(*begun())
    log.live("model_started", "model-1-0")
    log.live("text_delta", "model-1-0", text="I was")
    joined = event("inbox.joined", message_id="m-2", sequence=2)
    log.commit(event("attempt_reset", "model-1-0", reason="lost"), user("m-2", "and quickly"), joined)
    log.live("model_started", "model-1-0", 2)
    log.live("text_delta", "model-1-0", 2, text="Per")
    log.live("attempt_reset", "model-1-0", 2, reason="cut")
    retry = {"retry_in_ms": 250, "attempt": 1, "reason": "cut"}
    log.live("model_retry_scheduled", "model-1-0", 2, **retry)
    log.live("text_delta", "model-1-0", 2, text="Let")
    log.commit(
        event("model_started", "model-1-0", 2),
        event("attempt_reset", "model-1-0", 2, reason="cut"),
        event("model_retry_scheduled", "model-1-0", 2, **retry),
        event("model_finished", "model-1-0", 2, status="completed"),
        said("message-3-0", text("Let me see."), called("call-3-0")),
        deferred("call-3-0"),
    )
    log.commit(*result("call-3-0", "found"), user("m-3", "hurry"), event("inbox.joined", message_id="m-3", sequence=6))
    log.commit(*stepped("model-4-0"), said("message-5-0", text("Found.")), COMPLETED)
    return log


def a_stopped_turn() -> Log:
    """Stopped in the middle; the worker dies, and what it had said is kept without word of its step."""
    log = Log()
    log.commit(*begun())
    log.live("model_started", "model-1-0")
    log.live("text_delta", "model-1-0", text="Once upon a time")
    log.commit(event("turn_stopping", disposition="keep", reason="stopped"))
    kept = said("message-3-0", text("Once upon"), status="interrupted")
    log.commit(kept, event("turn_cancelled", message_count=1, usage={}, reason="stopped"))
    return log


def a_failed_turn() -> Log:
    """What was shown of an answer is no part of the turn, which fails."""
    log = Log()
    log.commit(*begun())
    log.live("model_started", "model-1-0")
    log.live("text_delta", "model-1-0", text="I th")
    log.commit(*stepped("model-1-0", status="failed"), failed("provider", "the provider is down"))
    return log


def a_steered_turn() -> Log:
    """The worker dies in its answer, and the turn gives way to a message: nothing of the answer is kept."""
    log = Log()
    log.commit(*begun())
    log.live("model_started", "model-1-0")
    log.live("text_delta", "model-1-0", text="Once upon a time")
    log.commit(event("turn_steered", message_count=1, usage={}, steered_message_count=1))
    return log


TURNS = [an_answer, tools_and_approvals, attempts_and_joins, a_stopped_turn, a_failed_turn]

every_turn = pytest.mark.parametrize("turn", TURNS, ids=lambda turn: turn.__name__)
