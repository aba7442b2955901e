"""Errors on the wire: `{"error": {"code", "message", "retryable"}}` with the status of the error's class."""

from __future__ import annotations

from perdure.api.messages import ApiResponse, JsonObject, json_response
from perdure.errors import (
    ConflictError,
    ForbiddenError,
    InvalidRequestError,
    ItemTooLargeError,
    NotFoundError,
    PerdureError,
    RequestConflictError,
    RequestError,
    TooLargeError,
    TooManyRequestsError,
    TransientError,
    UnauthorizedError,
    UnsettledError,
    UnsupportedMediaTypeError,
)
from perdure.operator_events import tell

STATUSES: dict[type[PerdureError], int] = {
    InvalidRequestError: 400,
    UnauthorizedError: 401,
    ForbiddenError: 403,
    NotFoundError: 404,
    RequestConflictError: 409,
    ConflictError: 409,
    TooLargeError: 413,
    ItemTooLargeError: 413,
    UnsupportedMediaTypeError: 415,
    TooManyRequestsError: 429,
    RequestError: 400,
    TransientError: 503,
}
"""The status of each class of errors; the first class that fits counts."""

RETRYABLE = (ConflictError, TransientError, TooManyRequestsError)
"""After these the very same request, with the same idempotency key, may succeed."""


def failure(error: Exception) -> ApiResponse:
    """Return the response to an error. What nobody expected is logged and told without details."""
    status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), None)
    if status is None or not isinstance(error, PerdureError):
        tell("fault", "request failed unexpectedly", error=error)
        return envelope(500, "internal", "something went wrong on the server; its log says what", retryable=False)
    run = error.run if isinstance(error, UnsettledError) else None
    return envelope(status, error.code, error.message, retryable=isinstance(error, RETRYABLE), run=run)


def envelope(status: int, code: str, message: str, *, retryable: bool, run: JsonObject | None = None) -> ApiResponse:
    """Return the response that tells of one error."""
    detail: JsonObject = {"code": code, "message": message, "retryable": retryable}
    return json_response(status, {"error": detail if run is None else detail | {"run": run}})
