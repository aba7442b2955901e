"""How a request of the client is put together."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from perdure.core.ids import is_session_id
from perdure.core.limits import MAX_IDEMPOTENCY_KEY
from perdure.errors import ForbiddenError, InvalidRequestError

JsonObject = dict[str, Any]


def path_of(session_id: str, *rest: str) -> str:
    """Return the path of a session, or of something in it.

    Raises:
        InvalidRequestError: The id is none.
    """
    if not is_session_id(session_id):
        raise InvalidRequestError("a session id has 1 to 128 characters of A-Z, a-z, 0-9, '.', '_', ':' and '-'")
    return "/v1/sessions/" + "/".join(_segment(part) for part in (session_id, *rest))


def _segment(text: str) -> str:
    # "." and ".." are ids like others, and would vanish from a path.
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe=":", errors="surrogatepass")


def json_bytes_of(body: JsonObject) -> bytes:
    """Return a body as it travels.

    Raises:
        InvalidRequestError: It is no JSON.
    """
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"this can't be sent as JSON: {error}") from None


def trusted(what: str) -> ForbiddenError:
    """Return the error for what has no route."""
    return ForbiddenError(f"only trusted code in the process of the runtime may {what}: use perdure.open")


def headers(idempotency_key: str | None) -> dict[bytes, bytes]:
    """Return the headers of a command.

    Raises:
        InvalidRequestError: The key can't be a header.
    """
    plain = {b"content-type": b"application/json"}
    return plain if idempotency_key is None else plain | {b"idempotency-key": _header(idempotency_key)}


def _header(key: str) -> bytes:
    """Return a key as a header's value; HTTP would change or refuse some characters silently."""
    if not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY:
        raise InvalidRequestError(f"an idempotency key has 1 to {MAX_IDEMPOTENCY_KEY} characters")
    if key != key.strip() or not key.isprintable():
        raise InvalidRequestError(
            f"idempotency key {key!r} can't be sent over HTTP: leave out control characters and outer spaces"
        )
    return key.encode()
