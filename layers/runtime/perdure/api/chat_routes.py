"""The AI SDK's routes: a chat that streams UI message chunks, and the way back into a stream that was cut."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from perdure.api.bodies import Body, Delivery
from perdure.api.messages import ApiRequest, ApiResponse, JsonObject
from perdure.api.reading import QueryParam
from perdure.api.route import COMMAND_ERRORS, Call, Route
from perdure.errors import InvalidRequestError
from perdure.streams import ui_history, ui_stream
from perdure.streams.ui_requests import begin, resume


class ChatBody(Body):
    """What the AI SDK's `DefaultChatTransport` sends. Of `messages` only the one that is sent is read."""

    id: Annotated[str, Field(description="The chat's id, which is the session's.")]
    messages: Annotated[
        list[dict[str, Any]] | None,
        Field(description="UI messages. The last one, or the assistant's that `messageId` names, is what is sent."),
    ] = None
    trigger: Annotated[
        Literal["submit-message", "regenerate-message"] | None,
        Field(description="`regenerate-message` tries the latest turn again, if it failed."),
    ] = None
    messageId: Annotated[str | None, Field(description="The message that is continued or regenerated.")] = None  # noqa: N815
    agent: Annotated[str | None, Field(description="As for a new message.")] = None
    delivery: Annotated[Delivery | None, Field(description="As for a new message, but for `passive`.")] = None
    keep_open: Annotated[
        bool | None, Field(description="Approvals and questions do not end the stream; false if absent.")
    ] = None


class UiMessage(BaseModel):
    """A message as `useChat` holds it. `metadata`: what a user's message was sent with."""

    id: str
    role: Literal["user", "assistant"]
    parts: list[dict[str, Any]]
    metadata: dict[str, Any] | None = None


class UiPage(BaseModel):
    """Stored messages for a page that loads, oldest first; `resume_token` is null while no turn runs."""

    session_id: str
    messages: list[UiMessage]
    resume_token: str | None
    next_before: str | None = None


async def ui_messages(call: Call) -> JsonObject:
    """Answer `format=ui`."""
    if call.query.get("format") != "ui":
        raise InvalidRequestError("`before` and `limit` go with `format=ui`")
    asked = {name: value for name, value in call.query.items() if name != "format"}
    return await ui_history.ui_page(call.service, call.caller, call.session_id, **asked)


async def _chat(call: Call, request: ApiRequest) -> ApiResponse:
    body = call.body_as(ChatBody)
    sent = {name: value for name, value in body if value is not None}
    begun = await begin(call.service, call.caller, sent)
    pieces = ui_stream.frames(call.service, call.caller, begun, closing=request.closing)
    return ApiResponse(status=200, headers=ui_stream.HEADERS, stream=pieces)


async def _resume(call: Call, request: ApiRequest) -> ApiResponse:
    begun = await resume(
        call.service,
        call.caller,
        call.session_id,
        request.headers.get("x-resume-token"),
        exact=call.query.get("exact") == "true",
        steps=call.query.get("steps"),
        keep_open=call.query.get("keep_open") == "true",
    )
    if begun is None:
        return ApiResponse(status=204, headers={"cache-control": "no-store"})
    pieces = ui_stream.frames(call.service, call.caller, begun, closing=request.closing)
    return ApiResponse(status=200, headers=ui_stream.HEADERS, stream=pieces)


def _flag(name: str, doc: str) -> QueryParam:
    return QueryParam(name=name, kind="choice", doc=doc, choices=("true", "false"))


UI_QUERY = (
    QueryParam(name="format", kind="choice", doc="`ui`: the AI SDK's UI messages.", choices=("ui",)),
    QueryParam(name="before", kind="cursor", doc="With `format=ui`: a `next_before`."),
    QueryParam(name="limit", kind="integer", doc="With `format=ui`: turns, 1 to 100, clamped; 20 if absent."),
)

CHAT_ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v1/chat",
        operation="chat",
        doc="Send a UI message, or the decisions in one, and stream the turn as the AI SDK's UI message chunks.",
        stream=_chat,
        body=ChatBody,
        reply=None,
        errors=COMMAND_ERRORS,
    ),
    Route(
        method="GET",
        path="/v1/chat/{session_id}/stream",
        operation="resume_chat",
        doc="Stream the running turn from its start, or the one of the header `x-resume-token`; 204: nothing runs.",
        stream=_resume,
        may_be_empty=True,
        query=(
            _flag("exact", "With a token: go on in the step that the client is in, by a `reset-step`."),
            QueryParam(name="steps", kind="integer", doc="With `exact`: how many `step-start` parts the client has."),
            _flag("keep_open", "As in a POST."),
        ),
        reply=None,
        errors=(404,),
    ),
)
