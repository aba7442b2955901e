"""Every route, declared once. Hosts, the dispatcher and the OpenAPI document all read this table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel

from perdure.api import shapes
from perdure.api.bodies import InputBody, InterruptBody, StopBody
from perdure.api.messages import JsonObject, TicketIssuer
from perdure.api.reading import QueryParam
from perdure.errors import NotFoundError

if TYPE_CHECKING:
    from perdure.service import Caller, Service

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route.

    Attributes:
        path: Template with `{names}`; each stands for one path segment.
        operation: Its name: the OpenAPI operation id.
        run: What it does. None: the dispatcher answers it itself, without a caller.
        streams: It also answers `Accept: text/event-stream`, where the host can stream.
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
    body: type[BaseModel] | None = None
    query: tuple[QueryParam, ...] = ()
    status: int = 200
    streams: bool = False
    needs_tickets: bool = False
    keyed: bool = False
    errors: tuple[int, ...] = ()
    segments: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", tuple(self.path.split("/")))

    @property
    def public(self) -> bool:
        """Whether it needs no caller."""
        return self.run is None

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


async def _send_input(call: Call) -> JsonObject:
    body = call.body_as(InputBody)
    return await call.service.send_input(
        call.caller,
        call.session_id,
        text=body.text,
        message_id=body.message_id,
        agent=body.agent,
        delivery=body.delivery or "queue",
        metadata=body.metadata,
        files=[file.model_dump(exclude_none=True) for file in body.files or ()],
        idempotency_key=call.idempotency_key,
    )


async def _snapshot(call: Call) -> JsonObject:
    return await call.service.snapshot(call.caller, call.session_id)


async def _messages(call: Call) -> JsonObject:
    return await call.service.messages(call.caller, call.session_id, **call.query)


async def _events(call: Call) -> JsonObject:
    return await call.service.events(call.caller, call.session_id, **call.query)


async def _resolve_interrupt(call: Call) -> JsonObject:
    body = call.body_as(InterruptBody)
    return await call.service.resolve_interrupt(
        call.caller,
        call.session_id,
        call.path["interrupt_id"],
        approved=body.approved,
        answer=body.answer,
        message=body.message,
        arguments_hash=body.arguments_hash,
        idempotency_key=call.idempotency_key,
    )


async def _stop(call: Call) -> JsonObject:
    body = call.body_as(StopBody)
    return await call.service.stop(
        call.caller,
        call.session_id,
        turn_id=body.turn_id,
        disposition="keep" if body.disposition is None else body.disposition,
        idempotency_key=call.idempotency_key,
    )


async def _inbox(call: Call) -> JsonObject:
    return await call.service.inbox(call.caller, call.session_id)


async def _list_sessions(call: Call) -> JsonObject:
    return await call.service.list_sessions(call.caller, **call.query)


async def _socket_ticket(call: Call) -> JsonObject:
    assert call.tickets is not None
    return await call.tickets(call.caller)


def _limit(most: int, default: int) -> QueryParam:
    return QueryParam(
        name="limit", kind="integer", doc=f"At most this many, 1 to {most}, clamped; {default} if absent."
    )


SESSION = "/v1/sessions/{session_id}"

ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path=f"{SESSION}/inputs",
        operation="send_input",
        doc="Accept a user's message: it starts a turn, or waits for its own.",
        run=_send_input,
        body=InputBody,
        reply=shapes.Receipt,
        status=202,
        keyed=True,
        errors=(404, 409, 413, 415, 429),
    ),
    Route(
        method="GET",
        path=SESSION,
        operation="get_session",
        doc="The session now. One that was never written has `state: null`.",
        run=_snapshot,
        reply=shapes.Snapshot,
        errors=(404,),
    ),
    Route(
        method="GET",
        path=f"{SESSION}/messages",
        operation="list_messages",
        doc="A page of the transcript, oldest first within the page.",
        run=_messages,
        query=(
            QueryParam(name="before", kind="cursor", doc="A message's sequence, or a `next_before`."),
            _limit(200, 50),
        ),
        reply=shapes.MessagePage,
        errors=(404,),
    ),
    Route(
        method="GET",
        path=f"{SESSION}/events",
        operation="list_events",
        doc="Events after a cursor; with `Accept: text/event-stream` a stream that never ends, `id` = cursor.",
        run=_events,
        query=(
            QueryParam(name="after", kind="cursor", doc="A cursor; absent: the oldest event that is kept."),
            _limit(500, 500),
            QueryParam(name="wait_seconds", kind="seconds", doc="Wait this long for an event; 0 if absent."),
        ),
        reply=shapes.EventPage,
        streams=True,
        errors=(404,),
    ),
    Route(
        method="POST",
        path=f"{SESSION}/interrupts/{{interrupt_id}}",
        operation="resolve_interrupt",
        doc="Record a person's decision on something that waits for it.",
        run=_resolve_interrupt,
        body=InterruptBody,
        reply=shapes.Resolution,
        keyed=True,
        errors=(404, 409, 413, 415, 429),
    ),
    Route(
        method="POST",
        path=f"{SESSION}/stop",
        operation="stop",
        doc="Stop a turn. Closing a connection never does.",
        run=_stop,
        body=StopBody,
        reply=shapes.StopResult,
        keyed=True,
        errors=(404, 409, 413, 415, 429),
    ),
    Route(
        method="GET",
        path=f"{SESSION}/inbox",
        operation="get_inbox",
        doc="Messages that wait for their turn.",
        run=_inbox,
        reply=shapes.Inbox,
        errors=(404,),
    ),
    Route(
        method="GET",
        path="/v1/sessions",
        operation="list_sessions",
        doc="Your sessions, newest activity first.",
        run=_list_sessions,
        query=(QueryParam(name="cursor", kind="cursor", doc="A `next_cursor`."), _limit(200, 50)),
        reply=shapes.SessionPage,
    ),
    Route(
        method="POST",
        path="/v1/socket-tickets",
        operation="create_socket_ticket",
        doc="A ticket for the WebSocket: 60 seconds, one use.",
        run=_socket_ticket,
        reply=shapes.SocketTicket,
        needs_tickets=True,
    ),
    Route(
        method="GET",
        path="/openapi.json",
        operation="get_openapi",
        doc="This document.",
        reply=None,
    ),
    Route(
        method="GET",
        path="/healthz",
        operation="get_health",
        doc="Whether the API answers.",
        reply=shapes.Health,
    ),
)


def find_route(method: str, path: str, *, tickets: bool) -> tuple[Route, dict[str, str]]:
    """Return the route of a request and its path parameters, decoded.

    A path is cut at its slashes before it is decoded, so an encoded slash stays part of its segment.

    Raises:
        NotFoundError: `not_found`: there is no such route here.
    """
    segments = tuple(path.split("/"))
    for route in ROUTES:
        if route.method != method or (route.needs_tickets and not tickets):
            continue
        if (found := route.match(segments)) is not None:
            return route, found
    raise NotFoundError(
        f"there is no route {method[:20]} {path[:200]}: GET /openapi.json lists all of them", code="not_found"
    )
