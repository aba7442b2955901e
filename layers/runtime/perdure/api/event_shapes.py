"""The shapes of events (surface §4.2)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

EventTypes = (
    "turn_started",
    "turn_completed",
    "turn_failed",
    "turn_stopping",
    "turn_cancelled",
    "turn_steered",
    "model_started",
    "model_finished",
    "model_retry_scheduled",
    "attempt_reset",
    "text_delta",
    "reasoning_delta",
    "tool_call_deferred",
    "tool_call_started",
    "tool_progress",
    "tool_call_finished",
    "interrupt_raised",
    "interrupt_resolved",
    "message_queued",
    "message_removed",
    "usage_recorded",
    "session_paused",
    "session_resumed",
    "hold.released",
    "inbox.edited",
    "inbox.joined",
    "inbox.moved",
    "session.closed",
    "session.reopened",
    "session.seeded",
    "settings.changed",
)


class Event(BaseModel):
    """Something that happened. Durable events carry `sequence`: 1, 2, 3 … per session, without gaps."""

    type: Annotated[
        str, Field(examples=list(EventTypes), description="More may come; others carry a prefix with a dot.")
    ]
    sequence: int | None = None
    cursor: str
    turn_id: str | None = None
    step_execution_id: str | None = None
    attempt: int | None = None
    at: datetime
    payload: dict[str, Any]


class EventPage(BaseModel):
    """Events in order, at most 4 MiB, and the cursor behind the last of them. An empty page: no more for now."""

    events: list[Event]
    cursor: str
