"""What an agent may say about the occurrences of its schedules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from perdure.errors import PermanentError, TransientError

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """An occurrence of a schedule that is due.

    Attributes:
        number: Grows with each occurrence of the schedule; not from 1.
        scheduled_for: Its slot; what was missed is one occurrence, with the first slot that was.
        attempt: From 1.
        text: What the schedule says.
    """

    session_id: str
    schedule_id: str
    number: int
    scheduled_for: datetime
    attempt: int
    text: str
    metadata: JsonObject = field(default_factory=dict)


class ScheduleRetryError(TransientError):
    """Raised by `on_schedule`: try this occurrence again, after 1, 2, 4 … 60 seconds."""

    code = "schedule_retry"


class ScheduleEndedError(PermanentError):
    """Raised by `on_schedule`: the schedule is over, this occurrence included."""

    code = "schedule_ended"


OnSchedule = Callable[[Occurrence], str | Awaitable[str | None] | None]
"""Returns the text to send, or None to leave the occurrence out. May run more than once for one occurrence."""
