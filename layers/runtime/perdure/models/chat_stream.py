"""A chat-completions answer, put together from the data of its events.

Pure: text in, deltas and one response out. The answer is complete once a finish reason or `[DONE]` was seen; a stream
that ends without either was cut, however politely its connection closed (field case F001).
"""

from __future__ import annotations

import json
from typing import Any

from perdure.core.usage import NO_USAGE, CallUsage, whole_number
from perdure.models.base import (
    Delta,
    Finish,
    GeneratedFile,
    ModelResponse,
    ModelToolCall,
    ReasoningDelta,
    TextDelta,
    ToolArgumentsDelta,
)
from perdure.models.chat_calls import CallAssembler
from perdure.models.chat_files import generated_files
from perdure.models.chat_request import replay_item
from perdure.models.failures import malformed, provider_error, stream_error
from perdure.models.surrogates import SurrogateJoiner, mended

JsonObject = dict[str, Any]

DONE = "[DONE]"

_FINISHES: dict[str, Finish] = {
    "content_filter": "content_filter",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "refusal": "refusal",
}
"""Everything else is `stop`: compatible servers have many words for it, and calls are told by the calls (F011)."""

_BROKEN_OFF = frozenset({"abort", "error", "insufficient_system_resource"})
"""Finish reasons that compatible servers give when they could not finish."""


class ChatStream:
    """One answer as far as it has arrived."""

    def __init__(self, requested_model: str) -> None:
        self._finished = False
        self._ended = False
        self._finish: Finish = "stop"
        self._refused = False
        self._segments: dict[type[TextDelta | ReasoningDelta], _Segment] = {
            ReasoningDelta: _Segment(),
            TextDelta: _Segment(),
        }
        self._calls = CallAssembler()
        self._drafts: list[_Draft] = []
        self._files: list[GeneratedFile] = []
        self._usage = NO_USAGE
        self._metadata: JsonObject = {"requested_model": requested_model}

    @property
    def complete(self) -> bool:
        """Whether a finish reason or `[DONE]` was seen."""
        return self._finished or self._ended

    @property
    def ended(self) -> bool:
        """Whether `[DONE]` was seen; what comes behind it is not looked at."""
        return self._ended

    @property
    def text(self) -> str:
        """The text that was given out so far."""
        return self._segments[TextDelta].text

    def feed(self, data: str) -> list[Delta]:
        """Take the data of one event, or a whole answer without streaming, and return what it adds.

        Raises:
            ModelCallError: It is an error object, or not what the protocol says.
        """
        self._ended = self._ended or data.strip() == DONE
        if self._ended or not data.strip():  # empty data is a keep-alive of some servers
            return []
        try:
            return self._chunk(_object(json.loads(data)))
        except (ValueError, RecursionError) as error:
            raise malformed("the stream holds an event that is no chat completion", partial_text=self.text) from error

    def finish(self) -> list[Delta]:
        """Return what is left to show of the text at the end: a replacement for half a character."""
        left = [(kind, segment.finish()) for kind, segment in self._segments.items()]
        return [kind(text) for kind, text in left if text]

    def response(self) -> ModelResponse:
        """Return the whole answer.

        Raises:
            ModelCallError: It was cut, or holds a call without a name.
        """
        if not self.complete:
            raise malformed("the stream ended with neither a finish reason nor [DONE]", partial_text=self.text)
        finish: Finish = "refusal" if self._refused else self._finish
        calls = [call for call in self._calls.calls if call.name]
        if len(calls) < len(self._calls.calls) and finish == "stop":
            raise malformed("the answer holds a tool call without a name", partial_text=self.text)
        return ModelResponse(
            text=self.text,
            reasoning=self._segments[ReasoningDelta].text,
            tool_calls=tuple(
                ModelToolCall(
                    tool_name=mended(call.name),
                    arguments_text=mended(call.arguments_text),
                    provider_call_id=mended(call.id) or None,
                )
                for call in calls
            ),
            finish=finish,
            usage=self._usage,
            files=tuple(self._files),
            provider_item=replay_item([call.extra for call in calls]),
            metadata=self._metadata,
        )

    def _chunk(self, chunk: JsonObject) -> list[Delta]:
        if chunk.get("error") is not None:
            raise stream_error(provider_error(chunk), partial_text=self.text)
        for name, key in (("model", "model"), ("response_id", "id")):
            if isinstance(chunk.get(key), str):
                self._metadata[name] = chunk[key]
        if isinstance(chunk.get("usage"), dict):
            self._usage = chat_usage(chunk["usage"])
        deltas: list[Delta] = []
        for choice in _objects(chunk.get("choices")):
            if choice.get("index") in (0, None):  # one answer was asked for
                deltas += self._choice(choice)
        return deltas

    def _choice(self, choice: JsonObject) -> list[Delta]:
        whole = choice.get("delta") is None
        delta = _object(choice.get("message" if whole else "delta") or {})
        # Two names are in use for reasoning, and some servers send the same text under both.
        reasoning = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
        pieces: list[tuple[type[TextDelta | ReasoningDelta], str]] = [
            (ReasoningDelta, reasoning),
            (TextDelta, _text(delta.get("content"))),
        ]
        if refusal := _text(delta.get("refusal")):
            self._refused = True
            pieces.append((TextDelta, refusal))
        self._files += generated_files(_objects(delta.get("images")))
        added = self._calls.add(_objects(delta.get("tool_calls")), whole=whole)
        self._take_finish(choice.get("finish_reason"))
        shown = ((kind, self._segments[kind].feed(piece)) for kind, piece in pieces if piece)
        return [*(kind(text) for kind, text in shown if text), *self._drafted(added)]

    def _drafted(self, added: list[tuple[int, str]]) -> list[Delta]:
        deltas: list[Delta] = []
        for index, piece in added:
            while len(self._drafts) <= index:
                self._drafts.append(_Draft())
            draft, name = self._drafts[index], self._calls.calls[index].name
            text, is_new = draft.joiner.feed(piece), bool(name) and not draft.named
            draft.named = draft.named or is_new
            if text or is_new:
                deltas.append(ToolArgumentsDelta(index, text, mended(name) if is_new else None))
        return deltas

    def _take_finish(self, reason: object) -> None:
        if not isinstance(reason, str) or not reason:  # some servers send "" with every chunk
            return
        if reason.lower() in _BROKEN_OFF:
            raise malformed("the provider broke its answer off", partial_text=self.text)
        self._finished = True
        if self._finish == "stop":  # a later `stop` does not take back that the answer is cut or filtered
            self._finish = _FINISHES.get(reason.lower(), "stop")
            self._metadata["finish_reason"] = mended(reason)


