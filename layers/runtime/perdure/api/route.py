"""What a route is: where it listens, what it takes and answers, and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel

from perdure.api.messages import ApiRequest, ApiResponse, JsonObject, TicketIssuer
from perdure.api.reading import QueryParam

if TYPE_CHECKING:
    from perdure.service import Caller, Service

SESSION = "/v1/sessions/{session_id}"
COMMAND_ERRORS = (404, 409, 413, 415, 429)
"""Statuses that a command on a session may answer besides those of every route."""

BodyT = TypeVar("BodyT", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One checked request on its way to the service."""

    service: Service
    caller: Caller
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: BaseModel | None = None
    idempotency_key: str | None = None
    tickets: TicketIssuer | None = None

    @property
    def session_id(self) -> str:
        return self.path["session_id"]

    def body_as(self, model: type[BodyT]) -> BodyT:
        """Return the body, which the dispatcher has read as the route's model."""
        assert isinstance(self.body, model)
        return self.body


Operation = Callable[[Call], Awaitable[JsonObject]]
Streaming = Callable[[Call, ApiRequest], Awaitable[ApiResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route.

    Attributes:
        path: Template with `{names}`; each stands for one path segment.
        operation: Its name: the OpenAPI operation id.
        run: What it does. None: the dispatcher answers it itself, without a caller, unless it has a `stream`.
        stream: What it does in place of `run`, when it answers by a stream. Whatever is wrong is raised before.
        or_reply: What it answers as well, if a query parameter says so.
        may_be_empty: It may answer 204.
        streams: It also answers `Accept: text/event-stream`, where the host can stream.
        signed: Whoever has the secret may call it: the dispatcher checks the signature, and there is no caller.
        needs_tickets: It exists only where the host issues tickets.
        keyed: An `Idempotency-Key` makes a repeat harmless.
        errors: Statuses that it may answer besides those of every route.
    """

    method: str
    path: str
    operation: str
    doc: str
    reply: type[BaseModel] | None
    run: Operation | None = None
    stream: Streaming | None = None
    body: type[BaseModel] | None = None
    query: tuple[QueryParam, ...] = ()
    status: int = 200
    or_reply: type[BaseModel] | None = None
    may_be_empty: bool = False
    streams: bool = False
    needs_tickets: bool = False
    signed: bool = False
    keyed: bool = False
    errors: tuple[int, ...] = ()
    segments: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", tuple(self.path.split("/")))

    @property
    def public(self) -> bool:
        """Whether it needs no caller."""
        return self.run is None and self.stream is None and not self.signed

    def match(self, segments: tuple[str, ...]) -> dict[str, str] | None:
        """Return the path parameters when a path, cut at its slashes, is this route's."""
        if len(segments) != len(self.segments):
            return None
        found: dict[str, str] = {}
        for pattern, segment in zip(self.segments, segments, strict=True):
            if pattern.startswith("{"):
                found[pattern[1:-1]] = unquote(segment)
            elif pattern != segment:
                return None
        return found
