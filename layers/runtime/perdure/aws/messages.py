"""What travels through the queues: ids only, a few hundred bytes, never trusted (design §2).

Checked by hand: every function imports this module, and pydantic takes a cold container longer than all of the steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Literal, Self, TypeVar, cast, get_args

from perdure.core.codec import from_millis, to_millis
from perdure.core.expected import Dispatch, Timer
from perdure.ports import SessionKey

StepKind = Literal[
    "run_model", "call_tool", "call_single_attempt_tool", "poll_tool_task", "cancel_tool_task", "write_title"
]
Check = Callable[[Any], bool]
M = TypeVar("M", bound="QueueMessage")

_SCHEMA_VERSION = 1
_STEP_KINDS = get_args(StepKind)


class UnreadableMessageError(ValueError):
    """The body of a queue message is none of ours; the text names what is wrong, and no value."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_integer(value: Any) -> bool:
    return type(value) is int  # a boolean is none


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMessage:
    """Which session it is about."""

    FIELDS: ClassVar[Mapping[str, Check]] = {"tenant": _is_text, "session_id": _is_text}
    """What each field has to be; a field that has a default may be missing."""

    tenant: str
    session_id: str

    @classmethod
    def read(cls, body: str) -> Self:
        """Return the message that `body` writes. Fields that it has beside ours are left out.

        Raises:
            UnreadableMessageError: It is no JSON object, of another version, or a field is missing or wrong.
        """
        given = _object(body)
        if not _is_integer(version := given.get("schema_version", _SCHEMA_VERSION)) or version != _SCHEMA_VERSION:
            raise UnreadableMessageError("a queue message has another schema_version")
        known = {name: value for name in cls.FIELDS if (value := given.get(name)) is not None}
        wrong = [name for name, value in known.items() if not cls.FIELDS[name](value)]
        if wrong:
            raise UnreadableMessageError(f"a queue message is wrong in: {', '.join(wrong)}")
        try:
            return cls(**known)
        except TypeError as error:
            raise UnreadableMessageError("a queue message lacks a field") from error

    @property
    def key(self) -> SessionKey:
        return SessionKey(tenant=self.tenant, session_id=self.session_id)

    def body(self) -> str:
        """Return the message's JSON, in ASCII, because SQS refuses some characters that JSON allows."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps({"schema_version": _SCHEMA_VERSION, **fields}, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepQueueMessage(QueueMessage):
    """An attempt of a step may be ready. `not_before_ms` is there when the queue's longest delay was too short."""

    FIELDS: ClassVar[Mapping[str, Check]] = {
        **QueueMessage.FIELDS,
        "kind": _STEP_KINDS.__contains__,
        "step_id": _is_text,
        "attempt": lambda value: _is_integer(value) and value >= 1,
        "not_before_ms": _is_integer,
    }

    kind: StepKind
    step_id: str
    attempt: int
    not_before_ms: int | None = None

    @classmethod
    def of(cls, key: SessionKey, dispatch: Dispatch) -> StepQueueMessage:
        return cls(
            tenant=key.tenant,
            session_id=key.session_id,
            kind=cast("StepKind", dispatch.kind),
            step_id=dispatch.step_id,
            attempt=dispatch.attempt,
            not_before_ms=to_millis(dispatch.not_before) if dispatch.not_before else None,
        )

    @property
    def dispatch(self) -> Dispatch:
        not_before = from_millis(self.not_before_ms) if self.not_before_ms is not None else None
        return Dispatch(kind=self.kind, step_id=self.step_id, attempt=self.attempt, not_before=not_before)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerMessage(QueueMessage):
    """A timer may be due. One that comes early is sent again with the rest as its delay."""

    FIELDS: ClassVar[Mapping[str, Check]] = {
        **QueueMessage.FIELDS,
        "timer_id": _is_text,
        "fence": _is_integer,
        "due_at_ms": _is_integer,
    }

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeMessage(QueueMessage):
    """A session may have events that a sink has not been given.

    Attributes:
        told_at_ms: When it was told of, first by the table's stream.
        retry: This is the try again after so many failures in a row. None: it is none.
    """

    FIELDS: ClassVar[Mapping[str, Check]] = {
        **QueueMessage.FIELDS,
        "sink": _is_text,
        "told_at_ms": _is_integer,
        "retry": lambda value: _is_integer(value) and value >= 1,
    }

    sink: str
    told_at_ms: int
    retry: int | None = None

    @property
    def told_at(self) -> datetime:
        return from_millis(self.told_at_ms)

    def again(self, now: datetime, retry: int | None) -> NoticeMessage:
        """Return the same for another time."""
        return replace(self, told_at_ms=to_millis(now), retry=retry)


def read_step_or_timer(body: str) -> StepQueueMessage | TimerMessage:
    """Return the message of either kind that `body` writes.

    Raises:
        UnreadableMessageError: It is neither.
    """
    return (TimerMessage if "timer_id" in _object(body) else StepQueueMessage).read(body)


def _object(body: str) -> dict[str, Any]:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnreadableMessageError("a queue message is no JSON") from error
    if not isinstance(given, dict):
        raise UnreadableMessageError("a queue message is no JSON object")
    return given
