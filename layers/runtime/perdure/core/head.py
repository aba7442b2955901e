"""HEAD: the one small control record of a session. It holds all that a decision needs and nothing more.

Frozen values; a transition returns a new one. Arguments, outputs and texts are never here, only where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perdure.core.entries import Actor
from perdure.core.open_calls import (
    FINAL_STATUSES,
    READY_STATUSES,
    WRITES_ONCE,
    Call,
    Cancellation,
    Interrupt,
    ModelStep,
    Task,
    Titling,
    Wait,
)
from perdure.core.usage import NO_TOTALS, UsageTotals
from perdure.core.values import replace

__all__ = [
    "FINAL_STATUSES",
    "READY_STATUSES",
    "SCHEMA_VERSION",
    "WRITES_ONCE",
    "Call",
    "Cancellation",
    "ClosedTurn",
    "Frontier",
    "Grant",
    "Head",
    "Hold",
    "Interrupt",
    "ModelStep",
    "QueuedMessage",
    "Schedule",
    "StopMarker",
    "Task",
    "Titling",
    "Turn",
    "TurnError",
    "Wait",
]

SCHEMA_VERSION = 3
"""Version of HEAD's stored form; a reader refuses a higher one (spec SESS-22). 2: control of a session. 3: waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """What a screen showed when its user stopped the turn (spec STOP-05).

    Everything up to the entry of `version`, and of the model step that ran then its first `text` and `reasoning`
    characters. None: how much is not known any more, so nothing of it is cut.
    """

    version: int
    text: int | None = None
    reasoning: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopMarker:
    """A stop that was recorded and is not settled yet.

    `reason` is `stopped`, or `interrupted` or `superseded` by a message.
    """

    at: datetime
    disposition: str = "keep"
    actor: Actor | None = None
    reason: str = "stopped"
    frontier: Frontier | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """An accepted message that waits in the inbox, whose order is that of `Head.inbox` (spec U-2).

    Attributes:
        input_version: The entry that holds its text; of an edited one the last edit's.
        arrived: Version that accepted it. 0: `input_version`, as older versions wrote it.
        delivery: How it is delivered while it waits: `queue`, `inject`, `steer` or `passive`.
        urgent: It goes before all that are not.
        coalesce: It shares one turn with its like that wait with it.
        hold: A failure of its turn holds the inbox (spec U-6).
        run_settings: Its input has settings for its own turn.
    """

    message_id: str
    input_version: int
    delivery: str = "queue"
    arrived: int = 0
    urgent: bool = False
    coalesce: bool = False
    hold: bool = False
    run_settings: bool = False

    @property
    def accepted_version(self) -> int:
        return self.arrived or self.input_version

    @property
    def is_passive(self) -> bool:
        return self.delivery == "passive"

    @property
    def is_steered(self) -> bool:
        return self.delivery == "steer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The running turn.

    Attributes:
        opened_version: Version of the commit that started it.
        first_sequence: Sequence of its last user message, or the last sequence before it when it has none.
        model_calls: Model steps that have been committed in this turn.
        model_version: Version of the last model commit: where the arguments of `calls` and the run state are.
        step: The model step that is expected, if any. Never together with unfinished calls.
        calls: The calls of the last model response, in the model's order.
        denied: Tool and arguments of the calls that a person declined in this turn (field case F053).
        usage: What its provider calls have used so far.
        steer: Whether it ends at the next safe boundary, for the steered messages in the inbox (spec INBOX-05).
        joined: Messages that were injected into it; they are absorbed with its answer, or go back to the inbox.
        reconnects: Provider calls of it that were sent again; one budget for the whole turn (spec U-7).
        settings_version: The entry that holds the settings it is bound to (spec SET-02).
        run_settings_version: The entry whose input has settings for this turn alone (spec SET-06).
        hold: Whether its failure holds the inbox.
        controls: What it understands: 1 = stop and steer. A turn that an older version began has 0 (spec SESS-21).
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
    steer: bool = False
    joined: tuple[QueuedMessage, ...] = ()
    reconnects: int = 0
    settings_version: int | None = None
    run_settings_version: int | None = None
    hold: bool = False
    controls: int = 0

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
    """The latest turn that ended: `completed`, `failed`, `cancelled` or `steered`.

    `reason` says more of it: `model_call_limit`, a stop's reason, and so on (spec SESS-10). The other fields are what
    a retry of a failed turn goes on with.
    """

    turn_id: str
    opened_version: int
    closed_version: int
    outcome: str
    reason: str | None = None
    message_id: str = ""
    model_calls: int = 0
    model_version: int | None = None
    denied: tuple[str, ...] = ()
    run_settings_version: int | None = None
    hold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnError:
    """Why the latest turn failed (codes: surface §4.2)."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Why no next turn begins after one that failed (spec U-6).

    `reason` None: until somebody retries or dismisses it. `auth`, `credits`: also until the model's credential is
    another one than `credential`, a hash of it.
    """

    at: datetime
    reason: str | None = None
    credential: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """An approval that was given ahead, for calls of one tool with the same values in some fields.

    `match` is `grants.scope_match` of those; `uses_left` None: as often as asked for until it expires.
    """

    grant_id: str
    tool_name: str
    match: str
    expires_at: datetime
    fields: tuple[str, ...] = ()
    uses_left: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule's next occurrence; what it sends is in the entry of `version`.

    Attributes:
        fence: Of its timer: the version that set the time.
        slot: When the occurrence is due by the schedule.
        moved_to: When it is due instead, because somebody moved it. None: at its slot.
        number: Of the occurrence, from 1.
        content: A hash of what was asked for, by which the same schedule is recognised.
        set_at: When it was asked for.
        attempt: Of this occurrence, from 1.
        retry_at: When it is tried again. None: it was not tried yet.
    """

    schedule_id: str
    version: int
    fence: int
    slot: datetime
    number: int
    content: str
    set_at: datetime
    attempt: int = 1
    retry_at: datetime | None = None
    moved_to: datetime | None = None

    @property
    def planned_at(self) -> datetime:
        return self.moved_to or self.slot

    @property
    def due_at(self) -> datetime:
        return self.retry_at or self.planned_at


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
        paused_at: The gate for new steps and turns is closed since then (spec U-13).
        hold: The inbox waits, because the latest turn failed.
        settings_version: The entry that holds the session's settings. None: there are none.
        approval_mode: What a person changed it to while calls may be running (spec APPR-08). None: the agent's.
        closed_at: It takes no more messages since then (spec SESS-19).
        cancellations: Remote work of calls that are over, which is asked to stop.
        title: What the session is called, if it has a name; `titled_by` a `person` or the `model`.
        titling: The step that has a title written.
        schedules: Messages that come by themselves.
        grants: Approvals that were given ahead.
        requests: Values that the application asks for.
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
    paused_at: datetime | None = None
    hold: Hold | None = None
    settings_version: int | None = None
    approval_mode: str | None = None
    closed_at: datetime | None = None
    cancellations: tuple[Cancellation, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    grants: tuple[Grant, ...] = ()
    requests: tuple[Interrupt, ...] = ()
    title: str | None = None
    titled_by: str | None = None
    titling: Titling | None = None
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
