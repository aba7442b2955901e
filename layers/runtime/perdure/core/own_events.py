"""Events of an application's own, beside ours: their names and their bounds (spec EVT-07)."""

from __future__ import annotations

import re
from typing import Any

from perdure.core.ids import canonical_json
from perdure.errors import InvalidRequestError

JsonObject = dict[str, Any]

RESERVED_PREFIXES = frozenset(
    {
        *("approval", "hold", "inbox", "schedule", "session", "settings", "task", "tool", "wait"),
        # Of ours or of what comes with a protocol, for types that are still to come.
        *("child", "compaction", "mcp", "message", "model", "perdure", "plan", "progress", "turn", "usage"),
    }
)
"""What stands before the first dot of the types that are ours."""

MAX_OWN_EVENT_BYTES = 16 * 1024
"""Largest payload of an event of an application's own, in bytes of compact UTF-8 JSON: with what is around it, it fits
into one WebSocket frame (32 KB on API Gateway) and one progress item. Our own choice."""

MAX_TYPE_LENGTH = 100
"""Length of a type, in characters. Our own choice."""

_TYPE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")


def check_own_event(event_type: str, payload: JsonObject) -> None:
    """Refuse what can't be an event of an application's own.

    Args:
        payload: As it will be read again: JSON values.

    Raises:
        InvalidRequestError: The type has no prefix or one of ours, the payload is no object, is too large
            (`too_large`), or holds a lone surrogate (`invalid_text`).
    """
    given = str(event_type)
    if given != event_type or len(given) > MAX_TYPE_LENGTH or not _TYPE.fullmatch(given):
        raise InvalidRequestError(
            f"{given[:MAX_TYPE_LENGTH]!r} is no type of an event: give it a prefix of your own and a dot, in "
            f"lower case and at most {MAX_TYPE_LENGTH} characters, such as 'myapp.stage'"
        )
    prefix = event_type.partition(".")[0]
    if prefix in RESERVED_PREFIXES:
        raise InvalidRequestError(f"events that begin with '{prefix}.' are ours: give {event_type!r} a prefix of yours")
    if not isinstance(payload, dict):
        raise InvalidRequestError(f"the payload of {event_type} is a JSON object, not {type(payload).__name__}")
    try:
        size = len(canonical_json(payload).encode())
    except UnicodeEncodeError as error:
        raise InvalidRequestError(
            f"the payload of {event_type} holds a lone surrogate, which is no character", code="invalid_text"
        ) from error
    if size > MAX_OWN_EVENT_BYTES:
        raise InvalidRequestError(
            f"the payload of {event_type} has {size} bytes, and {MAX_OWN_EVENT_BYTES} are the most there may be: keep "
            "the data elsewhere and only say where",
            code="too_large",
        )
