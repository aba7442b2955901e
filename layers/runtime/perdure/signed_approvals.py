"""Open approvals as signed parts of messages, and decisions on them (spec APPR-10).

A part is the exported form of an interrupt: it can leave the process with other messages, come back from wherever, and
be decided on, because it carries a signature that only trusted code can make. Deciding goes the ordinary way, so
whatever holds for a decision holds for one on a part: it is about these arguments, in time, and counts once.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from perdure.answering import AnswerOperations
from perdure.checks import Caller, session_key
from perdure.core.codec import format_time
from perdure.core.ids import canonical_json, version_of
from perdure.core.interrupts import pending_interrupt
from perdure.errors import (
    ConfigurationError,
    InvalidRequestError,
    NotFoundError,
    RequestConflictError,
    UnauthorizedError,
)
from perdure.ports import SessionKey
from perdure.webhooks import MIN_SECRET_BYTES, from_environment

JsonObject = dict[str, Any]

PART_TYPE = "approval_request"

SECRET_NAME = "PERDURE_APPROVAL_SECRET"  # noqa: S105 - where it is kept
"""Environment variable with the secret. On AWS also a name in the secret of the parameter `WebhookSecretsArn`."""

_PURPOSE = "perdure approval_request 1"
"""Signed with everything, so that no other signature by the same secret is one of these."""

_TEXTS = ("session_id", "interrupt_id", "turn_id", "tool_call_id", "tool_name", "arguments_hash", "signature")
_FIELDS = {"type", "arguments", *_TEXTS}


def secret_bytes(text: str) -> bytes:
    """Return a secret as it signs.

    Raises:
        ConfigurationError: It could keep nobody out.
    """
    secret = text.encode("utf-8", "surrogatepass")
    if len(secret) < MIN_SECRET_BYTES:
        raise ConfigurationError(
            f"approvals are signed with a secret of {MIN_SECRET_BYTES} bytes or more: give perdure.open an "
            f"`approval_secret`, or set {SECRET_NAME}"
        )
    return secret


def signature_of(secret: bytes, tenant: str, part: JsonObject) -> str:
    """Return the HMAC-SHA256, in hex, of a part without its signature, within a tenant.

    Whole numbers sign the same with and without a fraction of zero: a part that went through JavaScript says 25 for
    25.0.
    """
    signed = {"for": _PURPOSE, "tenant": tenant, "part": _plain({n: v for n, v in part.items() if n != "signature"})}
    return hmac.new(secret, canonical_json(signed).encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


class SignedApprovalOperations(AnswerOperations):
    """The operations on signed approvals; no caller over a network has them."""

    async def approval_request(self, caller: Caller, session_id: str, interrupt_id: str) -> JsonObject:
        """Return an open approval as a signed part of a message.

        That is `{"type": "approval_request", session_id, interrupt_id, turn_id, tool_call_id, tool_name, arguments,
        arguments_hash, deadline?, signature}`; the same one as long as the approval is open as it is.

        Raises:
            InvalidRequestError: It is no approval.
            NotFoundError: `interrupt_not_found`: there never was one.
            RequestConflictError: `not_pending` or `deadline_passed`.
            ConfigurationError: There is no secret.
        """
        secret = secret_bytes(self._approval_secret_text())
        key = session_key(caller, session_id)
        head = await self._visible(caller, key)
        interrupt = pending_interrupt(head, interrupt_id) if head is not None else None
        if head is None or head.turn is None or interrupt is None:
            missing = NotFoundError(f"no interrupt {interrupt_id!r} is pending", code="interrupt_not_found")
            raise await self._ending(key, interrupt_id, missing)
        call = head.turn.call(interrupt.call_id)
        if interrupt.kind != "approval" or call is None:
            raise InvalidRequestError(f"interrupt {interrupt_id!r} is of the kind {interrupt.kind!r}, not an approval")
        part: JsonObject = {
            "type": PART_TYPE,
            "session_id": session_id,
            "interrupt_id": interrupt_id,
            "turn_id": head.turn.turn_id,
            "tool_call_id": call.call_id,
            "tool_name": call.tool_name,
            "arguments": await self._asked_for(key, call.call_id),
            "arguments_hash": interrupt.arguments_hash,
        }
        if interrupt.deadline is not None:
            part["deadline"] = format_time(interrupt.deadline)
        return part | {"signature": signature_of(secret, caller.tenant, part)}

    async def approval_response(
        self,
        caller: Caller,
        session_id: str,
        part: JsonObject,
        *,
        approved: bool,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> JsonObject:
        """Decide on what a signed part asks for, in the caller's name. Returns `{"result": "resolved"}`.

        Raises:
            UnauthorizedError: The signature does not fit: the part was made up or changed, or is another tenant's.
            InvalidRequestError: It is no such part, or one of another session.
            NotFoundError, RequestConflictError: As of `resolve_interrupt`: it was decided, withdrawn or is over.
        """
        secret = secret_bytes(self._approval_secret_text())
        key = session_key(caller, session_id)
        _check_form(part)
        if not _is_ours(secret, caller.tenant, part):
            raise UnauthorizedError("the signature does not fit this part: ask for the approval again")
        if part["session_id"] != session_id:
            raise InvalidRequestError("this part is of another session: decide on it there")
        head = await self._visible(caller, key)
        asks = head is not None and pending_interrupt(head, part["interrupt_id"]) is not None
        if asks and head is not None and head.turn is not None and head.turn.turn_id != part["turn_id"]:
            raise RequestConflictError("this part is of another turn, which is over", code="not_pending")
        return await self.resolve_interrupt(
            caller,
            session_id,
            part["interrupt_id"],
            approved=approved,
            message=message,
            arguments_hash=part["arguments_hash"],
            idempotency_key=idempotency_key,
        )

    def _approval_secret_text(self) -> str:
        return self._approval_secret or (self._webhook_secret or from_environment)(SECRET_NAME)

    async def _asked_for(self, key: SessionKey, call_id: str) -> Any:
        """Return the arguments of a call, from the entry that it was asked for with."""
        version = version_of(call_id)
        assert version is not None, "a call of ours has an id of ours"
        log = await self._ports.store.read(key, first=version, last=version)
        parts = (part for entry in log.entries for message in entry.messages for part in message.parts)
        return next(part.get("arguments") for part in parts if part.get("tool_call_id") == call_id)


def _is_ours(secret: bytes, tenant: str, part: JsonObject) -> bool:
    try:
        expected = signature_of(secret, tenant, part)
    except (TypeError, ValueError, RecursionError):
        raise InvalidRequestError("this part is not JSON") from None
    return hmac.compare_digest(expected.encode(), part["signature"].encode("utf-8", "surrogatepass"))


def _check_form(part: Any) -> None:
    is_one = (
        isinstance(part, dict)
        and part.get("type") == PART_TYPE
        and part.keys() - {"deadline"} == _FIELDS
        and all(isinstance(part[name], str) for name in _TEXTS)
        and isinstance(part["arguments"], dict)
        and isinstance(part.get("deadline", ""), str)
    )
    if not is_one:
        names = ", ".join(sorted(_FIELDS))
        raise InvalidRequestError(f"this is no part of the type {PART_TYPE!r}: it has {names} and maybe a deadline")
