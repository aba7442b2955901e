"""Replies stay small enough for every host: long texts are shown as their heads, and lists end where they are full.

The log keeps the whole (`limits.MAX_TOOL_OUTPUT_BYTES`); this is about what one reply shows, `outputs` about prompts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

JsonObject = dict[str, Any]

MAX_SHOWN_BYTES = 256 * 1024
"""Longest text, in bytes of UTF-8, that a snapshot shows whole. Our own choice: more than anybody reads on a page."""

MAX_PAGE_BYTES = 4 * 1024 * 1024
"""Largest reply, in bytes of the JSON text of its JSON text, which is what Lambda hands over. Its limit is 6 MB for all
of the answer (AWS Lambda Developer Guide, "Lambda quotas"); the rest is for headers and field names."""

SHORTEST_HEAD_BYTES = 64
"""Head of a text, in bytes, below which no text is cut; then a list ends instead."""

_TEXTS = ("text", "output", "error", "arguments_text", "message", "rejection_message")


_SMALL_EVENT = 8 * 1024
"""Bytes that an event of eight short values takes at most: a character has up to 7 where JSON stands in JSON."""


def wire_size(value: Any) -> int:
    """Return how many bytes a value takes in a reply whose body is a JSON string once more."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass")) + text.count('"') + text.count("\\")


def shortened(item: JsonObject, limit: int = MAX_SHOWN_BYTES) -> JsonObject:
    """Return a part, message, call, interrupt, queued message or event whose texts are cut to `limit` bytes of UTF-8.

    Where something was cut stands `truncated: true` beside it, and `bytes`, the size of all that was cut. Arguments
    that are cut are no object any more: their JSON text is shown as `arguments_text`.
    """
    texts = {name: item[name] for name in _TEXTS if isinstance(item.get(name), str)}
    if "arguments" in item:
        texts["arguments_text"] = json.dumps(item["arguments"], ensure_ascii=False, separators=(",", ":"))
    cut = {name: _encoded(text) for name, text in texts.items() if _is_longer(text, limit)}
    shown = item
    if cut:
        heads = {name: data[:limit].decode("utf-8", "ignore") for name, data in cut.items()}
        kept = {name: value for name, value in item.items() if name != "arguments" or "arguments_text" not in cut}
        shown = kept | heads | {"truncated": True, "bytes": sum(map(len, cut.values()))}
    if isinstance(item.get("parts"), list):
        shown = shown | {"parts": [shortened(part, limit) for part in item["parts"]]}
    if isinstance(item.get("payload"), dict):
        shown = shown | {"payload": shortened(item["payload"], limit)}
    return shown


def fitted(items: Sequence[JsonObject], budget: int, limit: int = MAX_SHOWN_BYTES) -> list[JsonObject]:
    """Return items with texts cut so far that all of them take `budget` bytes together.

    Of more items than even that lets in, the last are left out.
    """
    while True:
        shown = [shortened(item, limit) for item in items]
        sizes = [wire_size(item) for item in shown]
        if sum(sizes) <= budget:
            return shown
        if limit <= SHORTEST_HEAD_BYTES:
            break
        limit //= 2
    while sum(sizes) > budget:
        sizes.pop()
    return shown[: len(sizes)]


def newest_within(messages: Sequence[JsonObject], budget: int, limit: int | None = None) -> list[JsonObject]:
    """Return the newest messages that take `budget` bytes together, at least one, oldest first.

    Args:
        limit: Cut their texts to this many bytes. None: only those of a message that is alone too large.
    """
    kept: list[JsonObject] = []
    room = budget
    for message in reversed(messages):
        shown = message if limit is None else shortened(message, limit)
        size = wire_size(shown)
        if size > room:
            if not kept:
                parts = fitted(message["parts"], room - wire_size(message | {"parts": []}))
                kept.append(message | {"parts": parts})
            break
        room -= size
        kept.append(shown)
    return kept[::-1]


def oldest_within(events: Iterable[JsonObject], budget: int) -> list[JsonObject]:
    """Return the events from the first one on that take `budget` bytes together, at least one."""
    kept: list[JsonObject] = []
    room = budget
    for event in events:
        size = _SMALL_EVENT if _is_small(event) else wire_size(event)
        if size > room:
            if not kept:
                kept.append(_event_within(event, room))
            break
        room -= size
        kept.append(event)
    return kept


def _is_small(event: JsonObject) -> bool:
    """Whether an event surely takes less than `_SMALL_EVENT` bytes, told without writing it down."""
    payload = event["payload"]
    return len(payload) <= 8 and all(map(_is_short, payload.values()))


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= 128
    return value is None or isinstance(value, (bool, int, float))


def _event_within(event: JsonObject, budget: int) -> JsonObject:
    return next(iter(fitted([event], budget)), event | {"payload": {"truncated": True}})


def _is_longer(text: str, limit: int) -> bool:
    return len(text) * 4 > limit and len(_encoded(text)) > limit


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
