"""What people and trusted code do to a session besides talking to it, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from perdure.core.command import StepCommand, UserCommand
from perdure.core.entries import Actor, Input, ReceiptClaim

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditMessage(UserCommand):
    """Somebody changes a waiting message. `edited` is the whole input; it was read in the entry of `base_version`.

    `edited.actor` stays who wrote the message; `actor` is who changes it.
    """

    DECIDED_IN: ClassVar[str] = "control"

    edited: Input
    base_version: int
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveMessage(UserCommand):
    """Somebody changes the order of the inbox: exactly one of `before`, `after` and `position` (`first`, `last`)."""

    DECIDED_IN: ClassVar[str] = "control"

    message_id: str
    actor: Actor
    before: str | None = None
    after: str | None = None
    position: str | None = None
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveMessage(UserCommand):
    """Somebody takes a waiting message back."""

    DECIDED_IN: ClassVar[str] = "control"

    message_id: str
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverMessage(UserCommand):
    """Somebody changes how a waiting message is delivered."""

    DECIDED_IN: ClassVar[str] = "control"

    message_id: str
    delivery: str
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSession(UserCommand):
    """Close the gate for new model steps, tool starts and turns."""

    DECIDED_IN: ClassVar[str] = "control"

    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeSession(UserCommand):
    """Open the gate again."""

    DECIDED_IN: ClassVar[str] = "control"

    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTurn(UserCommand):
    """Run the failed model step of the latest turn again, or do not wait any longer for a reconnect."""

    DECIDED_IN: ClassVar[str] = "control"

    actor: Actor
    retry_id: str
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialChanged(StepCommand):
    """The model of a session that is blocked has another credential now."""

    DECIDED_IN: ClassVar[str] = "hold"

    credential: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSettings(UserCommand):
    """Replace the session's settings whole."""

    DECIDED_IN: ClassVar[str] = "settings"

    settings: JsonObject
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSession(UserCommand):
    """Trusted code ends a session for good (spec SESS-19), or opens it again."""

    DECIDED_IN: ClassVar[str] = "control"

    actor: Actor
    closed: bool = True
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSession(UserCommand):
    """Somebody begins a session that nothing was sent to yet (spec SESS-01). A known one stays as it is.

    `agent` None: the session's, or `default_agent`.
    """

    DECIDED_IN: ClassVar[str] = "seeding"
    BEGINS_A_SESSION: ClassVar[bool] = True

    actor: Actor
    default_agent: str
    agent: str | None = None
    settings: JsonObject | None = None
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededMessage:
    """One message of an imported history. `role` is `user` or `assistant`."""

    role: str
    text: str
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedHistory(UserCommand):
    """Trusted code imports a history into a session that has none, once (spec STORE-14)."""

    DECIDED_IN: ClassVar[str] = "seeding"
    BEGINS_A_SESSION: ClassVar[bool] = True

    actor: Actor
    default_agent: str
    messages: tuple[SeededMessage, ...]
    agent: str | None = None
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeGrant(UserCommand):
    """Somebody takes back an approval that was given ahead."""

    DECIDED_IN: ClassVar[str] = "grants"

    grant_id: str
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestValue(UserCommand):
    """Trusted code asks people for a value (spec APPR-15). `schema`: JSON Schema of it, for whoever shows a form."""

    DECIDED_IN: ClassVar[str] = "inputs"

    name: str
    prompt: str
    actor: Actor
    schema: JsonObject | None = None
    deadline: timedelta | None = None
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawRequest(UserCommand):
    """Trusted code does not want a value any more."""

    DECIDED_IN: ClassVar[str] = "inputs"

    name: str
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()
