"""What the UI message stream asks of a session's events, and how it passes them on."""

from __future__ import annotations

from typing import Any

from perdure.core.ids import version_of

JsonObject = dict[str, Any]

EVENT = "data-agent-event"
"""Type of the transient chunk that carries an event which has no chunk of its own."""


def of_model(event: JsonObject) -> bool:
    """Whether an event is about a model step."""
    return str(event.get("step_execution_id", "")).startswith("model-")


def is_past(step_id: str, attempt: int, past: tuple[str, int] | None) -> bool:
    """Whether an attempt of a step is not later than one that is over. Steps are made in the order of their ids."""
    if past is None:
        return False
    return (version_of(step_id) or 0, attempt) <= (version_of(past[0]) or 0, past[1])


def told(event: JsonObject) -> JsonObject:
    """Return an event as others tell it; where it stands is in the resume token."""
    return {name: value for name, value in event.items() if name != "cursor"}


def as_chunk(event: JsonObject) -> JsonObject:
    """Return the chunk that carries an event."""
    return {"type": EVENT, "data": told(event), "transient": True}
