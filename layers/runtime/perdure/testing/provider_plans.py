"""What a `FaultProvider` does with one request: answers, cuts, pauses, errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

JsonObject = dict[str, Any]

DEFAULT_USAGE: JsonObject = {
    "prompt_tokens": 20,
    "completion_tokens": 7,
    "total_tokens": 27,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 0},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A stream of events.

    Attributes:
        events: The data of each event, as text.
        usage: Sent behind them, before `[DONE]`, if the request opted in. None: this provider never tells.
        done: Whether `[DONE]` ends it.
        abrupt: The connection breaks at the end, instead of closing politely.
        pause_after: Events after which the server waits for `FaultProvider.release`; 0: before the first byte.
        delay_seconds: Real wait before each event. For trials by hand.
    """

    events: tuple[str, ...]
    usage: JsonObject | None = None
    done: bool = True
    abrupt: bool = False
    pause_after: int | None = None
    delay_seconds: float = 0.0

    def cut(self, after: int, *, abrupt: bool = False) -> Stream:
        """Return the same stream, ended after this many events with neither finish reason, usage nor `[DONE]`."""
        return replace(self, events=self.events[:after], usage=None, done=False, abrupt=abrupt)

    def paused(self, after: int = 0) -> Stream:
        """Return the same stream, which waits after this many events."""
        return replace(self, pause_after=after)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpError:
    """An answer that is none of success. `body` None: an error object of `code`."""

    status: int
    code: str | None = None
    message: str = "the provider stub was told to fail"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Hangup:
    """The connection is closed without an answer."""


Plan = Stream | HttpError | Hangup


def wants(name: str, arguments: JsonObject | str, call_id: str = "call_1") -> JsonObject:
    """Return a tool call for `answer`. Arguments given as text are sent as they are."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def answer(
    text: str = "",
    *,
    reasoning: str = "",
    calls: Sequence[JsonObject] = (),
    finish: str | None = None,
    usage: JsonObject | None = DEFAULT_USAGE,
    chunk: int = 8,
) -> Stream:
    """Return a well-formed stream.

    Args:
        calls: From `wants`; each arrives in two fragments by index.
        finish: Default: `tool_calls` with calls, else `stop`.
        usage: None: this provider never tells.
        chunk: Characters of one event.
    """
    deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in _pieces(reasoning, chunk)]
    deltas += [{"content": piece} for piece in _pieces(text, chunk)]
    for index, wanted in enumerate(calls):
        function = wanted["function"]
        half = len(function["arguments"]) // 2
        first = {"name": function["name"], "arguments": function["arguments"][:half]}
        deltas.append({"tool_calls": [{"index": index, "id": wanted["id"], "type": "function", "function": first}]})
        rest = {"arguments": function["arguments"][half:]}
        deltas.append({"tool_calls": [{"index": index, "function": rest}]})
    events = [_chunk(delta) for delta in deltas]
    events.append(_chunk({}, finish or ("tool_calls" if calls else "stop")))
    return Stream(events=tuple(events), usage=usage)


def events(*payloads: JsonObject | str, done: bool = False) -> Stream:
    """Return a stream of exactly these events; text is sent as it is, valid JSON or not."""
    return Stream(events=tuple(p if isinstance(p, str) else json.dumps(p) for p in payloads), done=done)


def usage_event(usage: JsonObject) -> str:
    """Return the event that tells the usage."""
    return json.dumps(_HEAD | {"choices": [], "usage": usage})


_HEAD: JsonObject = {"id": "chatcmpl-stub", "object": "chat.completion.chunk", "created": 0, "model": "stub-1"}


def _chunk(delta: JsonObject, finish: str | None = None) -> str:
    return json.dumps(_HEAD | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
