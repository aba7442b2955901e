"""Every route, declared once. Hosts, the dispatcher and the OpenAPI document all read this table."""

from __future__ import annotations

from perdure.api import agent_shapes, event_shapes, result_shapes, shapes, turn_shapes
from perdure.api.ag_ui_routes import AG_UI_ROUTES
from perdure.api.bodies import EventBody, InputBody, InterruptBody
from perdure.api.chat_routes import CHAT_ROUTES, UI_QUERY, UiPage, ui_messages
from perdure.api.control_routes import CONTROL_ROUTES
from perdure.api.messages import JsonObject
from perdure.api.reading import QueryParam
from perdure.api.route import COMMAND_ERRORS, SESSION, Call, Route
from perdure.api.schedule_routes import SCHEDULE_ROUTES
from perdure.api.wait_routes import WAIT_ROUTES
from perdure.core.listing import STATUSES, WAITING_FOR
from perdure.core.outputs import MOST_OUTPUT_CHARACTERS, OUTPUT_CHARACTERS
from perdure.errors import InvalidRequestError, NotFoundError


async def _send_input(call: Call) -> JsonObject:
    body = call.body_as(InputBody)
    return await call.service.send_input(
        call.caller,
        call.session_id,
        text=body.text,
        message_id=body.message_id,
        agent=body.agent,
        delivery=body.delivery,
        settings=body.settings,
        run_settings=body.run_settings,
        metadata=body.metadata,
        files=[file.model_dump(exclude_none=True) for file in body.files or ()],
        idempotency_key=call.idempotency_key,
    )


async def _snapshot(call: Call) -> JsonObject:
    if call.query:
        return await ui_messages(call)
    return await call.service.snapshot(call.caller, call.session_id)


async def _messages(call: Call) -> JsonObject:
    return await call.service.messages(call.caller, call.session_id, **call.query)


async def _turn(call: Call) -> JsonObject:
    return await call.service.turn(call.caller, call.session_id, call.path["turn_id"])


async def _events(call: Call) -> JsonObject:
    query = dict(call.query)
    if query.pop("snapshot", "false") == "true":
        raise InvalidRequestError(
            "`snapshot` goes with a stream: ask for `Accept: text/event-stream`, or GET the session"
        )
    return await call.service.events(call.caller, call.session_id, **query)


async def _tool_output(call: Call) -> JsonObject:
    return await call.service.tool_output(call.caller, call.session_id, call.path["call_id"], **call.query)


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
        arguments=body.arguments,
        grant=body.grant.model_dump(exclude_none=True) if body.grant is not None else None,
        value=body.value,
        idempotency_key=call.idempotency_key,
    )


async def _list_sessions(call: Call) -> JsonObject:
    return await call.service.list_sessions(call.caller, **call.query)


async def _agents(call: Call) -> JsonObject:
    return call.service.agents()


async def _socket_ticket(call: Call) -> JsonObject:
    assert call.tickets is not None
    return await call.tickets(call.caller)


def _limit(most: int, default: int) -> QueryParam:
    return QueryParam(
        name="limit", kind="integer", doc=f"At most this many, 1 to {most}, clamped; {default} if absent."
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path=f"{SESSION}/inputs",
        operation="send_input",
        doc="Accept a user's message: it starts a turn, joins or stops the running one, or waits for its own.",
        run=_send_input,
        body=InputBody,
        reply=shapes.Receipt,
        status=202,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="GET",
        path=SESSION,
        operation="get_session",
        doc="The session now. One that was never written has `state: null`. With `format=ui`: its UI messages.",
        run=_snapshot,
        query=UI_QUERY,
        reply=shapes.Snapshot,
        or_reply=UiPage,
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
        path=f"{SESSION}/turns/{{turn_id}}",
        operation="get_turn",
        doc="One turn by itself: how it went, what it answered and what it used.",
        run=_turn,
        reply=turn_shapes.TurnView,
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
            QueryParam(
                name="snapshot",
                kind="choice",
                choices=("true", "false"),
                doc="`true`: a stream without a cursor begins with a `snapshot` event and goes on behind it.",
            ),
        ),
        reply=event_shapes.EventPage,
        streams=True,
        errors=(404,),
    ),
    Route(
        method="GET",
        path=f"{SESSION}/tool-calls/{{call_id}}/output",
        operation="get_tool_output",
        doc="A piece of what a finished tool call put out, whole where messages and the snapshot show its head only.",
        run=_tool_output,
        query=(
            QueryParam(name="offset", kind="integer", doc="Where to begin, in characters; 0 if absent."),
            _limit(MOST_OUTPUT_CHARACTERS, OUTPUT_CHARACTERS),
        ),
        reply=result_shapes.ToolOutput,
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path=f"{SESSION}/interrupts/{{interrupt_id}}",
        operation="resolve_interrupt",
        doc="Record a person's decision on something that waits for it: approve, reject, answer or decline.",
        run=_resolve_interrupt,
        body=InterruptBody,
        reply=result_shapes.Resolution,
        keyed=True,
        errors=COMMAND_ERRORS,
    ),
    *CONTROL_ROUTES,
    *WAIT_ROUTES,
    *SCHEDULE_ROUTES,
    *AG_UI_ROUTES,
    *CHAT_ROUTES,
    Route(
        method="GET",
        path="/v1/sessions",
        operation="list_sessions",
        doc="Your sessions, newest activity first. A search looks at 500 of them; `next_cursor` goes on behind those.",
        run=_list_sessions,
        query=(
            QueryParam(name="cursor", kind="cursor", doc="A `next_cursor`."),
            _limit(200, 50),
            QueryParam(name="query", kind="text", doc="A text in the id, title or preview, in any case."),
            QueryParam(name="waiting_for", kind="choice", doc="What it waits for.", choices=WAITING_FOR),
            QueryParam(name="status", kind="choice", doc="What it does; `active`: a turn is open.", choices=STATUSES),
            QueryParam(name="agent", kind="text", doc="The name of its agent."),
        ),
        reply=shapes.SessionPage,
    ),
    Route(
        method="GET",
        path="/v1/agents",
        operation="list_agents",
        doc="The agents of this deployment, and the models that a session of theirs may be set to.",
        run=_agents,
        reply=agent_shapes.Agents,
    ),
    Route(
        method="POST",
        path="/v1/hooks/{name}",
        operation="receive_hook",
        doc="Take a signed event of another system (Standard Webhooks); sent again, it is a duplicate.",
        body=EventBody,
        reply=result_shapes.HookReceipt,
        status=202,
        signed=True,
        errors=(404, 409, 413, 415),
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
