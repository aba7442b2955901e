"""What the strictest chat-completions providers refuse, each rule taken from a public report (field cases)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

JsonObject = dict[str, Any]

_LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}


_PARTS: dict[str, set[str]] = {
    "text": set(),
    "image_url": {"url"},
    "input_audio": {"data", "format"},
    "file": {"filename", "file_data"},
}


def violations(body: JsonObject) -> list[str]:
    """Return what a strict provider would refuse in the body of a request, in its order; empty for nothing."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return ["messages is empty or no list"]
    found = [*_conversation(messages)]
    tools = body.get("tools")
    if tools is not None:
        found += _tools(tools)
    elif "tool_choice" in body or "parallel_tool_calls" in body:
        found.append("tool_choice or parallel_tool_calls without tools")
    return found


def _conversation(messages: list[Any]) -> Iterator[str]:
    known: set[str] = set()
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        role = message.get("role")
        if role not in _FIELDS:
            yield f"{where}: unknown role"
            continue
        if unknown := set(message) - _FIELDS[role]:
            yield f"{where}: unknown fields {sorted(unknown)}"
        if role == "tool":
            if message.get("tool_call_id") in open_calls:
                open_calls.remove(message["tool_call_id"])
            else:
                yield f"{where}: a result without its call directly before it"
        elif open_calls:
            yield f"{where}: {len(open_calls)} tool calls have no result directly behind them"
            open_calls = []
        if role == "user" and isinstance(message.get("content"), list):
            yield from (f"{where}: {problem}" for problem in _parts(message["content"]))
        elif not isinstance(message.get("content"), str):
            yield f"{where}: content is no text"
        elif not message["content"] and role in ("user", "assistant") and not message.get("tool_calls"):
            yield f"{where}: content is empty"
        for call in message.get("tool_calls") or ():
            yield from (f"{where}: {problem}" for problem in _call(call, known))
            open_calls.append(call.get("id"))
            known.add(call.get("id"))
    if open_calls:
        yield f"the last message: {len(open_calls)} tool calls have no result"


def _parts(parts: list[Any]) -> Iterator[str]:
    if not parts:
        yield "content is empty"
    for part in parts:
        kind = part.get("type")
        if kind not in _PARTS or set(part) != {"type", kind}:
            yield "a part of the content is of no known kind, or has unknown fields"
        elif set(part[kind]) != _PARTS[kind] if kind != "text" else not part["text"]:
            yield f"a part of kind {kind} is empty or has missing or unknown fields"


def _call(call: JsonObject, known: set[str]) -> Iterator[str]:
    function = call.get("function") or {}
    if set(call) != {"id", "type", "function"} or set(function) != {"name", "arguments"}:
        yield "a tool call has missing or unknown fields"
    if not _LEGAL.fullmatch(str(call.get("id"))):
        yield "the id of a tool call is illegal"
    if call.get("id") in known:
        yield "the id of a tool call is repeated"
    if not _LEGAL.fullmatch(str(function.get("name"))):
        yield "the name of a tool call is illegal"
    try:
        arguments = json.loads(function.get("arguments") or "")
    except (TypeError, ValueError):
        arguments = None
    if not isinstance(arguments, dict):
        yield "the arguments of a tool call are no JSON object"


def _tools(tools: list[Any]) -> Iterator[str]:
    names: set[str] = set()
    if not tools:
        yield "tools is empty"
    for place, tool in enumerate(tools):
        function = tool.get("function") or {}
        name = str(function.get("name"))
        if not _LEGAL.fullmatch(name):
            yield f"tools[{place}]: the name is illegal"
        if name in names:
            yield f"tools[{place}]: the name is repeated"
        names.add(name)
        parameters = function.get("parameters")
        if not isinstance(parameters, dict) or parameters.get("type") != "object":
            yield f"tools[{place}]: parameters is no object schema"
        else:
            yield from (f"tools[{place}]: {problem}" for problem in _schema(parameters))


def _schema(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" and not isinstance(schema.get("properties"), dict):
        yield "an object schema without properties"
    if schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
        yield "an array schema without items"
    for name in ("properties", "$defs"):
        for inner in (schema.get(name) or {}).values():
            yield from _schema(inner)
    for name in ("anyOf", "oneOf", "allOf"):
        for inner in schema.get(name) or ():
            yield from _schema(inner)
    for name in ("items", "additionalProperties"):
        yield from _schema(schema.get(name))
