"""What an AWS error means to us: nothing else in the package looks at error codes."""

from __future__ import annotations

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
)

from perdure.errors import (
    ConfigurationError,
    ItemTooLargeError,
    PerdureError,
    PermanentError,
    StoreUnavailableError,
)

CONDITION_FAILED = frozenset({"ConditionalCheckFailedException", "PreconditionFailed", "412"})
ALREADY_THERE = frozenset({"ConflictException"})
MISSING = frozenset({"ResourceNotFoundException", "NoSuchKey", "404"})
GONE = frozenset({"GoneException", "410"})

_TRANSIENT = frozenset(
    {
        "ConditionalRequestConflict",  # S3: two writers of one key at once
        "InternalError",
        "InternalServerError",
        "ItemCollectionSizeLimitExceededException",
        "LimitExceededException",  # API Gateway: 429
        "OverLimit",  # SQS: too many messages in flight
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionConflictException",  # another writer was at the item at this moment; nothing was written
        "TransactionInProgressException",
    }
)
_SET_UP = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ForbiddenException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "NoSuchBucket",
        "ResourceNotFoundException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
        "NonExistentQueue",
        "QueueDoesNotExist",
    }
)


_SQS = "AWS.SimpleQueueService."
"""Before the code of some errors of SQS, from the time when it spoke XML."""


def code_of(error: BaseException) -> str:
    """Return the error code that a service answered with, or an empty text when no answer came."""
    if not isinstance(error, ClientError):
        return ""
    return str(error.response.get("Error", {}).get("Code", "")).removeprefix(_SQS)


def status_of(error: BaseException) -> int:
    """Return the HTTP status that a service answered with, or 0."""
    if not isinstance(error, ClientError):
        return 0
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def translated(error: BotoCoreError | ClientError, doing: str) -> PerdureError:
    """Return our error for one of AWS's; `doing` says what was tried, for the message.

    A failed condition is an answer, not an error: callers look for it before they come here.

    Returns:
        `StoreUnavailableError` for no answer, throttles and conflicts (the outcome is unknown, because an earlier
        attempt of the SDK may have landed), `ItemTooLargeError`, `ConfigurationError`, else `PermanentError`.
    """
    if isinstance(error, ClientError):
        return _translated_answer(error, doing)
    if isinstance(error, ParamValidationError):
        return PermanentError(f"{doing}: the request is not valid ({error}); this is a defect of perdure")
    if isinstance(error, (NoCredentialsError, PartialCredentialsError, NoRegionError)):
        return ConfigurationError(f"{doing}: {error}; give the process a region and credentials")
    return StoreUnavailableError(f"{doing}: no answer came ({type(error).__name__}); the same call may be sent again")


def _translated_answer(error: ClientError, doing: str) -> PerdureError:
    code = code_of(error)
    text = str(error.response.get("Error", {}).get("Message", ""))
    if code in _TRANSIENT or status_of(error) >= 500 or status_of(error) == 429:
        return StoreUnavailableError(f"{doing}: {code}; the same call may be sent again")
    if code == "ValidationException" and "size" in text.lower() and "exceed" in text.lower():
        return ItemTooLargeError(f"{doing}: the item is larger than a table item may be; nothing was written")
    if code in _SET_UP:
        return ConfigurationError(f"{doing}: {code}: {text}; check the name in the settings and the function's role")
    return PermanentError(f"{doing}: {code}: {text}")
