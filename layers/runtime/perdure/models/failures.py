"""Why a provider call failed, and whether the same request may succeed later (spec CLIENT-02, CLIENT-03).

Pure. Two rules hold for every text made here: it never holds anything that the provider wrote in prose, because
providers quote prompts and keys in their errors, and it says what to do next.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from perdure.errors import ModelCallError

Evidence = Literal["status", "message", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A classified failure. `evidence`: what the verdict rests on."""

    kind: str
    retryable: bool
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderError:
    """The error object of a provider, whatever shape it came in.

    Attributes:
        words: Those of its machine-readable codes that are known here, lower case, the most telling first.
        status: An HTTP status inside the object, as some providers send in the middle of a stream.
        message: Its prose. For classification only; never shown.
    """

    words: tuple[str, ...] = ()
    status: int | None = None
    message: str = ""


_OVERFLOW = re.compile(r"maximum context length|exceed\w* the (?:available |model'?s )?context", re.IGNORECASE)
"""How servers without codes say it: vLLM answers 400 with "This model's maximum context length is …"."""

_RETRYABLE_4XX = {408: "timeout", 409: "timeout", 425: "timeout", 429: "rate_limited"}
_FINAL_4XX = {401: "auth", 402: "credits", 403: "auth", 404: "unavailable", 413: "context_overflow"}

_KINDS_OF_WORDS = {
    "auth": ("authentication_error", "invalid_api_key", "permission_denied", "permission_error", "unauthorized"),
    "credits": ("billing_hard_limit_reached", "billing_not_active", "insufficient_credits", "insufficient_quota"),
    "context_overflow": ("context_length_exceeded", "context_window_exceeded", "exceed_context_size_error"),
    "unavailable": ("model_not_found", "not_found_error"),
    "rate_limited": ("rate_limit_error", "rate_limit_exceeded", "rate_limited", "resource_exhausted"),
    "invalid": ("invalid_argument", "invalid_prompt", "invalid_request_error"),
    "timeout": (
        *("api_error", "internal_error", "internal_server_error", "overloaded", "overloaded_error", "server_error"),
        *("server_overloaded", "service_unavailable", "timeout", "timeout_error", "unavailable"),
    ),
}
_BY_WORD = {word: kind for kind, words in _KINDS_OF_WORDS.items() for word in words}
_TELLING = ("content_filter", "invalid_value", "unknown_parameter", "unsupported_parameter", "unsupported_value")
"""Codes that decide nothing and help the reader."""

_SHOWN = frozenset(_BY_WORD).union(_TELLING)
"""The only words of a provider that are repeated: anything else in a code's place may be a quoted key or prompt."""

_RETRYABLE_KINDS = frozenset({"rate_limited", "timeout"})

_ADVICE = {
    "auth": "the key is missing, wrong or not allowed to use this model: check the API key",
    "credits": "the account has no credit left: add credit at the provider",
    "unavailable": "no such model or address: check the model's name and that the base URL ends in /v1",
    "timeout": "the provider has trouble: the same request may succeed later",
    "rate_limited": "too many requests: the same request may succeed later",
    "context_overflow": "the conversation is longer than the model takes: use a model with a larger context",
    "invalid": "the provider refused the request as such: check model settings and tool schemas",
    "unknown": "the provider reported an error that is not known here",
}


def classify_status(status: int, error: ProviderError | None = None) -> Failure:
    """Classify an answer by its HTTP status (300-599) and, where the status says too little, the error's codes."""
    error = error or ProviderError()
    told = next((_BY_WORD[word] for word in error.words if word in _BY_WORD), None)
    if 400 <= status < 500 and told in ("credits", "context_overflow"):
        # 429 also means "never again without money", and 400 also "too long": only the code tells.
        return Failure(kind=told, retryable=False, evidence="message")
    if status == 400 and told == "auth":  # how some servers answer a wrong key
        return Failure(kind="auth", retryable=False, evidence="message")
    if status in (400, 422) and _OVERFLOW.search(error.message):
        return Failure(kind="context_overflow", retryable=False, evidence="message")
    if status in _RETRYABLE_4XX:
        return Failure(kind=_RETRYABLE_4XX[status], retryable=True, evidence="status")
    if status in _FINAL_4XX:
        return Failure(kind=_FINAL_4XX[status], retryable=False, evidence="status")
    if status >= 500:  # 529 of overloaded providers included
        return Failure(kind="timeout", retryable=True, evidence="status")
    if 300 <= status < 400:  # redirects are not followed: they would carry the key elsewhere
        return Failure(kind="unavailable", retryable=False, evidence="status")
    return Failure(kind="invalid", retryable=False, evidence="status")


