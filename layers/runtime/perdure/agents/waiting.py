"""What a tool can say besides its result: that it wants to ask, that it has started remote work, that it waits."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Protocol

from perdure.core.ids import canonical_json
from perdure.core.limits import MAX_POLL_INTERVAL, MAX_TOOL_OUTPUT_BYTES, MAX_WAIT, MIN_POLL_INTERVAL
from perdure.errors import ConfigurationError, PermanentError, ToolExecutionError
from perdure.models.surrogates import mended

JsonObject = dict[str, Any]

MAX_TASK_ID = 2000
"""Length of the handle of remote work, in characters. Our own choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a question of a tool.

    Attributes:
        status: A tool's own question is always `answered` when the tool goes on. That of remote work may also be
            `declined`, or `deadline_passed`.
        message: What the person added.
    """

    interrupt_id: str
    question: str
    status: Literal["answered", "declined", "deadline_passed"]
    answer: str | None = None
    message: str | None = None


class ToolInputRequested(Exception):  # noqa: N818  the name of the thing, as in the spec; it is no error
    """Raised by a tool before it takes effect: a person should answer first. It runs again from its start then.

    Raised from the `poll` of remote work it asks on that work's behalf.

    Args:
        question: What to ask; not blank.
        choices: Answers to choose from, 20 at most.
        allows_free_text: Another answer than one of the choices is taken.
        continuation: Any JSON value; `ToolContext.continuation` of the next run.
        deadline: How long a person has. None: for ever.
    """

    def __init__(
        self,
        question: str,
        *,
        choices: Sequence[str] = (),
        allows_free_text: bool = True,
        continuation: Any = None,
        deadline: timedelta | None = None,
    ) -> None:
        super().__init__(question)
        self.question = question
        self.choices = tuple(choices)
        self.allows_free_text = allows_free_text
        self.continuation = continuation
        self.deadline = deadline


@dataclass(frozen=True, slots=True)
class ToolTask:
    """What a tool returns that has started remote work, which its `poll` looks after (spec TASK-01).

    Attributes:
        task_id: The work's handle, 1 to 2,000 characters.
        poll_interval: Time between two looks, rounded up to whole seconds; 1 s to 1 day.
        continuation: Any JSON value; `ToolContext.continuation` of the first look.

    Raises:
        ConfigurationError: Handle or interval are outside these limits, or the continuation is no JSON value.
    """

    task_id: str
    poll_interval: timedelta = timedelta(seconds=10)
    continuation: Any = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.task_id) <= MAX_TASK_ID or mended(self.task_id) != self.task_id:
            raise ConfigurationError(
                f"the handle of a task is a text of 1 to {MAX_TASK_ID} characters without lone surrogates"
            )
        check_interval(self.poll_interval)
        kept_value(self.continuation, "a continuation")


@dataclass(frozen=True, slots=True)
class TaskPending:
    """What a `poll` returns when the work is not over.

    Attributes:
        poll_interval: Time to the next look. None: as before.
        continuation: Any JSON value; None: none, which clears the one before.
    """

    poll_interval: timedelta | None = None
    continuation: Any = None

    def __post_init__(self) -> None:
        if self.poll_interval is not None:
            check_interval(self.poll_interval)
        kept_value(self.continuation, "a continuation")


class DidNotHappenError(ToolExecutionError):
    """Raised by `reconcile`: what was to be done was not done, and it is safe to do it again.

    It says that nothing will come of the attempt any more, either. A worker that was taken for dead may only be slow:
    have the other side refuse the idempotency key from now on, or return `TaskPending` until it can't come any more.
    """


class EventTimeoutError(PermanentError, TimeoutError):
    """The event that a tool waited for did not come in time."""

    code = "event_timeout"


class Parked(BaseException):
    """Ends a tool's attempt that goes on later. For the runtime only."""

    def __init__(self, name: str, *, sleep: timedelta | None, event: bool) -> None:
        super().__init__(name)
        self.name = name
        self.sleep = sleep
        self.event = event


class AttemptOver(BaseException):
    """Ends a tool's attempt that is not to do anything more."""


