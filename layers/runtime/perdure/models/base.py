"""The model client protocol: one request, streamed deltas, one response, exactly one provider call (spec CLIENT-01)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from perdure.core.history import HistoryItem
from perdure.core.usage import NO_USAGE, CallUsage
from perdure.models.settings import ModelSettings

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A tool as a model is offered it: never executed by a client."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class FileData:
    """What stands behind a file's reference, for one request. Exactly one of `data`, `text` and `url` is set.

    Attributes:
        media_type: Such as `image/png`.
        url: Where the provider fetches it itself; whoever sees the request can read the file.
        tokens: What it costs in the prompt, when the application knows. None: it does not.
    """

    media_type: str
    data: bytes | None = None
    text: str | None = None
    url: str | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.data, self.text, self.url)) != 1:
            raise ValueError("a file has exactly one of data, text and url")


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedFile:
    """A file that a model made. Exactly one of `data` and `url` is set; the address may stop working soon."""

    media_type: str
    data: bytes | None = None
    url: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What one provider call is asked.

    Attributes:
        messages: The conversation; every call in it has exactly one result directly behind its message.
        tools: Empty: the model must answer.
        settings: What the client puts into the words of its wire.
        files: What stands behind each file of a user's message, by its reference; there is one for every file.
        deadline: The call must be over by then. None: no limit.
    """

    messages: tuple[HistoryItem, ...]
    instructions: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    settings: ModelSettings = field(default_factory=ModelSettings)
    files: Mapping[str, FileData] = field(default_factory=dict)
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer's text; never empty, valid Unicode.

    `part`: of a provider that sends its answer in parts, which one. Another number begins another segment.
    """

    text: str
    part: int = 0


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """The next piece of the model's reasoning; never empty, valid Unicode. `part`: as of `TextDelta`."""

    text: str
    part: int = 0


@dataclass(frozen=True, slots=True)
class ToolArgumentsDelta:
    """The next piece of a call's arguments while the model still writes them: a draft, to be shown and never kept.

    Attributes:
        index: Which call, from 0, in the order in which they began.
        text: Raw JSON text, valid Unicode; empty when only the name has become known.
        tool_name: Once, as soon as it is known.
    """

    index: int
    text: str
    tool_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelToolCall:
    """A call as the provider sent it.

    Attributes:
        arguments_text: Raw; empty means no arguments.
        provider_executed: The provider runs it itself (spec TOOL-19).
        output: Its result, if the provider has run it already. None: trusted code brings it (`bring_result`).
        dynamic: The agent did not offer it.
        metadata: What the provider says of it; shown beside the call, never sent back.
    """

    tool_name: str
    arguments_text: str = ""
    provider_call_id: str | None = None
    provider_executed: bool = False
    output: str | None = None
    dynamic: bool = False
    metadata: JsonObject | None = None


Finish = Literal["stop", "length", "content_filter", "refusal"]
"""How the provider ended: whether tools are wanted is told by `tool_calls` alone (field case F011)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """A provider call that came to its end.

    Attributes:
        text: Equals the text deltas joined.
        provider_item: What this provider wants to see again unchanged; opaque JSON.
        files: What the model made beside text; the agent's `store_file` keeps them.
        metadata: Requested and effective model, response id, finish reason: for traces, never stored.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ModelToolCall, ...] = ()
    finish: Finish = "stop"
    usage: CallUsage = NO_USAGE
    provider_item: JsonObject | None = None
    files: tuple[GeneratedFile, ...] = ()
    metadata: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamActivity:
    """The provider sent something that shows nothing, such as a keep-alive.

    Only the inactivity timeout looks at it (spec MODEL-17).
    """


Delta = TextDelta | ReasoningDelta | ToolArgumentsDelta
"""What a stream shows before its response."""

StreamItem = Delta | StreamActivity | ModelResponse


class ModelClient(Protocol):
    """Talks to one model of one provider. Built by the deployment, shared by all sessions, safe for concurrent use.

    A client may tell more of itself: `credential_version() -> str | None`, `reasoning_levels: Sequence[str]` and
    `context_window: int | None`. `perdure.models.capabilities` says what they mean, and what it means to have none.
    """

    @property
    def provider(self) -> str:
        """Whose wire format and opaque items this client speaks, such as `openai-chat`."""
        ...

    @property
    def model(self) -> str:
        """The model's name at that provider."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Make exactly one provider call: deltas as they come, then one `ModelResponse` as the last item.

        Closing the iterator early aborts the call.

        Raises:
            ModelCallError: There is no usable answer; its `kind` and `retryable` say why.
        """
        ...
