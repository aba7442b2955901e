"""HEAD: the one small control record of a session. It holds all that a decision needs and nothing more.

Frozen values; a transition returns a new one. Arguments, outputs and texts are never here, only where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perdure.core.entries import Actor
from perdure.core.usage import NO_TOTALS, UsageTotals
from perdure.core.values import replace

SCHEMA_VERSION = 1
"""Version of HEAD's stored form. A reader refuses a higher one (spec SESS-22)."""

FINAL_STATUSES = frozenset({"succeeded", "failed", "rejected", "outcome_unknown"})
"""Statuses of a call that never change again (spec TOOL-04)."""

WRITES_ONCE = frozenset({"non_idempotent_write", "unclassified"})
"""Effects whose body runs at most once (design §1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call of the running model response.

    Attributes:
        call_id: Ours: `call-<version>-<index>`; also the id of its step and of its approval.
        effect: `read`, `idempotent_write`, `non_idempotent_write` or `unclassified`.
        status: `awaiting_approval`, `approved`, or one of `FINAL_STATUSES`.
        attempt: The attempt that is expected now, from 1.
        ready_at: When the expected attempt was made ready; its first attempt's time is `first_attempt_at`. None: it
            is final, awaits a person, or waits for one of the 8 places for writes.
        not_before: The expected attempt's earliest start; None: at once.
        started: Owner nonce of the last start. Sticky: once set, nobody may say that the call did not run.
        started_attempt: The attempt that started last; 0 when none did.
        claimed_by, claimed_until: As in `ModelStep`.
        requires_approval: Whether a person decides before it runs.
    """

    call_id: str
    tool_name: str
    effect: str
    status: str
    requires_approval: bool = False
    attempt: int = 1
    ready_at: datetime | None = None
    first_attempt_at: datetime | None = None
    not_before: datetime | None = None
    started: str | None = None
    started_attempt: int = 0
    claimed_by: str | None = None
    claimed_until: datetime | None = None

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_STATUSES

    @property
    def is_ready(self) -> bool:
        return self.status == "approved" and self.ready_at is not None

    @property
    def is_read(self) -> bool:
        return self.effect == "read"

    @property
    def runs_once(self) -> bool:
        return self.effect in WRITES_ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStep:
    """The model step that is expected now. `step_id` is `model-<version>-<index>`.

    `claimed_by` is set when the worker whose commit made the step ready goes on with it itself (the hot turn): its
    nonce stands for a lease until `claimed_until`, and nothing is sent.
    """

    step_id: str
    attempt: int
    ready_at: datetime
    first_attempt_at: datetime
    not_before: datetime | None = None
    claimed_by: str | None = None
    claimed_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """Something that a person decides. An approval's id is its call's id.

    `fence` is the version that raised it; `arguments_hash` is the SHA-256 of what the person is shown.
    """

    interrupt_id: str
    kind: str
    call_id: str
    raised_at: datetime
    fence: int
    arguments_hash: str
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopMarker:
    """A stop that was recorded and is not settled yet."""

    at: datetime
    disposition: str = "keep"
    actor: Actor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The running turn.

    Attributes:
        opened_version: Version of the commit that started it.
        first_sequence: Sequence of its user message.
        model_calls: Model steps that have been committed in this turn.
        model_version: Version of the last model commit: where the arguments of `calls` and the run state are.
        step: The model step that is expected, if any. Never together with unfinished calls.
        calls: The calls of the last model response, in the model's order.
        denied: Tool and arguments of the calls that a person declined in this turn (field case F053).
        usage: What its provider calls have used so far.
    """

    turn_id: str
    opened_version: int
    first_sequence: int
    message_id: str
    started_at: datetime
    model_calls: int = 0
    model_version: int | None = None
    step: ModelStep | None = None
    calls: tuple[Call, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    stop: StopMarker | None = None
    denied: tuple[str, ...] = ()
    usage: UsageTotals = NO_TOTALS

    def call(self, call_id: str) -> Call | None:
        """Return the call with this id, or None."""
        return next((call for call in self.calls if call.call_id == call_id), None)

    def with_call(self, changed: Call) -> Turn:
        """Return this turn with one call replaced."""
        return replace(self, calls=tuple(changed if c.call_id == changed.call_id else c for c in self.calls))

    @property
    def open_calls(self) -> tuple[Call, ...]:
        return tuple(call for call in self.calls if not call.is_final)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedTurn:
    """The latest turn that ended: `completed`, `failed` or `cancelled`."""

    turn_id: str
    opened_version: int
    closed_version: int
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """An accepted message that waits for its turn; its text is in the entry of `input_version`."""

    message_id: str
    input_version: int
    delivery: str = "queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnError:
    """Why the latest turn failed (codes: surface §4.2)."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A session's control record. Version 0 is a session that was never written.

    Attributes:
        version: Commits so far; survives a purge, so that an old writer's condition never holds again.
        turn_count: Turns started so far; the n-th is `turn-<n>`.
        message_sequence: The last message sequence given.
        event_sequence: The last event sequence given.
        deleted_before: Versions below this one may have been deleted by retention. None: all are there.
        preview: Start of the newest user text or answer, for lists.
    """

    version: int = 0
    agent: str | None = None
    owner: Actor | None = None
    created_at: datetime | None = None
    last_activity_at: datetime | None = None
    turn_count: int = 0
    message_sequence: int = 0
    event_sequence: int = 0
    interaction_mode: str = "chat"
    turn: Turn | None = None
    inbox: tuple[QueuedMessage, ...] = ()
    last_turn: ClosedTurn | None = None
    last_turn_error: TurnError | None = None
    usage: UsageTotals = NO_TOTALS
    deleted_before: int | None = None
    preview: str = ""
    schema_version: int = 1  # what a record that does not say it has; never changes

    @property
    def exists(self) -> bool:
        """Whether anything was ever accepted (a purged session reads as never written)."""
        return self.agent is not None

    @property
    def status(self) -> str:
        """The public status (spec SESS-03)."""
        if self.turn is None:
            return "waiting_for_user_message"
        return "running_model" if self.turn.step is not None else "running_tools"
