"""What each type of event says (spec A.3). A field with the default None is absent when it is not set."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel

from perdure.api.bodies import Delivery
from perdure.api.schedule_shapes import SCHEDULE_PAYLOADS
from perdure.api.shapes import Who
from perdure.api.state_shapes import TurnError
from perdure.api.usage_shapes import Cost, Figure, Usage


class Done(BaseModel):
    """Who did it; None: it came about by itself."""

    actor: Who | None = None


class NoPayload(BaseModel):
    """Nothing but the event itself."""


class TurnStarted(BaseModel):
    """`message_ids` when several messages share the turn; `retry_of` names the failed turn that it goes on with."""

    sequence: int
    message_id: str
    message_ids: list[str] | None = None
    retry_of: str | None = None
    retry_id: str | None = None


class TurnEnd(BaseModel):
    """`rehomed`: messages that had joined the turn, got no answer by it and went back to the inbox."""

    message_count: int
    usage: Usage
    rehomed: list[str] | None = None


class TurnCompleted(TurnEnd):
    """`reason`: what ended the turn besides an answer. `absorbed`: messages that joined it and are answered with it."""

    reason: str | None = None
    policy_name: str | None = None
    absorbed: list[str] | None = None


class TurnFailed(TurnEnd):
    """`held`: later messages wait until the turn is retried or dismissed."""

    error: TurnError
    held: Literal[True] | None = None


Reason = Literal["stopped", "interrupted", "superseded"]


class TurnStopping(Done):
    """A stop was recorded: by a person, or by a message that interrupts or supersedes."""

    disposition: Literal["keep", "discard"]
    reason: Reason


class TurnCancelled(TurnEnd):
    """The stopped turn is over. `frontier`: what the screen had shown, in a form of our own."""

    reason: Reason | None = None
    disposition: Literal["keep", "discard"] | None = None
    frontier: dict[str, Any] | None = None


class TurnSteered(TurnEnd):
    """The turn gave way to messages that follow at once."""

    steered_message_count: int


class ModelFinished(BaseModel):
    """How a model step ended: `completed`, `failed`, `aborted`, …"""

    status: str
    reason: str | None = None


class RetryScheduled(BaseModel):
    """The model is asked again after a wait. `attempt`: which reconnect of the turn it is."""

    retry_in_ms: int
    attempt: int
    reason: str


class AttemptReset(BaseModel):
    """What was shown of this attempt is no part of the answer: drop it."""

    reason: str


class Delta(BaseModel):
    """A piece of text, live. `segment`: which part of the message it belongs to, from 0."""

    text: str
    segment: int


class ArgumentsDelta(BaseModel):
    """A piece of the arguments of the call that the model is writing, live: a draft. `tool_name`: once per call."""

    index: int
    text: str
    tool_name: str | None = None


class CallDeferred(BaseModel):
    """The model asked for a call."""

    tool_call_id: str
    tool_name: str
    effect: str
    requires_approval: bool


class CallStarted(BaseModel):
    """A call began."""

    tool_call_id: str
    tool_name: str


class CallProgress(BaseModel):
    """A word of a running tool, live."""

    tool_call_id: str
    text: str
    truncated: bool | None = None


class ResyncRequired(BaseModel):
    """What followed the cursor was deleted by retention: read a snapshot. The events that are kept follow."""

    reason: Literal["deleted"]


class ProgressGap(BaseModel):
    """Nothing more of this attempt is shown live: the session's budget is spent. The commit brings the rest."""

    reason: Literal["budget"]


class CallFinished(BaseModel):
    """A call has its one result, also when it was not run."""

    tool_call_id: str
    tool_name: str
    status: str
    cancellation_reason: str | None = None


class InterruptRaised(BaseModel):
    """Somebody is asked."""

    interrupt_id: str
    kind: str
    tool_call_id: str | None = None
    tool_name: str | None = None
    arguments_hash: str | None = None
    question: str | None = None
    choices: list[str] | None = None
    allows_free_text: bool | None = None
    deadline: datetime | None = None


class InterruptResolved(Done):
    """It was decided, or withdrawn (`cancellation_reason`).

    `arguments`: those that an approved call runs with in place of the model's. `answered` false: nobody answered.
    """

    interrupt_id: str
    kind: str
    approved: bool | None = None
    arguments: dict[str, Any] | None = None
    answered: bool | None = None
    answer: str | None = None
    message: str | None = None
    rejection_message: str | None = None
    cancellation_reason: str | None = None


class TimerStarted(BaseModel):
    """A wait for a time began: the agent's, or that of this name within its tool."""

    tool_call_id: str
    until: datetime
    duration_seconds: int | float | None = None
    reason: str | None = None
    name: str | None = None


