"""The shapes of events (surface §4.2)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from perdure.api.payload_shapes import PAYLOADS

EventTypes = tuple(PAYLOADS)


class Event(BaseModel):
    """Something that happened. Durable events carry `sequence`: 1, 2, 3 … per session, without gaps."""

    type: Annotated[
        str, Field(examples=list(EventTypes), description="More may come; others carry a prefix with a dot.")
    ]
    sequence: int | None = None
    version: Annotated[int | None, Field(description="The commit that it is part of; live progress has none.")] = None
    cursor: str
    turn_id: str | None = None
    step_execution_id: str | None = None
    attempt: int | None = None
    progress_sequence: int | None = None
    at: datetime
    payload: dict[str, Any]


class EventPage(BaseModel):
    """Events in order, at most 4 MiB, and the cursor behind the last of them. An empty page: no more for now."""

    events: list[Event]
    cursor: str
