"""Identifiers. Those of calls, steps and messages are `<kind>-<version>-<index>` of the commit that made them.

So whether an old id ever existed, and where its data is, takes one read of the log.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

_MADE_BY_COMMIT = re.compile(r"[a-z]+-([1-9][0-9]{0,11})-(?:0|[1-9][0-9]{0,5})")
_LONGEST_EVENT_ID = 100
"""In characters: with its source in front it is still no longer than a message id may be."""
_SESSION_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def made_by(kind: str, version: int, index: int) -> str:
    """Return the id of the `index`-th thing of its kind that the commit of `version` makes."""
    return f"{kind}-{version}-{index}"


def version_of(made_id: str) -> int | None:
    """Return the version of the commit that made an id of ours, or None for an id of somebody else's."""
    match = _MADE_BY_COMMIT.fullmatch(made_id)
    return int(match.group(1)) if match else None


def event_message_id(source: str, event_id: str) -> str:
    """Return the id of the message that an event causes: the same for every try, and never one of ours."""
    if 1 <= len(event_id) <= _LONGEST_EVENT_ID:
        return f"{source}:{event_id}"
    return f"{source}:sha256:{hashlib.sha256(event_id.encode('utf-8', 'surrogatepass')).hexdigest()}"


def is_session_id(text: str) -> bool:
    """Whether a text may be a session's id: `[A-Za-z0-9._:-]{1,128}`."""
    return _SESSION_ID.fullmatch(text) is not None


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, no escapes beyond JSON's own."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def content_hash(value: Any) -> str:
    """Return the SHA-256 of a JSON value's canonical text, in hex."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def key_hash(idempotency_key: str) -> str:
    """Return the SHA-256 of an idempotency key, in hex: the name of its receipt."""
    return hashlib.sha256(idempotency_key.encode("utf-8", "surrogatepass")).hexdigest()
