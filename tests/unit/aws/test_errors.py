"""Which of our errors an AWS error becomes (field case F095)."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    ReadTimeoutError,
)

from perdure.aws.clients import Clients
from perdure.aws.errors import translated
from perdure.errors import ConfigurationError, ItemTooLargeError, PermanentError, StoreUnavailableError, TransientError

ADDRESS = "https://dynamodb.example"


def an_answer(code: str, message: str = "", status: int = 400) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "UpdateItem")


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (an_answer("ThrottlingException"), StoreUnavailableError),
        (an_answer("ProvisionedThroughputExceededException"), StoreUnavailableError),
        (an_answer("RequestLimitExceeded"), StoreUnavailableError),
        (an_answer("RequestThrottled", status=403), StoreUnavailableError),
        (an_answer("AWS.SimpleQueueService.ThrottlingException"), StoreUnavailableError),
        (an_answer("AWS.SimpleQueueService.NonExistentQueue"), ConfigurationError),
        (an_answer("TransactionConflictException"), StoreUnavailableError),
        (an_answer("ConditionalRequestConflict", status=409), StoreUnavailableError),
        (an_answer("SomethingNew", status=503), StoreUnavailableError),
        (an_answer("SomethingNew", status=429), StoreUnavailableError),
        (ReadTimeoutError(endpoint_url=ADDRESS), StoreUnavailableError),
        (ConnectTimeoutError(endpoint_url=ADDRESS), StoreUnavailableError),
        (EndpointConnectionError(endpoint_url=ADDRESS), StoreUnavailableError),
        (an_answer("ValidationException", "Item size to update has exceeded the maximum"), ItemTooLargeError),
        (an_answer("ValidationException", "The provided key element does not match the schema"), PermanentError),
        (an_answer("SomethingNew"), PermanentError),
        (ParamValidationError(report="bad"), PermanentError),
        (an_answer("AccessDeniedException"), ConfigurationError),
        (an_answer("ResourceNotFoundException"), ConfigurationError),
        (NoCredentialsError(), ConfigurationError),
        (NoRegionError(), ConfigurationError),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value)[:60],
)
def test_an_error_of_aws_has_one_posture(error: Any, ours: type[Exception]) -> None:
    found = translated(error, "write HEAD")

    assert type(found) is ours
    assert isinstance(found, TransientError) is (ours is StoreUnavailableError)
    assert found.message.startswith("write HEAD")


def test_a_process_without_a_region_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "nowhere")

    with pytest.raises(ConfigurationError, match="give the process a region"):
        _ = Clients().dynamodb
