"""The shapes of replies (surface §4.2), for the OpenAPI document and for tests that hold the service to them.

A field with the default None is absent when it is not set, never null. Readers ignore fields that they don't know.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from perdure.api.bodies import Delivery
from perdure.api.state_shapes import Gates, State, Status, WaitingFor
from perdure.api.usage_shapes import Usage


class Run(BaseModel):
    """What was active when a session was last seen: a turn, and the attempt of a model step or a tool call in it."""

    session_id: str
    turn_id: str | None = None
    step_execution_id: str | None = None
    attempt: int | None = None


class ErrorDetail(BaseModel):
    """What went wrong. `code` is stable; `message` is for people; `retryable`: the same request may succeed."""

    code: str
    message: str
    retryable: bool
    run: Annotated[Run | None, Field(description="Of a command that got no answer; look before you repeat it.")] = None


class Error(BaseModel):
    """The body of every response that is not a success. Nothing has changed."""

    error: ErrorDetail


class Receipt(BaseModel):
    """A message was accepted. `cursor` stands right before the first event that it causes."""

    message_id: str
    turn_id: str | None = None
    delivered_as: Annotated[
        Delivery | Literal["answer"], Field(description="`answer`: to the open question `interrupt_id`.")
    ]
    interrupt_id: str | None = None
    duplicate: bool
    cursor: str


class Cut(BaseModel):
    """Something whose texts may be shown as their heads only, so that a reply stays small."""

    truncated: Annotated[Literal[True] | None, Field(description="Only the head is shown; absent for the whole.")] = (
        None
    )
    bytes: Annotated[int | None, Field(description="Size of all that was cut, in bytes of UTF-8.")] = None


class TextPart(Cut):
    """Text."""

    type: Literal["text"]
    text: str


class ReasoningPart(Cut):
    """Reasoning that the provider shows."""

    type: Literal["reasoning"]
    text: str


class ToolCallPart(Cut):
    """A tool call as the model made it; `arguments_text` when its arguments were no JSON object, or are cut."""

    type: Literal["tool_call"]
    tool_call_id: str
    tool_name: str
    arguments: dict[str, Any] | None = None
    arguments_text: str | None = None
    provider_executed: Annotated[bool | None, Field(description="The provider runs it itself.")] = None
    dynamic: Annotated[bool | None, Field(description="The agent did not offer it.")] = None
    provider_metadata: dict[str, Any] | None = None
    tool_metadata: dict[str, Any] | None = None


class ToolResultPart(Cut):
    """The one result of a tool call, as the model sees it."""

    type: Literal["tool_result"]
    tool_call_id: str
    tool_name: str
    status: Literal["succeeded", "failed", "rejected", "outcome_unknown"]
    output: str


class FilePart(BaseModel):
    """A file, by the application's own name for it."""

    type: Literal["file"]
    reference: str
    media_type: str | None = None
    name: str | None = None


Part = Annotated[TextPart | ReasoningPart | ToolCallPart | ToolResultPart | FilePart, Field(discriminator="type")]


class Who(BaseModel):
    """A verified subject of a token issuer; `perdure` itself, when a deadline passed."""

    issuer: str
    subject: str


Source = Annotated[
    Literal["person", "webhook", "schedule", "agent", "application"],
    Field(description="Who wrote a user's message: a person, or trusted code on behalf of the `actor`."),
]


class Message(BaseModel):
    """One message of the transcript. `status` is absent for a whole one.

    `interrupted`: a stop cut it off. `superseded`: another message replaced its turn, and no later prompt has it.
    `rehomed`: a user's message that had joined a turn which never answered it; it went back to the inbox.
    """

    message_id: str
    sequence: int
    turn_id: str
    role: Literal["user", "assistant", "tool"]
    parts: list[Part]
    created_at: datetime
    status: (
        Literal["truncated", "filtered", "refused", "not_accepted", "interrupted", "superseded", "rehomed"] | None
    ) = None
    metadata: dict[str, Any] | None = None
    source: Source | None = None
    actor: Who | None = None


