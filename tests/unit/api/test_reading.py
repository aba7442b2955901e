"""Requests are read strictly, and what is wrong is named."""

import gc
import json
from typing import Any

import pytest

from perdure.api.bodies import (
    ChangeBody,
    ChangeWaitBody,
    DeliverBody,
    EmptyBody,
    InputBody,
    InterruptBody,
    RetryBody,
    SettingsBody,
    StopBody,
)
from perdure.api.reading import MAX_BODY_BYTES, MAX_DEPTH, QueryParam, read_body, read_query, require_json
from perdure.errors import InvalidRequestError, TooLargeError, UnsupportedMediaTypeError

PARAMS = (
    QueryParam(name="after", kind="cursor", doc=""),
    QueryParam(name="limit", kind="integer", doc=""),
    QueryParam(name="wait_seconds", kind="seconds", doc=""),
)


def refusal(body: Any, model: type = InputBody) -> InvalidRequestError:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(InvalidRequestError) as caught:
        read_body(content, model)
    return caught.value


# --- bodies -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["\x00", " \u2028\x85\x1f a", "\ud83d\ude00 \u0000 \uffff", "e\u0301", "\ufeffx", "a\r\nb\tc"]
)
def test_text_comes_in_exactly_as_it_was_sent(text: str) -> None:
    text = text.encode("utf-16", "surrogatepass").decode("utf-16")

    escaped = read_body(json.dumps({"text": text}).encode(), InputBody)
    plain = read_body(json.dumps({"text": text}, ensure_ascii=False).encode(), InputBody)

    assert escaped.text == plain.text == text


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "`text` is missing"),
        ({"text": None}, "`text`"),
        ({"text": 5}, "`text`"),
        ({"text": ["a"]}, "`text`"),
        ({"text": "a", "agent": True}, "`agent`"),
        ({"text": "a", "message_id": 7}, "`message_id`"),
        ({"text": "a", "metadata": "x"}, "`metadata`"),
        ({"text": "a", "metadata": []}, "`metadata`"),
        ({"text": "a", "delivery": "shout"}, "`delivery`"),
        ({"text": "a", "plan_mode": True}, "`plan_mode` is not supported yet"),
        ({"text": "a", "settings": []}, "`settings`"),
        ({"text": "a", "run_settings": "fast"}, "`run_settings`"),
        ({"text": "a", "source": "webhook"}, "unknown field `source`"),
        ({"text": "a", "role": "system"}, "unknown field `role`"),
    ],
)
def test_a_wrong_field_of_an_input_is_named(body: dict[str, object], named: str) -> None:
    error = refusal(body)

    assert error.code == "invalid_request"
    assert named in error.message


@pytest.mark.parametrize(
    ("body", "model", "named"),
    [
        ({"frontier": 5}, StopBody, "`frontier`"),
        ({"turn": "turn-1"}, StopBody, "unknown field `turn`"),
        ({}, RetryBody, "`retry_id` is missing"),
        ({"retry_id": 1}, RetryBody, "`retry_id`"),
        ({"now": True}, EmptyBody, "unknown field `now`"),
        ({}, ChangeBody, "exactly one of `text`, `before`, `after` and `position`"),
        ({"text": "a", "position": "first"}, ChangeBody, "exactly one of"),
        ({"before": None}, ChangeBody, "exactly one of"),
        ({"position": 1}, ChangeBody, "`position`"),
        ({"position": "middle"}, ChangeBody, "`position`"),
        ({"rank": 1}, ChangeBody, "unknown field `rank`"),
        ({}, DeliverBody, "`delivery` is missing"),
        ({"delivery": "now"}, DeliverBody, "`delivery`"),
        ([], SettingsBody, "must be a JSON object"),
    ],
)
def test_a_wrong_field_of_a_control_is_named(body: Any, model: type[Any], named: str) -> None:
    error = refusal(body, model)

    assert error.code == "invalid_request"
    assert named in error.message


def test_any_object_is_settings() -> None:
    assert read_body(b'{"model": {"name": "x"}, "n": 1}', SettingsBody).root == {"model": {"name": "x"}, "n": 1}


@pytest.mark.parametrize("approved", ["yes", "true", 1, 0, 1.0, [], {}])
def test_nothing_but_a_boolean_approves(approved: object) -> None:
    error = refusal({"approved": approved}, InterruptBody)

    assert error.message.startswith("`approved`")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"approved": None},
        {"message": "why not"},
        {"approved": True, "answer": "yes"},
        {"answer": "yes", "approved": False},
        {"answer": "yes", "arguments_hash": "00"},
    ],
)
def test_a_decision_is_either_an_approval_or_an_answer(body: dict[str, object]) -> None:
    error = refusal(body, InterruptBody)

    assert "`approved`" in error.message
    assert "`answer`" in error.message


@pytest.mark.parametrize("body", [{"approved": False, "arguments": {}}, {"answer": "yes", "arguments": {}}], ids=str)
def test_other_arguments_go_with_an_approval_alone(body: dict[str, object]) -> None:
    assert refusal(body, InterruptBody).message == "`arguments` go with `approved: true`"


def test_a_wait_is_changed_to_a_time_or_to_none_but_not_to_nothing_said() -> None:
    assert read_body(b'{"until": null}', ChangeWaitBody).until is None
    assert refusal({}, ChangeWaitBody).message == "`until` is missing"


