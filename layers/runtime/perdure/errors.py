"""Every error that Perdure raises, at the bottom of the dependency chain: standard library only.

Three postures, and the class says which: `TransientError` (try the same again), `ConflictError` (read again and
decide again) and `PermanentError` (record it as the outcome). Code decides by class and attribute, never by wording.
"""

from __future__ import annotations


class PerdureError(Exception):
    """The root of all errors of this package.

    `code` is the stable name that users see on the wire; `message` says what, which one, and what to do next.
    """

    code = "internal"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


class TransientError(PerdureError):
    """The same call may succeed later."""


class ConflictError(PerdureError):
    """Something else came first: read again and decide from there."""


class PermanentError(PerdureError):
    """Trying again can't help: record it as the outcome."""


# --- the store ---------------------------------------------------------------------------------------------------


class StoreUnavailableError(TransientError):
    """The store gave no answer; whether the write landed is unknown. The same commit may be sent again.

    `idempotency_key` is the key with which a command of a `Session` may be repeated; None elsewhere.
    """

    code = "store_unavailable"
    idempotency_key: str | None = None


class UnsettledError(StoreUnavailableError):
    """A command got no answer, again and again: whether it was carried out is not known (spec SESS-25).

    It names what was active when the session was last seen, which may be over by now: look, before anything is
    repeated, and repeat it with its `idempotency_key`. A field is None when it was not seen, or there was none.

    Attributes:
        turn_id: The turn that ran.
        step_execution_id, attempt: Its run: a model step or a tool call.
    """

    def __init__(
        self,
        message: str,
        *,
        session_id: str,
        turn_id: str | None = None,
        step_execution_id: str | None = None,
        attempt: int | None = None,
    ) -> None:
        super().__init__(message)
        self.session_id = session_id
        self.turn_id = turn_id
        self.step_execution_id = step_execution_id
        self.attempt = attempt

    @property
    def run(self) -> dict[str, str | int]:
        """What was active when the session was last seen, as the wire has it."""
        named = {
            "session_id": self.session_id,
            "turn_id": self.turn_id,
            "step_execution_id": self.step_execution_id,
            "attempt": self.attempt,
        }
        return {name: value for name, value in named.items() if value is not None}


class StaleSessionError(ConflictError):
    """Another commit came first. Nothing was written."""

    code = "stale_session"


class DatabaseInUseError(PermanentError):
    """Another process has this database file open. One runtime per file."""

    code = "database_in_use"


class DatabaseUnusableError(PermanentError):
    """The database file is corrupt, read-only, on a full disk, or no Perdure database."""

    code = "database_unusable"


class ItemTooLargeError(PermanentError):
    """One entry is larger than any place that could hold it. Nothing was written."""

    code = "too_large"


class UnknownRecordVersionError(PermanentError):
    """A stored record was written by a newer version of Perdure; reading it by guess could lose data."""

    code = "unknown_record_version"


# --- set-up ------------------------------------------------------------------------------------------------------


class ConfigurationError(PermanentError):
    """An agent, a tool, a setting or the environment is wrong; the message names it."""

    code = "configuration"


class SettingsError(ConfigurationError):
    """What a session is set to can't be carried out: its turn fails with this text, the next may be set otherwise."""


class UnresolvedFileError(SettingsError):
    """A file of the conversation has nothing behind it, and the agent asks for an error then (`unresolved_files`)."""


# --- what a caller did wrong: nothing has changed after any of these ---------------------------------------------


class RequestError(PermanentError):
    """A request that can't be carried out. Nothing has changed."""

    code = "invalid_request"


class InvalidRequestError(RequestError):
    """The request itself is wrong (`invalid_request`, `invalid_text`, `invalid_cursor`). HTTP 400."""


class UnauthorizedError(RequestError):
    """No valid credentials. HTTP 401."""

    code = "unauthorized"


class ForbiddenError(RequestError):
    """Known caller, not allowed. HTTP 403."""

    code = "forbidden"


class NotFoundError(RequestError):
    """No such session, interrupt or message, or none that this caller may see. HTTP 404."""

    code = "session_not_found"


class RequestConflictError(RequestError):
    """The session is not in a state that allows this; `code` names why (`not_pending`, …). HTTP 409."""

    code = "conflict"


class TooLargeError(RequestError):
    """The request, or the session, is over a limit. HTTP 413."""

    code = "too_large"


class UnsupportedMediaTypeError(RequestError):
    """The body is not JSON. HTTP 415."""

    code = "unsupported_media_type"


class TooManyRequestsError(RequestError):
    """Too many requests at once from one caller. HTTP 429; the same request may succeed later."""

    code = "too_many_requests"


# --- models and tools --------------------------------------------------------------------------------------------


class ToolExecutionError(PermanentError):
    """Raised by a tool for a failure that the model should see. The call ends as `failed` and is not retried."""

    code = "tool"


class ContextOverflowError(PermanentError):
    """Raised by `prepare_step` for a prompt that would not fit: the turn fails with the code `context_overflow`.

    Only this class leads to that code; what a provider says of a prompt that is too long is its own failure.
    """

    code = "context_overflow"


class ModelCallError(PerdureError):
    """One provider call ended without a usable answer.

    Attributes:
        kind: One of `MODEL_ERROR_KINDS`.
        retryable: Whether the *same* request may succeed when it is sent again.
        status: The HTTP status of the provider, when there was one.
        retry_after_seconds: The wait that the provider asked for, in seconds; None when it did not say.
        partial_text: Text that had been streamed before the failure.
    """

    code = "provider"

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        retryable: bool,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        partial_text: str = "",
    ) -> None:
        super().__init__(message)
        if kind not in MODEL_ERROR_KINDS:
            raise ValueError(f"unknown model error kind {kind!r}")
        self.kind = kind
        self.retryable = retryable
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.partial_text = partial_text


MODEL_ERROR_KINDS = frozenset(
    {
        "auth",  # 401, 403: wrong or missing credentials
        "credits",  # 402
        "unavailable",  # 404: no such model or address
        "timeout",  # 408, network errors, no event for too long, 5xx
        "rate_limited",  # 429
        "context_overflow",  # 413, or the provider's own code for it
        "malformed",  # the stream was cut, or was not what the protocol says
        "invalid",  # 400, 422: the provider refused the request as such
        "aborted",  # we stopped it
        "unknown",
    }
)
"""Why a provider call failed (spec CLIENT-02, CLIENT-03)."""
