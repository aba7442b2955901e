"""A result that was called a success and says inside that it is none (spec TOOL-22)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import error_inside
from perdure.agents.errors_inside import MAX_CHARACTERS


@pytest.mark.parametrize(
    ("output", "error"),
    [
        ({"error": "no such order"}, "no such order"),
        ({"error": {"code": 404, "message": "no such order"}}, "no such order"),
        ({"error": {"code": 404}}, '{"code": 404}'),
        ({"error": ["a", "b"]}, '["a", "b"]'),
        ({"error": 404}, "404"),
        ({"error": True, "message": "it is down"}, "it is down"),
        ({"error": True}, "error is true"),
        ({"error": "Not Found", "status": 404, "path": "/orders/7", "timestamp": 1}, "Not Found"),
        ({"error": "late", "data": None, "items": [], "next": "", "page": {}, "count": 0}, "late"),
        ({"value": {"error": "no such order"}}, "no such order"),
        ({"type": "json", "value": '{"error": "no such order"}'}, "no such order"),
        ({"isError": True, "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}]}, "a\nb"),
        ({"isError": True, "content": [], "structuredContent": {"left": 1}}, "isError is true"),
        ({"success": False, "message": "out of stock", "asked": 3}, "out of stock"),
        ({"success": False, "error": {"detail": "out of stock"}}, "out of stock"),
        ({"success": False}, "success is false"),
    ],
)
def test_an_error_is_recognised_as_an_object_and_as_its_text(output: dict[str, Any], error: str) -> None:
    assert error_inside(output) == error
    assert error_inside(f"\n {json.dumps(output)} ") == error


@pytest.mark.parametrize(
    "output",
    [
        {},
        {"error": None},
        {"error": ""},
        {"error": False, "order": 7},
        {"error": {}},
        {"error": "none", "orders": [7]},
        {"error": "timeout", "name": "log-1", "level": "warn"},
        {"message": "an error came up", "code": 500},
        {"isError": False, "content": [{"type": "text", "text": "error"}]},
        {"isError": "true"},
        {"is_error": True},
        {"success": True, "error": ""},
        {"success": 0},
        {"success": None},
        {"value": {"value": {"error": "too deep"}}},
        {"value": {"error": "one of several"}, "next": 2},
        {"value": "error"},
        {"data": {"error": "of the data"}},
        [{"error": "of one of many"}],
    ],
)
def test_what_may_be_a_result_is_left_one(output: Any) -> None:
    assert error_inside(output) is None
    assert error_inside(json.dumps(output)) is None


@pytest.mark.parametrize(
    "output",
    ["", "error: no such order", '{"error": "cut o', '"{}"', "null", "[" * 100_000, '{"a":' * 10_000, 7, None, b"{}"],
)
def test_what_is_no_json_object_is_no_error(output: Any) -> None:
    assert error_inside(output) is None


def test_a_long_text_is_not_looked_into_and_a_long_error_is_cut() -> None:
    padded = '{"error": "no"}'.ljust(MAX_CHARACTERS)

    assert error_inside(padded) == "no"
    assert error_inside(padded + " ") is None
    assert error_inside({"error": "x" * 2_000}) == "x" * 1_000
