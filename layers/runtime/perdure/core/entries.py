"""What one commit adds to a session's log: inputs, messages, events and receipts. Entries never change.

What became of a message or a turn later is in the entry that closed the turn; projections combine the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from perdure.core.usage import NO_TOTALS, CallUsage, UsageTotals

JsonObject = dict[str, Any]

SCHEMA_VERSION = 3
"""Version of the stored form of entries. A reader refuses a higher one (spec SESS-22)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who did something: a verified subject of a token issuer, or the local user."""

    issuer: str
    subject: str

    def told(self) -> JsonObject:
        """Return them as events tell of them."""
        return {"issuer": self.issuer, "subject": self.subject}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRef:
    """A file, by the name under which an application finds it. Its bytes are never stored here.

    Attributes:
        reference: The application's own name for it, such as a key in its store; not shown to models.
        media_type: Such as `image/png`. None: not known.
        name: What a person calls it.
    """

    reference: str
    media_type: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A user's message as it was accepted or edited; the message of its turn points here by version.

    `source` says who wrote it: `person`, or trusted code: `webhook`, `schedule`, `agent`, `application`.
    """

    message_id: str
    text: str
    delivery: str = "queue"
    metadata: JsonObject | None = None
    actor: Actor | None = None
    files: tuple[FileRef, ...] = ()
    source: str = "person"
    run_settings: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of the transcript.

    Attributes:
        sequence: 1, 2, 3 … per session, without gaps.
        parts: JSON objects with a `type` (surface §4.2). A user's message has none of its own:
            its text is the input with the same id in the entry of `input_version`.
        status: None for a whole message; else `truncated`, `filtered`, `refused`, `not_accepted`, `interrupted` or
            `superseded`.
        provider: What only the same provider may see again: `{provider, api, item}`; never public.
        input_version: Version of the entry that accepted a user's message.
    """

    message_id: str
    sequence: int
    turn_id: str
    role: str
    parts: tuple[JsonObject, ...] = ()
    status: str | None = None
    provider: JsonObject | None = None
    input_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One durable event. `at` is None when it happened with the commit itself."""

    type: str
    sequence: int
    payload: JsonObject = field(default_factory=dict)
    turn_id: str | None = None
    step_execution_id: str | None = None
    attempt: int | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFact:
    """Something that its call has to know again later; HEAD says in which entries they are.

    Attributes:
        kind: `arguments` (as they were approved), `question`, `answer`, `step`, `sleep`, `event` or `task`.
        name: Of an interrupt, a step, a sleep or an event.
        value: Any JSON value.
    """

    call_id: str
    kind: str
    name: str = ""
    value: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """A schedule as it was set. Exactly one of `at` and `every` is there.

    Attributes:
        when: What was asked for, as it was written.
        every: A `calendar.Recurrence`, encoded.
        actor: Who set it; the author of its messages.
        max_attempts: Tries to deliver one occurrence.
    """

    schedule_id: str
    text: str
    when: JsonObject
    actor: Actor
    at: datetime | None = None
    every: JsonObject | None = None
    metadata: JsonObject | None = None
    delivery: str | None = None
    max_attempts: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptClaim:
    """A caller's idempotency key and the hash of what they asked for."""

    key_hash: str
    content_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof that a command with an idempotency key was accepted, and what was answered."""

    key_hash: str
    content_hash: str
    reply: JsonObject


_PLACE = ("turn_id", "step_execution_id", "attempt")
"""What the events of one entry mostly have in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """All that one commit adds besides the new HEAD. Every commit has one, even if it is empty.

    Attributes:
        version: The version that the commit gave the session; 1, 2, 3 … without gaps.
        commit_id: The id of the command; the same through all its retries.
        at: When the command was decided; the time of its messages and, unless they say otherwise, events.
        kind: The command's name.
        run_state: What a runner keeps between two model calls of one turn; opaque to us.
        usage: One row for each provider call that this commit closes, failed ones included; each has its
            `usage_recorded` event, whose payload is made from here when it is read.
        usage_before: What the session had used before this commit, when there are rows.
        turn_usage: What the turn that this commit closes has used; its terminal event tells it when it is read.
        settings: The session's settings from here on; HEAD points at the entry that holds them.
        partial: Text of an answer that was cut, for the provider call that follows a long wait.
        facts: What calls of the running turn will want to know again.
        schedules: Those that this commit set.
    """

    version: int
    commit_id: str
    at: datetime
    kind: str
    inputs: tuple[Input, ...] = ()
    messages: tuple[Message, ...] = ()
    events: tuple[Event, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    run_state: JsonObject | None = None
    usage: tuple[CallUsage, ...] = ()
    usage_before: UsageTotals = NO_TOTALS
    turn_usage: UsageTotals = NO_TOTALS
    settings: JsonObject | None = None
    partial: str | None = None
    facts: tuple[CallFact, ...] = ()
    schedules: tuple[ScheduleSpec, ...] = ()
    schema_version: int = 1  # what a record that does not say it has; never changes

    @staticmethod
    def compact(data: JsonObject) -> None:
        """Leave out what an event shares with the one before it; sequences have no gaps (see `codec.encode`)."""
        before: JsonObject = {}
        for event in data.get("events", ()):
            place = {name: event.pop(name, None) for name in _PLACE}
            event.update({name: place[name] for name in _PLACE if place[name] != before.get(name)})
            if before:
                del event["sequence"]
            before = place

    @staticmethod
    def expand(data: JsonObject) -> None:
        """Put back what `compact` left out."""
        before: JsonObject = {}
        for index, event in enumerate(data.get("events", ())):
            before |= {name: event[name] for name in _PLACE if name in event}
            event.update(before)
            event.setdefault("sequence", data["events"][0]["sequence"] + index)
