"""The shape of a session's state: what it does, waits for, and is kept from."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

Status = Literal["waiting_for_user_message", "running_model", "running_tools", "compacting_context"]

TurnErrorCode = Literal[
    "truncated",
    "filtered",
    "refused",
    "not_accepted",
    "auth",
    "budget",
    "configuration",
    "context_overflow",
    "internal",
    "provider",
    "timeout",
    "tool",
]


class TurnError(BaseModel):
    """Why the latest turn failed."""

    code: TurnErrorCode
    message: str


class WaitingFor(BaseModel):
    """Something that a session waits for."""

    kind: Literal["approval", "question", "input", "timer", "event", "task", "retry"]
    id: str
    since: datetime
    until: datetime | None = None


class Operation(BaseModel):
    """The model step that runs or is about to. `since`: when its attempt was due, `first_since`: its first one."""

    kind: Literal["model"]
    phase: Annotated[
        Literal["queued", "waiting", "running"],
        Field(description="`queued`: for a worker; `waiting`: until a time, see `waiting_for`; `running`: one has it."),
    ]
    step_execution_id: str
    attempt: int
    since: datetime
    first_since: datetime


class LastTurn(BaseModel):
    """How the latest turn that is over ended. `reason`: a limit, a policy, an error's code, `stopped`."""

    turn_id: str
    outcome: Literal["completed", "failed", "cancelled", "steered", "interrupted", "superseded", "abandoned"]
    reason: str | None = None


class Gates(BaseModel):
    """What keeps a session from going on by itself."""

    paused: Annotated[bool | None, Field(description="Nothing new begins until somebody resumes it.")] = None
    held: Annotated[
        bool | None, Field(description="Messages wait behind a failed turn, until it is retried or dismissed.")
    ] = None
    blocked_reason: Annotated[
        Literal["auth", "credits"] | None,
        Field(description="Why it is held: the model's credential was refused, or nothing is left to pay with."),
    ] = None
    closed: Annotated[bool | None, Field(description="It takes no more messages.")] = None


class Grant(BaseModel):
    """An approval that was given ahead: calls of this tool with the same values in `fields` are not asked about."""

    grant_id: str
    tool_name: str
    fields: list[str]
    expires_at: datetime
    uses_left: Annotated[int | None, Field(description="Absent: any number until it expires.")] = None


class State(Gates):
    """What a session is doing. While tools wait for a person or a time, `waiting_for` tells for what."""

    status: Status
    turn_id: str | None = None
    turn_count: int
    interaction_mode: str
    version: int
    stopping: Annotated[bool | None, Field(description="A stop was recorded and its turn has not ended yet.")] = None
    steering: Annotated[
        bool | None, Field(description="The turn ends at its next safe boundary, and the steered messages follow.")
    ] = None
    operation: Operation | None = None
    last_turn: LastTurn | None = None
    last_turn_error: TurnError | None = None
    waiting_for: list[WaitingFor] | None = None
    grants: Annotated[list[Grant] | None, Field(description="What was approved ahead.")] = None
