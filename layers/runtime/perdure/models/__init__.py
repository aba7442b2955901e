"""Model clients: the protocol, the providers, and a scripted model for tests and demos.

Names are loaded when they are used, so importing this package loads no HTTP library (spec CLIENT-09).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.models.base import (
        FileData,
        GeneratedFile,
        ModelClient,
        ModelRequest,
        ModelResponse,
        ModelToolCall,
        ReasoningDelta,
        StreamActivity,
        StreamItem,
        TextDelta,
        ToolArgumentsDelta,
        ToolDefinition,
    )
    from perdure.models.openai_chat import OpenAIChatModel
    from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts
    from perdure.models.settings import ModelSettings

__all__ = [
    "FileData",
    "GeneratedFile",
    "ModelClient",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "ModelToolCall",
    "OpenAIChatModel",
    "ReasoningDelta",
    "Reply",
    "ScriptedModel",
    "StreamActivity",
    "StreamItem",
    "TextDelta",
    "ToolArgumentsDelta",
    "ToolDefinition",
    "call",
    "tool_results",
    "user_texts",
]

_HOMES = {
    "ModelSettings": "settings",
    "OpenAIChatModel": "openai_chat",
    "Reply": "scripted",
    "ScriptedModel": "scripted",
    "call": "scripted",
    "tool_results": "scripted",
    "user_texts": "scripted",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'base')}"), name)
