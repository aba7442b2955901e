"""What people and trusted code do to a session besides talking to it, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from perdure.core.entries import Actor, Input

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptClaim:
    """A caller's idempotency key and the hash of what they asked for."""

    key_hash: str
    content_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditMessage:
    """Somebody changes a waiting message. `edited` is the whole input; it was read in the entry of `base_version`.

    `edited.actor` stays who wrote the message; `actor` is who changes it.
    """

    edited: Input
    base_version: int
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveMessage:
    """Somebody changes the order of the inbox: exactly one of `before`, `after` and `position` (`first`, `last`)."""

    message_id: str
    actor: Actor
    before: str | None = None
    after: str | None = None
    position: str | None = None
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveMessage:
    """Somebody takes a waiting message back."""

    message_id: str
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverMessage:
    """Somebody changes how a waiting message is delivered."""

    message_id: str
    delivery: str
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSession:
    """Close the gate for new model steps, tool starts and turns."""

    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeSession:
    """Open the gate again."""

    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTurn:
    """Run the failed model step of the latest turn again, or do not wait any longer for a reconnect."""

    actor: Actor
    retry_id: str
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialChanged:
    """The model of a session that is blocked has another credential now."""

    credential: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSettings:
    """Replace the session's settings whole."""

    settings: JsonObject
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSession:
    """Trusted code ends a session for good (spec SESS-19), or opens it again."""

    actor: Actor
    closed: bool = True
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSession:
    """Somebody begins a session that nothing was sent to yet (spec SESS-01). A known one stays as it is.

    `agent` None: the session's, or `default_agent`.
    """

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
class SeedHistory:
    """Trusted code imports a history into a session that has none, once (spec STORE-14)."""

    actor: Actor
    default_agent: str
    messages: tuple[SeededMessage, ...]
    agent: str | None = None
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeGrant:
    """Somebody takes back an approval that was given ahead."""

    grant_id: str
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestValue:
    """Trusted code asks people for a value (spec APPR-15). `schema`: JSON Schema of it, for whoever shows a form."""

    name: str
    prompt: str
    actor: Actor
    schema: JsonObject | None = None
    deadline: timedelta | None = None
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawRequest:
    """Trusted code does not want a value any more."""

    name: str
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()
