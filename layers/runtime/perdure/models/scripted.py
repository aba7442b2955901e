"""A model that answers from a function of the request: for tests, and for demos without a key.

Deterministic: the same request gives the same items, as long as the function does (spec TEST-01, CLIENT-10).
"""

from __future__ import annotations

import inspect
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from perdure.core import texts
from perdure.core.history import HistoryItem, ToolResultItem, UserItem
from perdure.core.usage import NO_USAGE, CallUsage
from perdure.errors import ModelCallError
from perdure.models.base import (
    Finish,
    GeneratedFile,
    ModelRequest,
    ModelResponse,
    ModelToolCall,
    ReasoningDelta,
    StreamItem,
    TextDelta,
    ToolArgumentsDelta,
)
from perdure.models.clock import SystemClock
from perdure.models.surrogates import mended

if TYPE_CHECKING:
    from perdure.ports import Clock

KEPT_REQUESTS = 100
"""How many of the latest requests are kept (spec TEST-01)."""

_RETRIED = "[turn_retried]"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a script lets the model say."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ModelToolCall, ...] = ()
    finish: Finish = "stop"
    usage: CallUsage = NO_USAGE
    files: tuple[GeneratedFile, ...] = ()


Script = Callable[[ModelRequest], "str | Reply | ModelResponse | Awaitable[str | Reply | ModelResponse]"]
"""A function, sync or async, of the request. It may raise `ModelCallError`."""


def call(name: str, **arguments: Any) -> ModelToolCall:
    """Return a tool call for a `Reply`. It has no id of a provider, so the runtime's own is used."""
    return ModelToolCall(tool_name=name, arguments_text=json.dumps(arguments, ensure_ascii=False))


def user_texts(request: ModelRequest) -> tuple[str, ...]:
    """Return what users wrote, oldest first, without the runtime's own notes."""
    return tuple(item.text for item in request.messages if _is_user_message(item) and isinstance(item, UserItem))


def tool_results(request: ModelRequest) -> tuple[ToolResultItem, ...]:
    """Return the results of the running turn: those behind the user's last message, in order."""
    last = max((place for place, item in enumerate(request.messages) if _is_user_message(item)), default=-1)
    return tuple(item for item in request.messages[last + 1 :] if isinstance(item, ToolResultItem))


def _is_user_message(item: HistoryItem) -> bool:
    return isinstance(item, UserItem) and not item.text.startswith((texts.NOTE, _RETRIED))


class ScriptedModel:
    """A `ModelClient` whose answers come from a function.

    Args:
        reply: Returns text, a `Reply` or a whole `ModelResponse` for a request. When it raises a `ModelCallError`,
            the error's `partial_text` is streamed first, as a provider would have done before it failed.
        chunk: Characters of one delta, 1 or more. The default gives an ordinary sentence several deltas.
        delay: Wait before each delta, through the clock.
        stream_arguments: Show the arguments of calls piece by piece, too, as most providers do.
        clock: Default: the system's.
        model, provider: The names to go by.

    Raises:
        ValueError: `chunk` is below 1.
    """

    def __init__(
        self,
        reply: Script,
        *,
        chunk: int = 12,
        delay: timedelta = timedelta(0),
        stream_arguments: bool = False,
        clock: Clock | None = None,
        model: str = "scripted",
        provider: str = "scripted",
    ) -> None:
        if chunk < 1:
            raise ValueError(f"chunk must be 1 or more, not {chunk}")
        self._reply = reply
        self._chunk = chunk
        self._delay = delay.total_seconds()
        self._stream_arguments = stream_arguments
        self._clock: Clock = clock or SystemClock()
        self._requests: deque[ModelRequest] = deque(maxlen=KEPT_REQUESTS)
        self.model = model
        self.provider = provider

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """The latest requests, oldest first; at most `KEPT_REQUESTS`."""
        return tuple(self._requests)

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Answer one request, as `ModelClient.stream` says. Other errors than `ModelCallError` are the script's."""
        self._requests.append(request)
        try:
            said = self._reply(request)
            response = _response(await said if inspect.isawaitable(said) else said)
        except ModelCallError as error:
            async for delta in self._deltas("", mended(error.partial_text)):
                yield delta
            raise
        calls = response.tool_calls if self._stream_arguments else ()
        async for delta in self._deltas(response.reasoning, response.text, calls):
            yield delta
        yield response

    async def _deltas(
        self, reasoning: str, text: str, calls: tuple[ModelToolCall, ...] = ()
    ) -> AsyncIterator[StreamItem]:
        shown: list[StreamItem] = [ReasoningDelta(piece) for piece in self._pieces(reasoning)]
        shown += [TextDelta(piece) for piece in self._pieces(text)]
        for index, call in enumerate(calls):
            shown.append(ToolArgumentsDelta(index, "", mended(call.tool_name)))
            shown += [ToolArgumentsDelta(index, piece) for piece in self._pieces(mended(call.arguments_text))]
        for delta in shown:
            if self._delay:
                await self._clock.sleep(self._delay)
            yield delta

    def _pieces(self, text: str) -> Iterator[str]:
        return (text[start : start + self._chunk] for start in range(0, len(text), self._chunk))


def _response(said: str | Reply | ModelResponse) -> ModelResponse:
    if isinstance(said, ModelResponse):
        return said
    reply = Reply(said) if isinstance(said, str) else said
    if not isinstance(reply, Reply):
        raise TypeError(f"a script returns str, Reply or ModelResponse, not {type(reply).__name__}")
    return ModelResponse(
        text=mended(reply.text),
        reasoning=mended(reply.reasoning),
        tool_calls=tuple(reply.calls),
        finish=reply.finish,
        usage=reply.usage,
        files=reply.files,
    )
