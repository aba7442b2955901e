"""What a viewer says over the WebSocket, and what it is answered: the same on AWS and in the development server.

Our own frames are `attach`, `detach`, `ping` and `command`; `send`, `resume` and `abort` are those of AI SDK's
`WebSocketChatTransport` (its client is the judge of their form).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from perdure.api.chat_routes import ChatBody
from perdure.api.handle import handle
from perdure.api.messages import ApiRequest, JsonObject
from perdure.api.reading import read_body
from perdure.api.routes import ROUTES
from perdure.errors import InvalidRequestError, PerdureError
from perdure.service import Caller, Service
from perdure.streams.chat import ChatAnswer
from perdure.streams.ui_requests import begin, resume

_SESSION_ID = r"^[A-Za-z0-9._:-]{1,128}$"

_REQUEST_ID = Field(min_length=1, max_length=256)

_COMMANDS = {
    route.operation: route for route in ROUTES if route.run is not None and not (route.needs_tickets or route.signed)
}


class _Frame(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Attach(_Frame):
    """Send me a session's events, from a cursor on, or its snapshot first."""

    type: Literal["attach"]
    session_id: str = Field(pattern=_SESSION_ID)
    after: str | None = None


class Detach(_Frame):
    """Send me no more of this session."""

    type: Literal["detach"]
    session_id: str = Field(pattern=_SESSION_ID)


class Ping(_Frame):
    """Are you there, and is there anything that I was not sent?"""

    type: Literal["ping"]


class SocketCommand(_Frame):
    """Carry out an operation of the HTTP API, by its name in the OpenAPI document."""

    type: Literal["command"]
    request_id: str = _REQUEST_ID
    operation: str
    session_id: str | None = Field(default=None, pattern=_SESSION_ID)
    path: dict[str, str] = {}
    query: dict[str, str | int | float] = {}
    body: dict[str, Any] | None = None
    idempotency_key: str | None = Field(default=None, max_length=256)


class ChatSend(_Frame):
    """AI SDK: send messages of a chat, and stream what is answered."""

    type: Literal["send"]
    request_id: str = Field(alias="requestId", min_length=1, max_length=256)
    id: str
    trigger: str = "submit-message"
    message_id: str | None = Field(default=None, alias="messageId")
    messages: list[dict[str, Any]]
    body: dict[str, Any] | None = None


class ChatResume(_Frame):
    """AI SDK: stream the answer that is being written, from its beginning."""

    type: Literal["resume"]
    request_id: str = Field(alias="requestId", min_length=1, max_length=256)
    id: str
    body: dict[str, Any] | None = None


class ChatAbort(_Frame):
    """AI SDK: stream no more for a request. The turn goes on."""

    type: Literal["abort"]
    request_id: str = Field(alias="requestId", min_length=1, max_length=256)


class ResumeOptions(_Frame):
    """What the `body` of a resuming frame may have."""

    resume_token: str | None = None
    exact: bool = False
    steps: int | None = None
    keep_open: bool = False


Frame = Annotated[
    Attach | Detach | Ping | SocketCommand | ChatSend | ChatResume | ChatAbort, Field(discriminator="type")
]

_FRAMES: TypeAdapter[Attach | Detach | Ping | SocketCommand | ChatSend | ChatResume | ChatAbort] = TypeAdapter(Frame)

PONG: JsonObject = {"type": "pong"}


def read_frame(text: Any) -> Attach | Detach | Ping | SocketCommand | ChatSend | ChatResume | ChatAbort:
    """Read a viewer's frame.

    Raises:
        InvalidRequestError: It is no frame that this version knows; the message says what is wrong with it.
    """
    try:
        return _FRAMES.validate_json(text or "")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise InvalidRequestError(
            f"this frame is not understood: {where + ': ' if where else ''}{first['msg']}; "
            "send JSON with a `type` that docs/concepts/streams.md describes"
        ) from None


def named_in(text: Any) -> JsonObject:
    """Return the request id or session id that a frame names, so that its sender knows what an error is of."""
    try:
        value = json.loads(text or "")
    except (TypeError, ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: value[name] for name in ("request_id", "requestId", "session_id") if isinstance(value.get(name), str)}


def error_frame(error: PerdureError, text: Any = None) -> JsonObject:
    """Return the answer to a frame that can't be carried out.

    AI SDK's client fails a request by its `errorText`.
    """
    named = named_in(text)
    shown: JsonObject = {"type": "error", **named, "code": error.code, "message": error.message}
    return shown | ({"errorText": error.message} if "requestId" in named else {})


async def chat_answer(frame: ChatSend | ChatResume, service: Service, caller: Caller) -> ChatAnswer | None:
    """Carry out what an AI SDK client sent, and return the answer that follows; None: there is nothing to resume.

    The `body` of a frame has the options of `POST /v1/chat`; a resuming one may have a `resume_token`, `exact` and
    `steps`, as that route's header and query.

    Raises:
        RequestError: It can't be carried out; nothing has changed.
    """
    more = frame.body or {}
    if isinstance(frame, ChatSend):
        sent = {"id": frame.id, "messages": frame.messages, "trigger": frame.trigger, "messageId": frame.message_id}
        body = read_body(json.dumps(more | {k: v for k, v in sent.items() if v is not None}).encode(), ChatBody)
        begun = await begin(service, caller, {name: value for name, value in body if value is not None})
    else:
        options = read_body(json.dumps(more).encode(), ResumeOptions)
        resumed = await resume(
            service,
            caller,
            frame.id,
            options.resume_token,
            exact=options.exact,
            steps=options.steps,
            keep_open=options.keep_open,
        )
        if resumed is None:
            return None
        begun = resumed
    return ChatAnswer(frame.request_id, begun.session_id, begun.cursor, begun.mapping, first=begun.first)


def no_active(frame: ChatResume | ChatSend) -> JsonObject:
    """Return what an AI SDK client hears when there is nothing to resume."""
    return {"type": "no-active", "requestId": frame.request_id}


async def acknowledged(command: SocketCommand, service: Service, caller: Caller) -> JsonObject:
    """Carry a command out as the HTTP API would, and return `{type: "ack", request_id, status, body}`.

    Raises:
        InvalidRequestError: There is no such operation, or a part of its path is missing.
    """
    route = _COMMANDS.get(command.operation)
    if route is None:
        raise InvalidRequestError(f"there is no operation {command.operation!r}: /openapi.json names them")
    response = await handle(
        ApiRequest(
            method=route.method,
            path=_path_of(route.path, command),
            query=urlencode(command.query),
            headers=_headers_of(command),
            body=json.dumps(command.body).encode() if command.body is not None else b"",
        ),
        service,
        caller,
    )
    return {
        "type": "ack",
        "request_id": command.request_id,
        "status": response.status,
        "body": json.loads(response.body),
    }


def _path_of(template: str, command: SocketCommand) -> str:
    values: Mapping[str, str | None] = {**command.path, "session_id": command.session_id}
    steps = []
    for step in template.split("/"):
        name = step[1:-1] if step.startswith("{") else None
        if name is not None and not values.get(name):
            where = "`session_id`" if name == "session_id" else f"`path.{name}`"
            raise InvalidRequestError(f"the operation {command.operation!r} needs {where}")
        steps.append(quote(str(values[name]), safe="") if name is not None else step)
    return "/".join(steps)


def _headers_of(command: SocketCommand) -> dict[str, str]:
    headers = {"content-type": "application/json"} if command.body is not None else {}
    if command.idempotency_key is not None:
        headers["idempotency-key"] = command.idempotency_key
    return headers
