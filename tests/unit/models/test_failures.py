"""Failures of providers, classified."""

from datetime import timedelta

import pytest

from perdure.models.failures import (
    ProviderError,
    classify_error,
    classify_status,
    provider_error,
    retry_after_seconds,
    status_error,
    stream_error,
)
from tests.unit.models.builders import NOON


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (301, "unavailable", False),
        (400, "invalid", False),
        (401, "auth", False),
        (402, "credits", False),
        (403, "auth", False),
        (404, "unavailable", False),
        (405, "invalid", False),
        (408, "timeout", True),
        (409, "timeout", True),
        (413, "context_overflow", False),
        (422, "invalid", False),
        (425, "timeout", True),
        (429, "rate_limited", True),
        (500, "timeout", True),
        (503, "timeout", True),
        (529, "timeout", True),
    ],
)
def test_the_status_tells_the_kind_and_whether_to_try_again(status: int, kind: str, retryable: bool) -> None:
    failure = classify_status(status)

    assert (failure.kind, failure.retryable, failure.evidence) == (kind, retryable, "status")


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (429, ProviderError(words=("insufficient_quota",)), "credits"),
        (400, ProviderError(words=("context_length_exceeded", "invalid_request_error")), "context_overflow"),
        (403, ProviderError(words=("billing_not_active",)), "credits"),
        (400, ProviderError(words=("invalid_api_key",)), "auth"),
        (400, ProviderError(message="This model's maximum context length is 4096 tokens."), "context_overflow"),
    ],
)
def test_a_code_says_more_than_a_status_that_means_two_things(status: int, error: ProviderError, kind: str) -> None:
    failure = classify_status(status, error)

    assert (failure.kind, failure.retryable, failure.evidence) == (kind, False, "message")


def test_a_server_error_stays_retryable_whatever_code_it_carries() -> None:
    assert classify_status(500, ProviderError(words=("insufficient_quota",))).retryable


@pytest.mark.parametrize(
    ("body", "kind", "retryable", "evidence"),
    [
        ({"error": {"type": "server_error", "code": None}}, "timeout", True, "message"),
        ({"error": {"code": "rate_limit_exceeded", "type": "tokens"}}, "rate_limited", True, "message"),
        ({"error": {"code": 502, "message": "upstream"}}, "timeout", True, "status"),
        ({"error": {"code": "401"}}, "auth", False, "status"),
        ({"error": {"code": 402}}, "credits", False, "status"),
        ({"error": {"code": "insufficient_quota"}}, "credits", False, "message"),
        ({"error": {"type": "authentication_error"}}, "auth", False, "message"),
        ({"error": {"type": "invalid_request_error"}}, "invalid", False, "message"),
        ({"error": {"message": "the prompt exceeds the available context size"}}, "context_overflow", False, "message"),
        ([{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}], "rate_limited", True, "status"),
        ({"error": "boom"}, "unknown", True, "none"),
        ({"error": {"code": True}}, "unknown", True, "none"),
        (None, "unknown", True, "none"),
    ],
)
def test_an_error_object_in_a_stream_is_classified_by_what_it_holds(
    body: object, kind: str, retryable: bool, evidence: str
) -> None:
    failure = classify_error(provider_error(body))

    assert (failure.kind, failure.retryable, failure.evidence) == (kind, retryable, evidence)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "40"}, 40.0),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:40 GMT"}, 40.0),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:40 -0000"}, 40.0),
        ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "40"}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "Sun, 99 Mar 2026 12:00:40 GMT"}, None),
        ({}, None),
    ],
)
def test_the_wait_that_a_provider_asks_for_is_read_in_each_of_its_forms(headers: dict, seconds: float | None) -> None:
    assert retry_after_seconds(headers, NOON) == seconds


def test_a_date_counts_from_the_given_moment() -> None:
    headers = {"retry-after": "Sun, 01 Mar 2026 12:00:40 GMT"}

    assert retry_after_seconds(headers, NOON + timedelta(seconds=15)) == 25.0


@pytest.mark.parametrize("code", ["sk-Secret123", "my prompt", "Sk_live", "hunter"])
def test_no_text_holds_what_a_provider_may_have_quoted(code: str) -> None:
    error = provider_error({"error": {"message": "Incorrect key sk-Secret123 for: my prompt", "code": code}})

    texts = [status_error(401, error, retry_after=None).message, stream_error(error, partial_text="").message]

    assert not [text for text in texts if code.lower() in text.lower() or "Incorrect" in text]


def test_an_error_keeps_status_wait_and_code() -> None:
    error = status_error(429, ProviderError(words=("rate_limit_exceeded",)), retry_after=40.0)

    assert (error.kind, error.status, error.retry_after_seconds) == ("rate_limited", 429, 40.0)
    assert "HTTP 429 (rate_limit_exceeded)" in error.message
