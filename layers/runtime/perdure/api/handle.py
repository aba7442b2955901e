"""One request in, one response out: find the route, check everything, call the service, tell of errors."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from perdure._version import __version__
from perdure.api import sse
from perdure.api.bodies import EmptyBody, EventBody
from perdure.api.failures import failure
from perdure.api.messages import ApiRequest, ApiResponse, JsonObject, TicketIssuer, json_response
from perdure.api.openapi import document
from perdure.api.reading import MAX_BODY_BYTES, read_body, read_query, require_json
from perdure.api.route import Call, Route
from perdure.api.routes import find_route
from perdure.errors import InvalidRequestError, TooLargeError, UnauthorizedError

if TYPE_CHECKING:
    from perdure.service import Caller, Service


async def handle(
    request: ApiRequest, service: Service, caller: Caller | None, *, tickets: TicketIssuer | None = None
) -> ApiResponse:
    """Answer one request. Never raises; a request that is refused has changed nothing.

    Args:
        caller: Who asks, as the host has verified it. None: nobody known, which only public routes accept.
        tickets: Issues WebSocket tickets; None: the route does not exist here.
    """
    try:
        route, path = find_route(request.method, request.path, tickets=tickets is not None)
        if route.signed:
            return json_response(route.status, await _hook(request, service, path["name"]))
        if route.public:
            return _public(route, request, tickets=tickets is not None)
        if caller is None:
            raise UnauthorizedError("who is calling? Send a valid token")
        call = _read(request, route, Call(service=service, caller=caller, path=path, query={}, tickets=tickets))
        if route.stream is not None:
            require_stream(request)
            return await route.stream(call, request)
        if route.streams and _wants_stream(request.headers):
            return await _stream(request, call)
        assert route.run is not None, "it is not public"
        reply = await _answer(request, route.run(call), call)
        return json_response(route.status, reply)
    except Exception as error:  # noqa: BLE001 - the edge: whatever went wrong becomes a response
        return failure(error)


def _public(route: Route, request: ApiRequest, *, tickets: bool) -> ApiResponse:
    if route.operation == "get_openapi":
        return json_response(200, document(tickets=tickets))
    places = {"stream_url": request.stream_url, "socket_url": request.socket_url}
    health = {"status": "ok", "version": __version__}
    return json_response(200, health | {name: url for name, url in places.items() if url})


async def _hook(request: ApiRequest, service: Service, name: str) -> JsonObject:
    """Take an event: first its signature, over the bytes as they came, then what it says."""
    if len(request.body) > MAX_BODY_BYTES:
        raise TooLargeError(f"the event is larger than {MAX_BODY_BYTES} bytes: send less")
    webhook, event_id = service.verify_hook(name, request.headers, request.body)
    require_json(request.headers)
    return await service.receive_hook(webhook, event_id, read_body(request.body, EventBody).root)


def _read(request: ApiRequest, route: Route, call: Call) -> Call:
    query = read_query(request.query, route.query)
    key = request.headers.get("idempotency-key") if route.keyed else None
    if route.body is None:
        return replace(call, query=query, idempotency_key=key)
    if not (route.body is EmptyBody and _sends_nothing(request)):
        require_json(request.headers)
    return replace(call, query=query, body=read_body(request.body, route.body), idempotency_key=key)


def _sends_nothing(request: ApiRequest) -> bool:
    return not request.body and not request.headers.get("content-type")


def _wants_stream(headers: Mapping[str, str]) -> bool:
    """Whether `Accept` names an event stream, and no JSON before it."""
    wanted = [item.split(";")[0].strip().lower() for item in headers.get("accept", "").split(",")]
    return next((w for w in wanted if w in (sse.MEDIA_TYPE, "application/json")), None) == sse.MEDIA_TYPE


def require_stream(request: ApiRequest, *, otherwise: str = "") -> None:
    """Refuse a request for a stream where the host can't send one.

    Args:
        otherwise: What else the client may do.

    Raises:
        InvalidRequestError: It says where streams are.
    """
    if request.can_stream:
        return
    where = f"open it at {request.stream_url}{request.path}" if request.stream_url else ""
    ways = [way for way in (where, otherwise) if way] or ["`/healthz` names the address that can"]
    raise InvalidRequestError(f"this address can't stream: {', or '.join(ways)}")


async def _stream(request: ApiRequest, call: Call) -> ApiResponse:
    require_stream(request, otherwise="ask for JSON here, with `wait_seconds` to wait for more")
    after = request.headers.get("last-event-id") or call.query.get("after")
    # The first page comes before the response begins, so that a bad cursor or session still gets its error.
    if after is None and call.query.get("snapshot") == "true":
        snapshot = await call.service.snapshot(call.caller, call.session_id)
        first = {"events": [sse.snapshot_event(snapshot)], "cursor": snapshot["cursor"]}
    else:
        first = await call.service.events(call.caller, call.session_id, after=after, limit=sse.PAGE)
    pieces = sse.stream(call.service, call.caller, call.session_id, first, closing=request.closing)
    return ApiResponse(status=200, headers=sse.HEADERS, stream=pieces)


async def _answer(request: ApiRequest, running: Awaitable[JsonObject], call: Call) -> JsonObject:
    """Wait for the service, but cut a long poll short when the host closes."""
    if request.closing is None or not call.query.get("wait_seconds"):
        return await running
    reply = await sse.unless_closing(running, request.closing)
    if reply is None:
        now = {name: value for name, value in call.query.items() if name != "snapshot"}
        return await call.service.events(call.caller, call.session_id, **(now | {"wait_seconds": 0}))
    return reply


__all__ = ["handle"]
