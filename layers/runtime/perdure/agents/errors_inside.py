"""Recognises a result that was called a success and says inside that it is none (spec TOOL-22)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MAX_CHARACTERS = 64 * 1024
"""Longest text that is looked into, in characters. Our own choice: what says that it failed is short."""

MAX_ERROR_CHARACTERS = 1000
"""Length of an error that is returned, in characters. Our own choice."""

_SAY_MORE = ("message", "detail", "details", "reason", "title", "code", "type")
"""Fields that tell of an error what it is; the first text among them does, in this order."""

_BESIDE = frozenset(
    {*_SAY_MORE, "error", "error_code", "errorCode", "errors", "success", "ok", "isError", "status", "status_code"}
    | {"statusCode", "request_id", "requestId", "trace_id", "traceId", "timestamp", "path", "instance", "retryable"}
)
"""Fields that may stand beside an error and are no result themselves."""


def error_inside(output: Any) -> str | None:
    """Return the error that a tool's result carries although it was given as a success; None: none was recognised.

    Recognised is a JSON object, or the text of one, of these forms, also as the only field `value` of another object:

    - `{"error": …}` with something in it, beside which stands nothing that could be the result: other fields are
      empty, or tell of errors (`code`, `message`, `status`, …);
    - `{"isError": true, …}`, as MCP has it; the error is the text of its `content`;
    - `{"success": false, …}`.

    It rather misses an error than make one: `{"error": "none", "orders": […]}` is a result, and so is every text that
    is no JSON object, or is longer than 64 Ki characters. What comes back is the error's own text, as far as it has
    one, of at most 1,000 characters.
    """
    value = _object(output)
    if value is not None and value.keys() <= {"value", "type"} and "value" in value:
        value = _object(value["value"])
    if value is None:
        return None
    found = _told(value)
    return found[:MAX_ERROR_CHARACTERS] if found is not None else None


def _object(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, str) and len(value) <= MAX_CHARACTERS and value.lstrip()[:1] == "{":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, Mapping) else None


def _told(value: Mapping[str, Any]) -> str | None:
    error = value.get("error")
    if value.get("isError") is True:
        return _text(error) or _content(value.get("content")) or _said(value) or "isError is true"
    if value.get("success") is False:
        return _text(error) or _said(value) or "success is false"
    if all(name in _BESIDE or _is_empty(field) for name, field in value.items()):
        return _text(error) or (_said(value) or "error is true" if error is True else None)
    return None


def _text(error: Any) -> str | None:
    """Return the text of what stands under `error`; None when that is nothing, or only true or false."""
    if isinstance(error, bool) or _is_empty(error):
        return None
    if isinstance(error, str):
        return error
    if isinstance(error, Mapping) and (said := _said(error)):
        return said
    return json.dumps(error, ensure_ascii=False, default=str)


def _said(value: Mapping[str, Any]) -> str | None:
    texts = (value.get(name) for name in _SAY_MORE)
    return next((text for text in texts if isinstance(text, str) and text.strip()), None)


def _content(content: Any) -> str | None:
    parts = content if isinstance(content, list) else []
    texts = [part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)]
    return "\n".join(texts).strip() or None


def _is_empty(value: Any) -> bool:
    return (
        value is None
        or value is False
        or value == 0
        or (isinstance(value, str) and not value.strip())
        or (isinstance(value, (list, Mapping)) and not value)
    )
