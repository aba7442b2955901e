"""The error table of surface §4.1: status, code and whether a repeat may help, by the class of the error."""

import json

import pytest

from perdure import errors
from perdure.api.failures import failure


@pytest.mark.parametrize(
    ("error", "status", "code", "retryable"),
    [
        (errors.InvalidRequestError("m"), 400, "invalid_request", False),
        (errors.InvalidRequestError("m", code="invalid_text"), 400, "invalid_text", False),
        (errors.InvalidRequestError("m", code="invalid_cursor"), 400, "invalid_cursor", False),
        (errors.RequestError("m"), 400, "invalid_request", False),
        (errors.UnauthorizedError("m"), 401, "unauthorized", False),
        (errors.ForbiddenError("m"), 403, "forbidden", False),
        (errors.NotFoundError("m"), 404, "session_not_found", False),
        (errors.NotFoundError("m", code="interrupt_not_found"), 404, "interrupt_not_found", False),
        (errors.RequestConflictError("m", code="not_pending"), 409, "not_pending", False),
        (errors.StaleSessionError("m"), 409, "stale_session", True),
        (errors.TooLargeError("m"), 413, "too_large", False),
        (errors.ItemTooLargeError("m"), 413, "too_large", False),
        (errors.UnsupportedMediaTypeError("m"), 415, "unsupported_media_type", False),
        (errors.TooManyRequestsError("m"), 429, "too_many_requests", True),
        (errors.StoreUnavailableError("m"), 503, "store_unavailable", True),
    ],
)
def test_an_error_is_told_with_status_code_and_whether_to_repeat(
    error: errors.PerdureError, status: int, code: str, retryable: bool
) -> None:
    response = failure(error)

    assert response.status == status
    assert json.loads(response.body) == {"error": {"code": code, "message": "m", "retryable": retryable}}
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("error", [KeyError("secret"), errors.DatabaseUnusableError("secret path"), RecursionError()])
def test_what_nobody_expected_is_logged_and_told_without_details(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    response = failure(error)

    body = json.loads(response.body)["error"]
    assert (response.status, body["code"], body["retryable"]) == (500, "internal", False)
    assert "secret" not in body["message"]
    (told,) = caplog.records
    assert (told.name, told.__dict__["cause"]) == ("perdure.operator", type(error).__name__)
    assert "secret" not in str(told.__dict__)