def classify_error(error: ProviderError) -> Failure:
    """Classify an error object that came without an HTTP status of its own, in the middle of a stream."""
    if error.status is not None:
        return classify_status(error.status, error)
    for word in error.words:
        if kind := _BY_WORD.get(word):
            return Failure(kind=kind, retryable=kind in _RETRYABLE_KINDS, evidence="message")
    if _OVERFLOW.search(error.message):
        return Failure(kind="context_overflow", retryable=False, evidence="message")
    # A stream had begun, so the request itself was accepted; what broke it may not happen again.
    return Failure(kind="unknown", retryable=True, evidence="none")


def provider_error(body: Any) -> ProviderError:
    """Read the error object out of a decoded body: `{"error": {…}}`, `{"error": "…"}`, `{…}` or a list of one."""
    if isinstance(body, list):
        body = body[0] if body else None
    if isinstance(body, dict) and body.get("error") is not None:
        body = body["error"]
    if isinstance(body, str):
        return ProviderError(message=body)
    if not isinstance(body, dict):
        return ProviderError()
    codes = [body.get(name) for name in ("code", "type", "status")]
    words = (code.lower() for code in codes if isinstance(code, str))
    statuses = (_status(code) for code in codes)
    message = body.get("message")
    return ProviderError(
        words=tuple(word for word in words if word in _SHOWN),
        status=next((status for status in statuses if status is not None), None),
        message=message if isinstance(message, str) else "",
    )


def _status(code: object) -> int | None:
    if isinstance(code, str) and re.fullmatch(r"[45][0-9]{2}", code):
        return int(code)
    return code if isinstance(code, int) and not isinstance(code, bool) and 400 <= code <= 599 else None


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the wait that a provider asked for, in seconds from `now`; None when it did not say so legibly.

    Reads `retry-after-ms` (milliseconds, OpenAI) and `retry-after` (seconds, or an HTTP date: RFC 9110, 10.2.3).
    A time that has passed is 0.0. `headers` looks names up in lower case.
    """
    if (wait := _number(headers.get("retry-after-ms"))) is not None:
        return wait / 1000
    value = headers.get("retry-after")
    if (wait := _number(value)) is not None:
        return wait
    try:
        at = parsedate_to_datetime(value or "")
    except (ValueError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def status_error(status: int, error: ProviderError, *, retry_after: float | None) -> ModelCallError:
    """Return the error of an answer whose HTTP status is none of success."""
    failure = classify_status(status, error)
    return ModelCallError(
        f"the provider answered HTTP {status}{_named(error)}: {_ADVICE[failure.kind]}",
        kind=failure.kind,
        retryable=failure.retryable,
        status=status,
        retry_after_seconds=retry_after,
    )


def stream_error(error: ProviderError, *, partial_text: str) -> ModelCallError:
    """Return the error of a stream that carried an error object instead of its end."""
    failure = classify_error(error)
    return ModelCallError(
        f"the provider broke its answer off with an error{_named(error)}: {_ADVICE[failure.kind]}",
        kind=failure.kind,
        retryable=failure.retryable,
        status=error.status,
        partial_text=partial_text,
    )


def malformed(what: str, *, partial_text: str = "") -> ModelCallError:
    """Return the error of an answer that was cut, or was not what the protocol says."""
    return ModelCallError(
        f"{what}: nothing of this answer is used, and the same request may succeed when it is sent again",
        kind="malformed",
        retryable=True,
        partial_text=partial_text,
    )


def _named(error: ProviderError) -> str:
    return f" ({error.words[0]})" if error.words else ""