class ToolCall(Cut):
    """A tool call of the running turn, or of the latest one while none runs."""

    tool_call_id: str
    tool_name: str
    arguments: dict[str, Any] | None = None
    arguments_text: str | None = None
    arguments_hash: str
    effect: Literal["read", "idempotent_write", "non_idempotent_write", "unclassified"]
    requires_approval: bool
    status: Literal[
        "awaiting_approval",
        "approved",
        "awaiting_answer",
        "waiting_for_timer",
        "waiting_for_event",
        "waiting_for_task",
        "succeeded",
        "failed",
        "rejected",
        "outcome_unknown",
    ]
    attempt: int
    provider_executed: bool | None = None
    dynamic: bool | None = None
    provider_metadata: dict[str, Any] | None = None
    tool_metadata: dict[str, Any] | None = None
    wait_until: Annotated[datetime | None, Field(description="When its wait ends by itself.")] = None
    requested_arguments: Annotated[
        dict[str, Any] | None, Field(description="What the model asked for, where a person approved other arguments.")
    ] = None
    output: str | None = None
    error: str | None = None
    cancellation_reason: str | None = None


class Interrupt(Cut):
    """Something that a person decides."""

    interrupt_id: str
    kind: Literal["approval", "question", "input"]
    tool_call_id: str | None = None
    tool_name: str | None = None
    arguments: dict[str, Any] | None = None
    arguments_text: str | None = None
    arguments_hash: str | None = None
    question: str | None = None
    choices: list[str] | None = None
    allows_free_text: bool | None = None
    schema_: Annotated[
        dict[str, Any] | None, Field(alias="schema", description="Of the value that an application asks for.")
    ] = None
    deadline: datetime | None = None
    blocked: Annotated[
        Literal["agent_missing"] | None,
        Field(description="This deployment can't run the call: deploy its agent again, reject it or stop the turn."),
    ] = None


class InboxEntry(Cut):
    """A message that waits for its turn."""

    message_id: str
    delivery: Delivery
    state: Literal["queued", "steered", "passive"]
    text: str
    created_at: datetime
    urgent: Annotated[bool | None, Field(description="It goes before all that are not.")] = None
    files: list[FilePart] | None = None
    source: Source
    actor: Who | None = None


class Inbox(BaseModel):
    """Waiting messages in the order in which they will be taken."""

    entries: list[InboxEntry]


class Snapshot(BaseModel):
    """A session now: its newest messages, at most 50 and 2 MiB, what it does and waits for.

    Events follow from `cursor` on. A text over 256 KiB is shown as its head.
    """

    session_id: str
    agent: str | None
    title: str | None = None
    state: State | None
    messages: list[Message]
    next_before: str | None = None
    deleted_before: int | None = None
    tool_calls: list[ToolCall]
    pending_interrupts: list[Interrupt]
    inbox: list[InboxEntry]
    plan: dict[str, Any] | None = None
    usage: Usage
    summary: dict[str, Any] | None = None
    settings: dict[str, Any]
    cursor: str


class MessagePage(BaseModel):
    """Messages, oldest first, at most 4 MiB. `next_before` leads to older ones; older than `deleted_before` are gone.

    The texts of a message that is alone larger are shown as their heads.
    """

    messages: list[Message]
    next_before: str | None = None
    deleted_before: int | None = None


class StopResult(BaseModel):
    """What a stop found."""

    result: Literal["recorded", "already_recorded", "too_late", "idle", "other_turn", "not_controllable"]


class SessionSummary(Gates):
    """One row of the session list."""

    session_id: str
    agent: str | None
    status: Status
    version: int
    turn_count: int
    preview: str
    title: str | None = None
    created_at: datetime | None = None
    last_activity_at: datetime | None = None
    waiting_for: list[WaitingFor] | None = None


class SessionPage(BaseModel):
    """Sessions, newest activity first."""

    sessions: list[SessionSummary]
    next_cursor: str | None = None


class SocketTicket(BaseModel):
    """A ticket for the WebSocket."""

    ticket: str
    expires_at: datetime | None = None


class Health(BaseModel):
    """The API answers. Without a `stream_url`, streams are at this address; `socket_url` takes WebSockets."""

    status: Literal["ok"]
    version: str
    stream_url: str | None = None
    socket_url: str | None = None
