"""Messages that come by themselves when their time has come, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from perdure.core.command import UserCommand
from perdure.core.entries import Actor, ReceiptClaim

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSchedule(UserCommand):
    """Somebody wants a message at a time, or every so often.

    Attributes:
        schedule_id: 1 to 64 characters; the n-th message is `schedule:<schedule_id>:<n>`.
        when: Exactly one of `at`, `after` and `every` (`calendar.parse_when`).
        delivery: As of a message of a person. None: `queue`.
        max_attempts: Tries to deliver one occurrence.
        agent, default_agent: As in `SendInput`: a session may begin with a schedule.
        replaces: It takes the place of one with this id; else another content under the id is refused.
        changes: Version of the one that it changes, which has to be there as it was read. None: it changes none.
        keeps_time: `when` is that of the one that it changes, and its next time stays.
    """

    DECIDED_IN: ClassVar[str] = "schedules"
    BEGINS_A_SESSION: ClassVar[bool] = True

    schedule_id: str
    text: str
    when: JsonObject
    actor: Actor
    metadata: JsonObject | None = None
    delivery: str | None = None
    max_attempts: int = 1000
    agent: str | None = None
    default_agent: str = ""
    replaces: bool = False
    changes: int | None = None
    keeps_time: bool = False
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelSchedule(UserCommand):
    """Somebody does not want a schedule any more. A message that it has sent stays."""

    DECIDED_IN: ClassVar[str] = "schedules"

    schedule_id: str
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()