class _Draft:
    """What was shown of a call: whether its name was, and half a character that was not."""

    def __init__(self) -> None:
        self.joiner = SurrogateJoiner()
        self.named = False


class _Segment:
    """Text of one kind: what was given out is what is kept."""

    def __init__(self) -> None:
        self._joiner = SurrogateJoiner()
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def feed(self, piece: str) -> str:
        return self._kept(self._joiner.feed(piece))

    def finish(self) -> str:
        return self._kept(self._joiner.finish())

    def _kept(self, text: str) -> str:
        self._pieces.append(text)
        return text


def chat_usage(usage: JsonObject) -> CallUsage:
    """Return a usage object's figures; what is absent or null stays unknown, and a zero is a zero (F015, CLIENT-11).

    A cost is left out: the servers that report one name no currency.
    """
    prompt = usage.get("prompt_tokens_details")
    completion = usage.get("completion_tokens_details")
    return CallUsage(
        input_tokens=whole_number(usage.get("prompt_tokens")),
        output_tokens=whole_number(usage.get("completion_tokens")),
        cached_input_tokens=whole_number(prompt.get("cached_tokens")) if isinstance(prompt, dict) else None,
        reasoning_tokens=whole_number(completion.get("reasoning_tokens")) if isinstance(completion, dict) else None,
    )


def _object(value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {type(value).__name__}")  # noqa: TRY004 - one class for bad data
    return value


def _objects(value: object) -> list[JsonObject]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"expected a list, got {type(value).__name__}")  # noqa: TRY004 - one class for bad data
    return [_object(element) for element in value]


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {type(value).__name__}")  # noqa: TRY004 - one class for bad data
    return value
