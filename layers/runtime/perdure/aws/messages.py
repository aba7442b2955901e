"""What travels through the queues: ids only, a few hundred bytes, never trusted (design §2)."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from perdure.core.codec import from_millis, to_millis
from perdure.core.expected import Dispatch, Timer
from perdure.ports import SessionKey

StepKind = Literal["run_model", "call_tool", "call_single_attempt_tool"]


class QueueMessage(BaseModel):
    """Which session it is about."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    schema_version: Literal[1] = 1
    tenant: str
    session_id: str

    @property
    def key(self) -> SessionKey:
        return SessionKey(tenant=self.tenant, session_id=self.session_id)

    def body(self) -> str:
        """Return the message's JSON, in ASCII, because SQS refuses some characters that JSON allows."""
        return json.dumps(self.model_dump(exclude_none=True), separators=(",", ":"))


class StepQueueMessage(QueueMessage):
    """An attempt of a step may be ready. `not_before_ms` is there when the queue's longest delay was too short."""

    kind: StepKind
    step_id: str
    attempt: int = Field(ge=1)
    not_before_ms: int | None = None

    @classmethod
    def of(cls, key: SessionKey, dispatch: Dispatch) -> StepQueueMessage:
        return cls(
            tenant=key.tenant,
            session_id=key.session_id,
            kind=dispatch.kind,  # type: ignore[arg-type]  # checked by pydantic
            step_id=dispatch.step_id,
            attempt=dispatch.attempt,
            not_before_ms=to_millis(dispatch.not_before) if dispatch.not_before else None,
        )

    @property
    def dispatch(self) -> Dispatch:
        not_before = from_millis(self.not_before_ms) if self.not_before_ms is not None else None
        return Dispatch(kind=self.kind, step_id=self.step_id, attempt=self.attempt, not_before=not_before)


class TimerMessage(QueueMessage):
    """A timer may be due. One that comes early is sent again with the rest as its delay."""

    timer_id: str
    fence: int
    due_at_ms: int

    @classmethod
    def of(cls, key: SessionKey, timer: Timer) -> TimerMessage:
        return cls(
            tenant=key.tenant,
            session_id=key.session_id,
            timer_id=timer.timer_id,
            fence=timer.fence,
            due_at_ms=to_millis(timer.due_at),
        )

    @property
    def timer(self) -> Timer:
        return Timer(timer_id=self.timer_id, fence=self.fence, due_at=self.due_at)

    @property
    def due_at(self) -> datetime:
        return from_millis(self.due_at_ms)