class TaskBegun(BaseModel):
    """A tool has started remote work, which is looked at from time to time."""

    tool_call_id: str
    tool_name: str
    task_id: str
    poll_interval_seconds: float


class TaskLooked(BaseModel):
    """A look at remote work, or for an outcome: `pending`, `asks`, or how it ended."""

    tool_call_id: str
    status: str


class CallNamed(BaseModel):
    """It happened to this call."""

    tool_call_id: str


class TaskCancelled(BaseModel):
    """Remote work that nobody waits for any more was asked to stop; `cancelled` false: in vain."""

    tool_call_id: str
    tool_name: str
    cancelled: bool


class StepDone(BaseModel):
    """A tool has recorded a step of its own."""

    tool_call_id: str
    name: str


class OutputSoFar(BaseModel):
    """What a running tool has so far; its result is still to come."""

    tool_call_id: str
    output: str
    preliminary: Literal[True]


class EventAwaited(BaseModel):
    """A tool waits for the event of this name."""

    tool_call_id: str
    name: str
    until: datetime | None = None


class EventCame(Done):
    """Trusted code brought an event to a tool."""

    tool_call_id: str
    name: str


class WaitEnded(Done):
    """Somebody did not want to wait any longer: for a call, or for the next occurrence of a schedule (`wait_id`)."""

    tool_call_id: str | None = None
    wait_id: str | None = None


class WaitChanged(Done):
    """Somebody gave a wait, a question or an approval another time; none: it has none any more."""

    wait_id: str
    until: datetime | None = None


class MessageQueued(BaseModel):
    """A message waits."""

    message_id: str
    delivery: Delivery


class MessageJoined(BaseModel):
    """An injected message joined the running turn."""

    message_id: str
    sequence: int


class MessageChanged(Done):
    """A waiting message was changed."""

    message_id: str


class MessageRemoved(Done):
    """A waiting message was taken back."""

    message_id: str


class TitleChanged(BaseModel):
    """The session has another title, by a `person`, who is the `actor`, or by the agent's `model`."""

    title: str
    by: Literal["person", "model"]
    actor: Who | None = None


class HoldReleased(Done):
    """The inbox goes on. `reason`: what it was blocked for, if it was."""

    reason: str | None = None


class Seeded(BaseModel):
    """A history was imported."""

    message_count: int


class CallFigures(BaseModel):
    """What one provider call used."""

    input_tokens: Figure
    output_tokens: Figure
    cached_input_tokens: Figure
    reasoning_tokens: Figure
    cost: Cost | None = None


class UsageRecorded(BaseModel):
    """What one provider call used, and the session by then."""

    recorded: CallFigures
    session: Usage


PAYLOADS: dict[str, type[BaseModel]] = {
    "turn_started": TurnStarted,
    "turn_completed": TurnCompleted,
    "turn_failed": TurnFailed,
    "turn_stopping": TurnStopping,
    "turn_cancelled": TurnCancelled,
    "turn_steered": TurnSteered,
    "model_started": NoPayload,
    "model_finished": ModelFinished,
    "model_retry_scheduled": RetryScheduled,
    "attempt_reset": AttemptReset,
    "text_delta": Delta,
    "reasoning_delta": Delta,
    "tool.arguments_delta": ArgumentsDelta,
    "tool_call_deferred": CallDeferred,
    "tool_call_started": CallStarted,
    "tool_progress": CallProgress,
    "progress.gap": ProgressGap,
    "resync_required": ResyncRequired,
    "tool_call_finished": CallFinished,
    "interrupt_raised": InterruptRaised,
    "interrupt_resolved": InterruptResolved,
    "message_queued": MessageQueued,
    "message_removed": MessageRemoved,
    "usage_recorded": UsageRecorded,
    "timer_started": TimerStarted,
    "tool_task_started": TaskBegun,
    "task.looked": TaskLooked,
    "task.reconciling": CallNamed,
    "task.cancelled": TaskCancelled,
    "tool.step_recorded": StepDone,
    "tool.output": OutputSoFar,
    "tool.awaits_event": EventAwaited,
    "tool.event_arrived": EventCame,
    "wait.skipped": WaitEnded,
    "wait.changed": WaitChanged,
    "wait.cancelled": WaitEnded,
    **SCHEDULE_PAYLOADS,
    "title_changed": TitleChanged,
    "session_paused": Done,
    "session_resumed": Done,
    "hold.released": HoldReleased,
    "inbox.edited": MessageChanged,
    "inbox.joined": MessageJoined,
    "inbox.moved": MessageChanged,
    "session.closed": Done,
    "session.reopened": Done,
    "session.seeded": Seeded,
    "session.started": Done,
    "settings.changed": Done,
}
"""The payload of each type of event."""
