"""Turns as AG-UI runs are told of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.feed import Commit, Live
from tests.unit.streams.ag_ui_client import Screen, told, verified
from tests.unit.streams.ui_builders import (
    COMPLETED,
    Log,
    begun,
    called,
    deferred,
    event,
    result,
    said,
    text,
)

JsonObject = dict[str, Any]
Item = Commit | Live

HI = {"id": "m-1", "role": "user", "content": "hi"}
FIGURES = {
    "input_tokens": {"value": 9, "provenance": "reported"},
    "output_tokens": {"value": 4, "provenance": "reported"},
    "cached_input_tokens": {"value": 2, "provenance": "reported"},
    "reasoning_tokens": {"provenance": "unavailable"},
}


def stepped(step: str, attempt: int = 1, **figures: Any) -> tuple[JsonObject, ...]:
    """What a commit tells of a model step that came to its end."""
    return (
        event("model_started", step, attempt),
        event("usage_recorded", step, attempt, recorded=FIGURES | figures, session={}),
        event("model_finished", step, attempt, status="completed"),
    )


def one_answer(*lives: tuple[str, str], answer: JsonObject) -> Log:
    """A turn with one model step, which is watched while it comes."""
    log = Log()
    log.commit(*begun())
    log.live("model_started", "model-1")
    for kind, piece in lives:
        log.live(f"{kind}_delta", "model-1", text=piece)
    log.commit(answer, *stepped("model-1"), COMPLETED)
    return log


def shown(items: Sequence[Item], **of_the_run: Any) -> list[tuple[Any, ...]]:
    return Screen(HI).take(verified(told(items, messages=[HI], **of_the_run))).shown


def two_calls() -> Log:
    """A turn with two calls in one answer, whose results come the other way round."""
    log = Log()
    log.commit(*begun())
    log.live("text_delta", "model-1", text="Let me")
    log.commit(
        said("m-2", text("Let me see."), called("call-1", "look", city="Oslo"), called("call-2", "look")),
        *stepped("model-1"),
        deferred("call-1"),
        deferred("call-2"),
    )
    for call_id in ("call-1", "call-2"):
        log.live("tool_call_started", call_id, tool_call_id=call_id, tool_name="look")
    log.live("tool_progress", "call-1", tool_call_id="call-1", text="half")
    log.commit(event("tool_call_started", "call-2"), *result("call-2", "rain"))
    log.commit(event("tool_call_started", "call-1"), *result("call-1", "it broke", status="failed"))
    log.live("text_delta", "model-2", text="It ")
    log.commit(said("m-3", text("It rains.")), *stepped("model-2"), COMPLETED)
    return log
