"""What a chat-completions provider is sent: the conversation, the tools and the settings as one JSON object.

Pure. Strict providers refuse a whole conversation for one message that they don't like, and a stored conversation can't
be changed, so everything is brought into the strictest known form here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from perdure.core.history import CallItem, HistoryItem, ModelItem, ToolResultItem, UserItem, wire_ids
from perdure.models.base import FileData, ModelRequest, ToolDefinition
from perdure.models.chat_files import file_part
from perdure.models.settings import ModelSettings

JsonObject = dict[str, Any]

RESERVED_SETTINGS = frozenset({"messages", "model", "n", "stream", "tools"})
"""What a setting may not say: the client does, or reads only what it asked for."""

_ONLY_WITH_TOOLS = ("parallel_tool_calls", "tool_choice")
_TIERS = {"fast": "priority", "standard": "default"}
_REPLAYED = "extra_content"
"""The one field of a call that is given back as it came: Gemini's signatures travel in it."""

_SCHEMA_MAPS = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS = ("additionalProperties", "else", "if", "items", "not", "then")


def chat_request(request: ModelRequest, *, model: str, provider: str, settings: Mapping[str, Any]) -> JsonObject:
    """Return the body of one streamed request.

    A setting of None is left out, also one that would be there by default: `{"stream_options": None}` is for servers
    that don't know it (their usage is then unknown).
    """
    body: JsonObject = {"model": model, "messages": chat_messages(request, provider), "stream": True}
    body["stream_options"] = {"include_usage": True}
    body |= settings
    if request.tools:
        body["tools"] = [chat_tool(tool) for tool in request.tools]
    else:
        for name in _ONLY_WITH_TOOLS:  # refused without tools
            body.pop(name, None)
    return {name: value for name, value in body.items() if value is not None}


def chat_settings(settings: ModelSettings, *, own: bool, limit_name: str | None = None) -> JsonObject:
    """Return settings in the words of the wire.

    Args:
        own: The server is OpenAI's. Others are not told of a tier, which is a preference and may be refused there.
        limit_name: What the wire calls the cap on the output. None: what this kind of server knows.
    """
    wire: JsonObject = {
        "temperature": settings.temperature,
        limit_name or ("max_completion_tokens" if own else "max_tokens"): settings.max_output_tokens,
        "reasoning_effort": settings.reasoning_effort,
        "service_tier": _TIERS.get(settings.service_tier or "") if own else None,
    }
    return {name: value for name, value in wire.items() if value is not None} | settings.provider_options


def chat_messages(request: ModelRequest, provider: str) -> list[JsonObject]:
    """Return instructions and conversation in wire form. Reasoning is not part of it: it is for viewers."""
    ids = wire_ids(request.messages, provider)
    messages: list[JsonObject] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    for item in request.messages:
        message = _message(item, ids, provider, request.files)
        if message is not None:
            messages.append(message)
    return messages


def _message(
    item: HistoryItem, ids: Mapping[str, str], provider: str, files: Mapping[str, FileData]
) -> JsonObject | None:
    if isinstance(item, UserItem):
        parts = [file_part(files[file.reference], file.name) for file in item.files if file.reference in files]
        text = [{"type": "text", "text": item.text}] if item.text else []
        return {"role": "user", "content": [*text, *parts] if parts else item.text}
    if isinstance(item, ToolResultItem):
        return {"role": "tool", "tool_call_id": ids.get(item.call_id, item.call_id), "content": item.output}
    if not item.calls:
        # An output without text and calls says nothing, and some providers refuse empty content.
        return {"role": "assistant", "content": item.text} if item.text else None
    extras = _replayed(item, provider)
    calls = [_call(call, ids[call.call_id]) | extra for call, extra in zip(item.calls, extras, strict=True)]
    # Null or missing content is allowed beside calls, but some servers answer it with HTTP 500.
    return {"role": "assistant", "content": item.text, "tool_calls": calls}


def _call(call: CallItem, wire_id: str) -> JsonObject:
    # Arguments that were no JSON object go out as "{}": strict providers, and the chat templates of local servers,
    # parse them and would refuse this conversation for ever. The model learns what was wrong from the call's result.
    arguments = json.dumps(call.arguments or {}, ensure_ascii=False)
    return {
        "id": wire_id,
        "type": "function",
        "function": {"name": legal_name(call.tool_name), "arguments": arguments},
    }


def legal_name(name: str) -> str:
    """Return a tool name that every provider takes, for a replayed call whose model made its name up (F130)."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "_"


def replay_item(extras: list[JsonObject]) -> JsonObject | None:
    """Return what a response with these calls has to be replayed with, in their order; None for nothing."""
    calls = [{_REPLAYED: extra[_REPLAYED]} if extra.get(_REPLAYED) is not None else {} for extra in extras]
    return {"calls": calls} if any(calls) else None


def _replayed(item: ModelItem, provider: str) -> list[JsonObject]:
    nothing: list[JsonObject] = [{} for _ in item.calls]
    if item.provider is None or item.provider.get("provider") != provider:
        return nothing
    stored = (item.provider.get("item") or {}).get("calls")
    return stored if isinstance(stored, list) and len(stored) == len(item.calls) else nothing


def chat_tool(tool: ToolDefinition) -> JsonObject:
    """Return a tool's definition in wire form."""
    function: JsonObject = {"name": tool.name, "parameters": complete_schema({"type": "object"} | tool.parameters)}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def complete_schema(schema: JsonObject) -> JsonObject:
    """Return a JSON Schema of the same meaning in which objects have `properties` and arrays have `items`.

    Both may be left out by the standard, and providers refuse the whole tool list for it (field case F124).
    """
    completed = dict(schema)
    if _is_a(schema, "object") and completed.get("properties") is None:
        completed["properties"] = {}
    if _is_a(schema, "array") and completed.get("items") is None and "prefixItems" not in completed:
        completed["items"] = {}
    for name in _SCHEMA_MAPS:
        if isinstance(inner := completed.get(name), dict):
            completed[name] = {key: _completed(value) for key, value in inner.items()}
    for name in _SCHEMA_LISTS:
        if isinstance(inner := completed.get(name), list):
            completed[name] = [_completed(value) for value in inner]
    for name in _SCHEMAS:
        if name in completed:
            completed[name] = _completed(completed[name])
    return completed


def _completed(schema: Any) -> Any:
    return complete_schema(schema) if isinstance(schema, dict) else schema


def _is_a(schema: JsonObject, name: str) -> bool:
    declared = schema.get("type")
    return declared == name or (isinstance(declared, list) and name in declared)
