"""What one reply shows of long texts and long lists (spec STORE-09, field case F092)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.core.bounds import fitted, newest_within, oldest_within, shortened, wire_size


def text_of(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": "x" * size, **more}


def a_message(sequence: int, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"sequence": sequence, "parts": list(parts)}


@pytest.mark.parametrize("field", ["text", "output", "error", "arguments_text", "message", "rejection_message"])
def test_a_text_over_the_limit_is_shown_as_its_head_with_its_full_size(field: str) -> None:
    assert shortened({field: "x" * 100, "id": 1}, 100) == {field: "x" * 100, "id": 1}
    assert shortened({field: "x" * 101}, 100) == {field: "x" * 100, "truncated": True, "bytes": 101}


def test_a_text_is_measured_in_bytes_and_cut_between_characters() -> None:
    assert shortened({"text": "é" * 50}, 100) == {"text": "é" * 50}
    assert shortened({"text": "é" * 51}, 101) == {"text": "é" * 50, "truncated": True, "bytes": 102}
    assert shortened({"text": "🚀" * 30}, 100)["text"] == "🚀" * 25


def test_arguments_that_are_cut_are_text_and_no_object_any_more() -> None:
    call = {"tool_call_id": "c", "arguments": {"note": "y" * 200}}

    shown = shortened(call, 100)

    whole = json.dumps(call["arguments"], separators=(",", ":"))
    assert shown == {"tool_call_id": "c", "arguments_text": whole[:100], "truncated": True, "bytes": len(whole)}
    assert shortened(call, 1000) == call


def test_a_call_with_long_arguments_and_a_long_output_tells_the_size_of_all_that_was_cut() -> None:
    shown = shortened({"arguments": {"a": "y" * 200}, "output": "x" * 300, "status": "succeeded"}, 100)

    assert shown["bytes"] == len('{"a":""}') + 200 + 300
    assert len(shown["output"]) == len(shown["arguments_text"]) == 100


def test_parts_and_payloads_are_cut_each_by_itself_and_nothing_is_changed_in_place() -> None:
    message = a_message(1, text_of(200), text_of(50))
    event = {"type": "text_delta", "payload": {"text": "x" * 200}}

    assert shortened(message, 100) == a_message(1, text_of(100, truncated=True, bytes=200), text_of(50))
    assert shortened(event, 100)["payload"] == {"text": "x" * 100, "truncated": True, "bytes": 200}
    assert message == a_message(1, text_of(200), text_of(50))
    assert event["payload"] == {"text": "x" * 200}


def test_a_lone_surrogate_stops_nothing() -> None:
    assert wire_size({"text": "\ud800"}) > 0
    assert shortened({"text": "\ud800" * 100}, 100)["truncated"] is True


@pytest.mark.parametrize("text", ["x" * 5000, '"' * 5000, "\\" * 5000, "\x00" * 5000, "é" * 5000, "\n" * 5000])
def test_a_size_is_that_of_json_within_json(text: str) -> None:
    body = json.dumps({"text": text}, ensure_ascii=False, separators=(",", ":"))

    assert wire_size({"text": text}) == len(json.dumps(body, ensure_ascii=False).encode()) - len('""')


@pytest.mark.parametrize("letter", ["x", '"', "\x00", "é"])
def test_items_are_cut_so_far_that_all_fit(letter: str) -> None:
    items = [{"output": letter * 4000} for _ in range(10)]

    shown = fitted(items, 8_000)

    assert len(shown) == 10
    assert sum(map(wire_size, shown)) <= 8_000
    assert all(item["truncated"] for item in shown)
    assert len(shown[0]["output"]) >= 8_000 // 10 // 4 // 8


def test_of_too_many_items_the_first_are_shown() -> None:
    items = [{"id": number, "output": "x" * 1000} for number in range(1000)]

    shown = fitted(items, 10_000)

    assert 40 < len(shown) < 1000
    assert [item["id"] for item in shown] == list(range(len(shown)))
    assert sum(map(wire_size, shown)) <= 10_000


def test_a_page_holds_the_newest_messages_that_fit_whole() -> None:
    messages = [a_message(n, text_of(1000)) for n in range(10)]

    shown = newest_within(messages, 3 * wire_size(messages[0]))

    assert shown == messages[-3:]
    assert newest_within(messages, 3 * wire_size(messages[0]) - 1) == messages[-2:]
    assert newest_within([], 10) == []


def test_a_message_that_is_alone_too_large_is_shown_with_its_parts_cut() -> None:
    small, large = a_message(1, text_of(10)), a_message(2, text_of(5000), text_of(10))

    (shown,) = newest_within([small, large], 2000)

    assert shown["sequence"] == 2
    assert wire_size(shown) <= 2000
    assert shown["parts"][0]["bytes"] == 5000
    assert shown["parts"][1] == text_of(10)


def test_a_message_behind_newer_ones_waits_for_its_own_page_instead_of_being_cut() -> None:
    large, small = a_message(1, text_of(5000)), a_message(2, text_of(10))

    assert newest_within([large, small], 2000) == [small]


def test_a_page_of_events_ends_before_it_is_too_large_and_always_goes_on() -> None:
    events = [{"type": "text_delta", "cursor": str(n), "payload": {"text": "x" * 1000}} for n in range(5)]

    assert oldest_within(events, 2 * wire_size(events[0])) == events[:2]
    (alone,) = oldest_within(events, 500)
    assert (alone["cursor"], alone["payload"]["bytes"]) == ("0", 1000)
    assert oldest_within([], 500) == []
