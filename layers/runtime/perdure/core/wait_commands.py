"""What happens to calls that wait: questions, timers, remote work, and what a tool records on its way, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from perdure.core.control_commands import ReceiptClaim
from perdure.core.entries import Actor

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked. Without `choices` any text answers it; with them, other texts only with `free_text`."""

    question: str
    choices: tuple[str, ...] = ()
    free_text: bool = True
    deadline: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAsked:
    """A tool's attempt is over: it wants to know something of a person first, and has done nothing yet.

    `continuation` is any JSON value, which the attempt behind the answer is told.
    """

    turn_id: str
    call_id: str
    attempt: int
    started_at: datetime
    question: Question
    continuation: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecorded:
    """A running tool did a step of its own, which is not to be done again (spec TOOL-25). The reply's `recorded`
    says whether it counts."""

    turn_id: str
    call_id: str
    attempt: int
    name: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputShown:
    """A running tool shows what it has so far (spec TOOL-17). Never model input."""

    turn_id: str
    call_id: str
    attempt: int
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParked:
    """A tool's attempt is over: it goes on when a time has come (`until`), or an event (`event`), whichever is first.

    `name` is that of the sleep or of the event, unique in its call.
    """

    turn_id: str
    call_id: str
    attempt: int
    started_at: datetime
    name: str
    sleep: timedelta | None = None
    event: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted:
    """A tool's attempt is over: it has started remote work, which is looked after from now on.

    Attributes:
        task_id: Its handle, any text.
        interval: Time to the first look.
        polls: This deployment can look after it.
    """

    turn_id: str
    call_id: str
    attempt: int
    started_at: datetime
    task_id: str
    interval: timedelta
    continuation: Any = None
    polls: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLooked:
    """A look at remote work found that it is not over.

    Attributes:
        interval: Time to the next look.
        continuation: What the next look is told; None: nothing.
        question: It wants to know something of a person.
    """

    turn_id: str
    call_id: str
    attempt: int
    started_at: datetime
    interval: timedelta
    continuation: Any = None
    question: Question | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCancelled:
    """An attempt to have remote work stopped is over. `done` False: it failed, and may be tried again."""

    step_id: str
    attempt: int
    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EventArrived:
    """Trusted code brings what a parked tool waits for: the event of a name, with any JSON value."""

    call_id: str
    name: str
    actor: Actor
    value: Any = None
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBrought:
    """Trusted code brings the result of a call that a provider runs itself (spec TOOL-19)."""

    call_id: str
    tool_name: str
    actor: Actor
    output: str
    succeeded: bool = True
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipWait:
    """Somebody does not want to wait any longer for a time to come. `details`: as in `TimerFired`."""

    wait_id: str
    actor: Actor
    details: JsonObject = field(default_factory=dict)
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeWait:
    """Somebody moves the time of a wait, or the deadline of a question or an approval. `until` None: no deadline."""

    wait_id: str
    until: datetime | None
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelWait:
    """Somebody ends a wait without what it waits for: a timer, an event, or remote work, which is asked to stop."""

    wait_id: str
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()