def test_f055_other_arguments_name_those_that_they_replace() -> None:
    error = refusal({"approved": True, "arguments": {"order_id": "8"}}, InterruptBody)

    assert error.message == "`arguments` need the `arguments_hash` of those that they replace"


@pytest.mark.parametrize("extra", ["tool_name", "tool_call_id", "parts", "messages"])
def test_a_decision_brings_no_call_of_its_own(extra: str) -> None:
    """Field case F055: what is decided on is the stored call, never one that the client describes."""
    error = refusal({"approved": True, extra: {"order_id": "8"}}, InterruptBody)

    assert error.message == f"unknown field `{extra}`"


def test_a_field_that_is_null_counts_as_absent() -> None:
    body = read_body(b'{"turn_id": null, "disposition": null}', StopBody)

    assert body == StopBody()


def test_an_empty_body_is_an_empty_object() -> None:
    assert read_body(b"", StopBody) == StopBody()


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{'text': 'a'}",
        b'{"text": "a"} x',
        b"\xef\xbb\xbf{}",
        b'{"text": "a\x00"}',
    ],
)
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    assert refusal(body).code == "invalid_request"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1"])
def test_a_body_in_another_encoding_is_refused(encoding: str) -> None:
    error = refusal('{"text": "hé"}'.encode(encoding))

    assert error.message == "the request body is not UTF-8"


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400", "-1e999", "9" * 5000])
def test_a_number_that_json_or_we_can_not_keep_is_refused(value: str) -> None:
    error = refusal(f'{{"text": "a", "metadata": {{"n": {value}}}}}'.encode())

    assert error.code == "invalid_request"


def test_a_field_given_twice_is_refused() -> None:
    error = refusal(b'{"approved": false, "approved": true}', InterruptBody)

    assert "`approved` twice" in error.message


@pytest.mark.parametrize(
    "body",
    [
        rb'{"text": "\ud800"}',
        rb'{"text": "a \udc00 b"}',
        rb'{"text": "\udc00\ud800"}',
        b'{"text": "\xed\xa0\x80"}',
        rb'{"text": "a", "metadata": {"\udfff": 1}}',
        rb'{"text": "a", "metadata": {"x": ["\ud800"]}}',
        rb'{"text": "a", "agent": "\ud800"}',
    ],
)
def test_a_lone_surrogate_anywhere_is_invalid_text(body: bytes) -> None:
    assert refusal(body).code == "invalid_text"


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_that_would_exhaust_a_stack_is_refused(opening: bytes) -> None:
    gc.collect()  # so that nothing of another test is finalised at the bottom of the stack

    error = refusal(b'{"text": "a", "metadata": {"x": ' + opening * (MAX_BODY_BYTES // 8))

    assert error.code == "invalid_request"


def test_nesting_is_allowed_up_to_its_limit() -> None:
    def nested(levels: int) -> bytes:
        inner = levels - 2
        return b'{"text": "a", "metadata": {"x": ' + b"[" * inner + b"]" * inner + b"}}"

    deepest = read_body(nested(MAX_DEPTH), InputBody)

    assert deepest.metadata is not None
    assert "deeper" in refusal(nested(MAX_DEPTH + 1)).message


def test_a_body_may_have_one_mebibyte_and_not_a_byte_more() -> None:
    frame = len(b'{"text": ""}')

    largest = read_body(b'{"text": "%s"}' % (b"a" * (MAX_BODY_BYTES - frame)), InputBody)

    assert len(largest.text) == MAX_BODY_BYTES - frame
    with pytest.raises(TooLargeError):
        read_body(b'{"text": "%s"}' % (b"a" * (MAX_BODY_BYTES - frame + 1)), InputBody)


def test_a_refusal_never_repeats_the_value() -> None:
    error = refusal({"text": "a", "metadata": "secret-" * 1000, "x" * 5000: 1})

    assert "secret" not in error.message
    assert len(error.message) < 500


# --- media types --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON", "application/json; charset=utf-8", 'application/json;charset="UTF-8"'],
)
def test_json_in_utf8_is_read(content_type: str) -> None:
    require_json({"content-type": content_type})


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "text/plain; application/json",
        "application/jsonp",
    ],
)
def test_any_other_media_type_is_refused(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        require_json({"content-type": content_type})


def test_a_compressed_body_is_refused() -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        require_json({"content-type": "application/json", "content-encoding": "gzip"})


# --- query parameters ---------------------------------------------------------------------------


def test_query_parameters_are_read_as_their_kind() -> None:
    assert read_query("after=a%2Bb&limit=-5&wait_seconds=1.5", PARAMS) == {
        "after": "a+b",
        "limit": -5,
        "wait_seconds": 1.5,
    }


@pytest.mark.parametrize(
    "query",
    [
        "limit=",
        "limit=ten",
        "limit=1.5",
        "limit=1_0",
        "limit=%EF%BC%91",
        "limit=99999999999999999999",
        "wait_seconds=21",
        "wait_seconds=20.001",
        "wait_seconds=-1",
        "wait_seconds=nan",
        "wait_seconds=inf",
        "wait_seconds=1e1",
        "wait_seconds=",
        "limit=1&limit=2",
        "until=turn_end",
        "Limit=1",
    ],
)
def test_a_wrong_query_parameter_is_named(query: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_query(query, PARAMS)

    assert f"`{query.split('=', maxsplit=1)[0]}`" in caught.value.message
    assert caught.value.code == "invalid_request"


def test_an_empty_cursor_is_broken() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_query("after=", PARAMS)

    assert caught.value.code == "invalid_cursor"
