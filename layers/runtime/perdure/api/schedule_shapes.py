"""The payloads of events about schedules, and about approvals that were given ahead."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from perdure.api.shapes import Who


class ScheduleEvent(BaseModel):
    """Something happened to a schedule."""

    schedule_id: str


class WasSet(ScheduleEvent):
    """A schedule holds."""

    next_at: datetime
    when: Annotated[dict[str, Any], Field(description="As it was asked for.")]
    actor: Who


class WasCancelled(ScheduleEvent):
    """A schedule was cancelled."""

    actor: Who


class Occurred(ScheduleEvent):
    """An occurrence was sent as a message. `missed`: slots behind it that had passed by then, too."""

    number: int
    scheduled_for: datetime
    message_id: str | None = None
    late_seconds: int | None = None
    missed: int | None = None


class WasSkipped(ScheduleEvent):
    """An occurrence was left out."""

    number: int
    reason: str


class HasFailed(WasSkipped):
    """An occurrence could not be sent."""

    attempts: int


class ByGrant(BaseModel):
    """A call runs by an approval that was given ahead."""

    tool_call_id: str
    tool_name: str
    grant_id: str
    uses_left: int | None = None


class WasRevoked(BaseModel):
    """An approval ahead was taken back."""

    grant_id: str
    actor: Who


SCHEDULE_PAYLOADS: dict[str, type[BaseModel]] = {
    "schedule.set": WasSet,
    "schedule.fired": Occurred,
    "schedule.late": Occurred,
    "schedule.skipped": WasSkipped,
    "schedule.failed": HasFailed,
    "schedule.cancelled": WasCancelled,
    "approval.by_grant": ByGrant,
    "approval.revoked": WasRevoked,
}
