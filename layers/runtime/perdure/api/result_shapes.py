"""The shapes of what controls and webhooks are answered."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from perdure.api.bodies import Delivery
from perdure.api.shapes import FilePart


class Recorded(BaseModel):
    """The command was recorded; `already_recorded`: it was so before, and nothing has changed."""

    result: Literal["recorded", "already_recorded"]


class RetryResult(Recorded):
    """The retry was recorded. `turn_id`: the turn that it started; none when a wait for a reconnect was cut short."""

    turn_id: str | None = None


class Removed(BaseModel):
    """A waiting message was taken back; this is what it said. Doing it again gives the same."""

    result: Literal["removed"]
    message_id: str
    text: str
    metadata: dict[str, Any] | None = None
    files: list[FilePart] | None = None


class Delivered(BaseModel):
    """How a waiting message is delivered now. `turn_id`: the turn that it started at once."""

    message_id: str
    delivered_as: Delivery
    turn_id: str | None = None


class Resolution(BaseModel):
    """The decision was recorded. `queued`: an answer came too late, and waits as the message of this id."""

    result: Literal["resolved", "queued"]
    message_id: str | None = None
    cursor: str | None = None


class UnblockingCall(BaseModel):
    """A request that ends a wait. Values of its body in angle brackets are to be filled in."""

    label: Annotated[str, Field(description="What it does, in a few words.")]
    operation: Annotated[str, Field(description="Its `operationId` in this document.")]
    method: str
    path: str
    body: dict[str, Any] | None = None


class Blocker(BaseModel):
    """Something that a session waits for: a person, a time, something outside, or somebody to let it go on."""

    kind: Literal[
        "approval",
        "question",
        "input",
        "timer",
        "event",
        "result",
        "task",
        "retry",
        "schedule",
        "pause",
        "hold",
        "auth",
        "credits",
        "closed",
    ]
    id: Annotated[
        str | None, Field(description="Of the interrupt, or of the call or model step that waits; it is the `wait_id`.")
    ] = None
    since: datetime
    until: Annotated[datetime | None, Field(description="When it ends by itself.")] = None
    title: Annotated[str, Field(description="One plain sentence.")]
    unblocked_by: Annotated[list[str], Field(description="Who or what can end it, in words.")]
    calls: Annotated[list[UnblockingCall], Field(description="The requests that do, for whoever may.")]
    tool_name: str | None = None
    blocked: Annotated[
        Literal["agent_missing"] | None,
        Field(description="This deployment can't run the call, so it can't be approved."),
    ] = None
    choices: list[str] | None = None
    allows_free_text: bool | None = None
    reason: Annotated[str | None, Field(description="Why the agent waits, in its own words.")] = None
    name: Annotated[str | None, Field(description="Of the event or the sleep within its tool.")] = None
    task: Annotated[
        Literal["work", "lookup"] | None,
        Field(description="Remote work, or a lookup of what became of an attempt whose outcome is not known."),
    ] = None
    looks: Annotated[int | None, Field(description="Looks at the remote work so far.")] = None
    next_look_at: datetime | None = None


class Waits(BaseModel):
    """Why a session waits. Nothing: it works, or has nothing to do."""

    waits: list[Blocker]


class HookReceipt(BaseModel):
    """An event was taken: the receipt of its message, `recorded` for what a tool waited for, or `ignored`."""

    ignored: Literal[True] | None = None
    message_id: str | None = None
    turn_id: str | None = None
    delivered_as: Delivery | None = None
    duplicate: bool | None = None
    cursor: str | None = None
    result: Literal["recorded"] | None = None


class ToolOutput(BaseModel):
    """A piece of an output. Characters are Unicode code points, and never half of one."""

    output: str
    total_characters: int
    sha256: Annotated[str, Field(description="Of the whole output in UTF-8, in hex.")]
    next_offset: Annotated[int | None, Field(description="Where the rest begins; absent at the end.")] = None
