"""The shape of one turn by itself."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from perdure.api.shapes import Message
from perdure.api.state_shapes import TurnError, WaitingFor
from perdure.api.usage_shapes import Usage


class CallCounts(BaseModel):
    """How many calls of tools a turn has, and how those ended that are over."""

    total: int
    succeeded: int
    failed: int
    rejected: int
    outcome_unknown: int


class TurnView(BaseModel):
    """One turn: its status is `running`, or how it ended. `usage` is its own, not the session's.

    `message_ids` are those of the messages that began it or joined it. A message that joined it and went back to the
    inbox unanswered is none of them any more.
    """

    turn_id: str
    status: Literal["running", "completed", "failed", "cancelled", "steered", "interrupted", "superseded", "abandoned"]
    reason: Annotated[str | None, Field(description="A limit, a policy, `stopped`.")] = None
    policy_name: str | None = None
    started_at: datetime
    ended_at: datetime | None = None
    message_ids: list[str]
    retry_of: Annotated[str | None, Field(description="The failed turn that it goes on with.")] = None
    answer: Annotated[Message | None, Field(description="The agent's message that it ended with.")] = None
    error: TurnError | None = None
    tool_calls: CallCounts
    usage: Usage
    stopping: Literal[True] | None = None
    waiting_for: list[WaitingFor] | None = None
    cursor: Annotated[str, Field(description="Stands right before its first event.")]
