"""Who calls, and whether what they send can be taken at all."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from perdure.core.entries import Actor, ReceiptClaim
from perdure.core.ids import content_hash, is_session_id, key_hash, version_of
from perdure.core.limits import MAX_IDEMPOTENCY_KEY, MAX_MESSAGE_ID
from perdure.errors import InvalidRequestError
from perdure.ports import SessionKey

JsonObject = dict[str, Any]

DISPOSITIONS = ("keep", "discard")
SOURCES = ("person", "webhook", "schedule", "agent", "application")
"""Who may have written a message; all but a person are trusted code (spec HOOK-02, INBOX-18)."""

MAX_METADATA_BYTES = 16 * 1024
"""Size of an input's metadata, in bytes of JSON; our own choice, that of session settings (spec SET-04)."""


SETTINGS_TOLERANCE_BYTES = 1024
"""What white space and escapes may add to settings on their way (spec SET-04)."""


_OF_AN_OCCURRENCE = re.compile(r"schedule:[^:]*:[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls: a tenant and a verified subject. `until`: when the token that says so ends; None: nobody said."""

    tenant: str
    actor: Actor
    until: datetime | None = field(default=None, compare=False)


LOCAL_CALLER = Caller(tenant="local", actor=Actor(issuer="local", subject="local"))
"""Whoever uses the embedded runtime in its own process or over loopback."""


def session_key(caller: Caller, session_id: str) -> SessionKey:
    if not is_session_id(session_id):
        raise InvalidRequestError("a session id has 1 to 128 characters of A-Z, a-z, 0-9, '.', '_', ':' and '-'")
    return SessionKey(caller.tenant, session_id)


def check_unicode(text: str, name: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(
            f"{name} holds a lone surrogate, which is no Unicode text: send whole characters", code="invalid_text"
        ) from None


def check_text(text: str, name: str) -> None:
    check_unicode(text, name)
    if not text.strip():
        raise InvalidRequestError(f"{name} is blank: send some text")


def check_message_id(value: str) -> None:
    check_name(value, "message_id", MAX_MESSAGE_ID)
    if version_of(value) is not None or _OF_AN_OCCURRENCE.fullmatch(value):
        raise InvalidRequestError(f"message_id {value!r} looks like an id that Perdure makes: choose another form")


def check_name(value: str, name: str, longest: int) -> None:
    check_unicode(value, name)
    if not 1 <= len(value) <= longest:
        raise InvalidRequestError(f"{name} must have 1 to {longest} characters")


def json_bytes(value: JsonObject, name: str) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(
            f"{name} holds a lone surrogate: send whole characters", code="invalid_text"
        ) from None
    except (TypeError, ValueError, RecursionError):
        raise InvalidRequestError(f"{name} is not JSON") from None


def check_metadata(metadata: JsonObject | None) -> None:
    """Refuse what is no JSON object, or larger than `MAX_METADATA_BYTES`.

    Raises:
        InvalidRequestError: It is.
    """
    if metadata is None:
        return
    if not isinstance(metadata, dict):
        raise InvalidRequestError(f"metadata is an object, not a {type(metadata).__name__}")
    if len(json_bytes(metadata, "metadata")) > MAX_METADATA_BYTES:
        raise InvalidRequestError(f"metadata is larger than {MAX_METADATA_BYTES} bytes of JSON: send less of it")


def claims(idempotency_key: str | None, content: JsonObject, message_id: str | None = None) -> tuple[ReceiptClaim, ...]:
    """Return the receipts that a command asks for: one for its key, and one for a message id of the caller's."""
    names: list[str] = []
    if idempotency_key is not None:
        check_name(idempotency_key, "Idempotency-Key", MAX_IDEMPOTENCY_KEY)
        names.append(f"key:{idempotency_key}")
    if message_id is not None:
        names.append(f"message:{message_id}")
    digest = content_hash(content)
    return tuple(ReceiptClaim(key_hash=key_hash(name), content_hash=digest) for name in names)


def clamped(limit: int, most: int) -> int:
    return max(1, min(limit, most))


def wait_seconds_of(seconds: float) -> float:
    return max(0.0, min(float(seconds), 20.0))