class SessionHandle(Protocol):
    """A running tool's hand on its own session. A retried tool does the same again, and it is done once."""

    async def append(self, text: str, *, name: str = "message", delivery: str = "queue") -> JsonObject:
        """Send a message into the session, as `<call>:<name>`; `{message_id, delivered_as, turn_id?}`.

        Raises:
            ToolExecutionError: It was refused: the session is closed or full, or the name has another text.
        """
        ...

    async def schedule(
        self,
        text: str,
        *,
        when: Mapping[str, Any],
        schedule_id: str | None = None,
        metadata: JsonObject | None = None,
        replace: bool = False,
    ) -> JsonObject:
        """Have a message come at a time, or every so often; `{schedule_id, next_at}`.

        Args:
            when: Exactly one of `at`, `after` and `every`; see `core.calendar.parse_when`.
            schedule_id: 1 to 64 characters. None: the call's id, which is a reminder of its own (spec SCHD-07).
            replace: It takes the place of one with this id; else another content is refused.

        Raises:
            ToolExecutionError: It was refused; the text says why.
        """
        ...

    async def cancel_schedule(self, schedule_id: str) -> JsonObject:
        """Forget a schedule.

        Raises:
            ToolExecutionError: There is none of this id.
        """
        ...

    async def schedules(self) -> list[JsonObject]:
        """Return the session's schedules: `{schedule_id, next_at, text, when}`."""
        ...


class DurableSteps(Protocol):
    """What the runtime gives a running tool: steps that are recorded, and waits that nobody holds a worker for."""

    async def step(self, name: str, function: Callable[[], Awaitable[Any] | Any]) -> Any: ...

    async def sleep(self, name: str, duration: timedelta) -> None: ...

    async def wait_for_event(self, name: str, within: timedelta | None) -> Any: ...

    async def show(self, output: Any) -> None: ...

    async def event(self, event_type: str, payload: Mapping[str, Any], *, durable: bool) -> None: ...


def check_interval(interval: timedelta) -> None:
    """Refuse a time between two looks that is outside 1 s to 1 day.

    Raises:
        ConfigurationError: It is.
    """
    if not MIN_POLL_INTERVAL <= whole_seconds(interval) <= MAX_POLL_INTERVAL:
        raise ConfigurationError(f"a poll interval is 1 second to 1 day, not {interval}")


def whole_seconds(interval: timedelta) -> timedelta:
    """Return an interval rounded up to whole seconds."""
    return timedelta(seconds=-(-interval // timedelta(seconds=1)))


def check_wait(duration: timedelta, what: str) -> None:
    """Refuse a wait that is not between 0 and 365 days.

    Raises:
        ConfigurationError: It is not.
    """
    if not timedelta(0) <= duration <= MAX_WAIT:
        raise ConfigurationError(f"{what} is 0 to {MAX_WAIT.days} days, not {duration}")


def own_event(event_type: str, payload: Mapping[str, Any]) -> JsonObject:
    """Return the payload of an event of the application's own as it will be read.

    Raises:
        InvalidRequestError: See `check_own_event`.
        ConfigurationError: It can't be written as JSON.
    """
    from perdure.core.own_events import check_own_event  # most tools tell none

    read: JsonObject = json_value(payload, f"the payload of {event_type}")
    check_own_event(event_type, read)
    return read


def json_value(value: Any, what: str) -> Any:
    """Return a value as it will be read again: pydantic's JSON form of it.

    Raises:
        ConfigurationError: It can't be written as JSON.
    """
    from pydantic_core import to_jsonable_python

    with suppress(Exception):
        return json.loads(canonical_json(to_jsonable_python(value)))
    with suppress(Exception):  # pydantic takes no lone surrogate in a key
        return json.loads(canonical_json(value))
    raise ConfigurationError(f"{what} can't be written as JSON: {type(value).__name__}")


def kept_value(value: Any, what: str) -> Any:
    """Return what a tool wants to have kept, as it will be read again; a lone surrogate becomes U+FFFD.

    Raises:
        ConfigurationError: It can't be written as JSON, or takes more than a tool's output may (16 MiB).
    """
    text = mended(canonical_json(json_value(value, what)))
    if len(text.encode()) > MAX_TOOL_OUTPUT_BYTES:
        raise ConfigurationError(f"{what} takes more than {MAX_TOOL_OUTPUT_BYTES} bytes: keep it elsewhere")
    return json.loads(text)
