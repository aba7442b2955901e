"""What happens to a session's title, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perdure.core.command import StepCommand, UserCommand
from perdure.core.entries import Actor, ReceiptClaim
from perdure.core.usage import CallUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTitle(UserCommand):
    """A person names the session."""

    DECIDED_IN: ClassVar[str] = "titles"

    title: str
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleWritten(StepCommand):
    """An attempt to have a title written is over. `title` None: it failed, and is tried again unless `final`."""

    DECIDED_IN: ClassVar[str] = "titles"

    step_id: str
    attempt: int
    title: str | None = None
    usage: tuple[CallUsage, ...] = ()
    final: bool = False
