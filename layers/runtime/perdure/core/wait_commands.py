"""What happens to calls that wait: questions, timers, remote work, and what a tool records on its way, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

from perdure.core.command import StepCommand, UserCommand
from perdure.core.entries import Actor, ReceiptClaim

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked. Without `choices` any text answers it; with them, other texts only with `free_text`."""

    question: str
    choices: tuple[str, ...] = ()
    free_text: bool = True
    deadline: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAsked(StepCommand):
    """A tool's attempt is over: it wants to know something of a person first, and has done nothing yet.

    `continuation` is any JSON value, which the attempt behind the answer is told.
    """

    DECIDED_IN: ClassVar[str] = "questions"
    IS_OUTCOME: ClassVar[bool] = True

    turn_id: str
    call_id: str
    attempt: int
    started_at: datetime
    question: Question
    continuation: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecorded(StepCommand):
    """A running tool did a step of its own, which is not to be done again (spec TOOL-25). The reply's `recorded`
    says whether it counts."""

    DECIDED_IN: ClassVar[str] = "parks"
    IS_OUTCOME: ClassVar[bool] = True

    turn_id: str
    call_id: str
    attempt: int
    name: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputShown(StepCommand):
    """A running tool shows what it has so far (spec TOOL-17). Never model input."""

    DECIDED_IN: ClassVar[str] = "parks"

    turn_id: str
    call_id: str
    attempt: int
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventShown(StepCommand):
    """A running tool tells of something in an event of the application's own (spec EVT-07). Never model input."""

    DECIDED_IN: ClassVar[str] = "parks"

    turn_id: str
    call_id: str
    attempt: int
    event_type: str
    payload: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParked(StepCommand):
    """A tool's attempt is over: it goes on when a time has come (`until`), or an event (`event`), whichever is first.

    `name` is that of the sleep or of the event, unique in its call.
    """

    DECIDED_IN: ClassVar[str] = "parks"
    IS_OUTCOME: ClassVar[bool] = True

    turn_id: str
    call_id: str
    attempt: int
    started_at: datetime
    name: str
    sleep: timedelta | None = None
    event: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted(StepCommand):
    """A tool's attempt is over: it has started remote work, which is looked after from now on.

    Attributes:
        task_id: Its handle, any text.
        interval: Time to the first look.
        polls: This deployment can look after it.
    """

    DECIDED_IN: ClassVar[str] = "tasks"
    IS_OUTCOME: ClassVar[bool] = True

    turn_id: str
    call_id: str
    attempt: int
    started_at: datetime
    task_id: str
    interval: timedelta
    continuation: Any = None
    polls: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLooked(StepCommand):
    """A look at remote work found that it is not over.

    Attributes:
        interval: Time to the next look.
        continuation: What the next look is told; None: nothing.
        question: It wants to know something of a person.
    """

    DECIDED_IN: ClassVar[str] = "tasks"
    IS_OUTCOME: ClassVar[bool] = True

    turn_id: str
    call_id: str
    attempt: int
    started_at: datetime
    interval: timedelta
    continuation: Any = None
    question: Question | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCancelled(StepCommand):
    """An attempt to have remote work stopped is over. `done` False: it failed, and is tried again unless `final`."""

    DECIDED_IN: ClassVar[str] = "tasks"

    step_id: str
    attempt: int
    done: bool
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EventArrived(UserCommand):
    """Trusted code brings what a parked tool waits for: the event of a name, with any JSON value."""

    DECIDED_IN: ClassVar[str] = "parks"

    call_id: str
    name: str
    actor: Actor
    value: Any = None
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBrought(UserCommand):
    """Trusted code brings the result of a call that a provider runs itself (spec TOOL-19)."""

    DECIDED_IN: ClassVar[str] = "parks"

    call_id: str
    tool_name: str
    actor: Actor
    output: str
    succeeded: bool = True
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipWait(UserCommand):
    """Somebody does not want to wait any longer for a time to come. `details`: as in `TimerFired`."""

    DECIDED_IN: ClassVar[str] = "waits"

    wait_id: str
    actor: Actor
    details: JsonObject = field(default_factory=dict)
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeWait(UserCommand):
    """Somebody moves the time of a wait, or the deadline of a question or an approval. `until` None: no deadline."""

    DECIDED_IN: ClassVar[str] = "waits"

    wait_id: str
    until: datetime | None
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelWait(UserCommand):
    """Somebody ends a wait without what it waits for: a timer, an event, or remote work, which is asked to stop."""

    DECIDED_IN: ClassVar[str] = "waits"

    wait_id: str
    actor: Actor
    receipts: tuple[ReceiptClaim, ...] = ()
