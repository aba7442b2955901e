"""What HEAD keeps of steps and calls that are not over, and of what they wait for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

FINAL_STATUSES = frozenset({"succeeded", "failed", "rejected", "outcome_unknown"})
"""Statuses of a call that never change again (spec TOOL-04)."""

WRITES_ONCE = frozenset({"non_idempotent_write", "unclassified"})
"""Effects whose body runs at most once (design §1)."""


READY_STATUSES = ("approved", "waiting_for_task")
"""Statuses of a call in which a worker may be at it, once it was made ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What an open call waits for that is neither a worker nor a person.

    Attributes:
        kind: `timer` (a durable wait, or a tool's own sleep), `event` (of a name, from outside), `task` (the next
            look at it is too far away for a queue) or `result` (trusted code brings it).
        until: When it ends by itself: a timer with this fence fires then. None: never.
        fence: The version that set it; a change of the time is another fence.
        name: Of the sleep or the event inside its tool.
    """

    kind: str
    since: datetime
    fence: int
    until: datetime | None = None
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Remote work that a call has started, or an outcome that is being looked up.

    Attributes:
        kind: `task`, or `reconcile`: what became of an attempt whose outcome is not known.
        version: The entry that holds what the next look is told (`CallFact` of kind `task`).
        started_version: The entry that holds its handle. 0: `version`.
        since: When it was started.
        looks: Looks that told that it is still pending.
        resolution: The entry that holds what a person answered; told with every look until one has ended (TASK-04).
    """

    kind: str
    version: int
    since: datetime
    started_version: int = 0
    looks: int = 0
    resolution: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call of the running model response.

    Attributes:
        call_id: Ours: `call-<version>-<index>`; also the id of its step and of its approval.
        effect: `read`, `idempotent_write`, `non_idempotent_write` or `unclassified`.
        status: `awaiting_approval`, `approved`, `awaiting_answer`, `waiting_for_timer`, `waiting_for_event`,
            `waiting_for_task`, or one of `FINAL_STATUSES`.
        attempt: The attempt that is expected now, from 1.
        ready_at: When the expected attempt was made ready; its first attempt's time is `first_attempt_at`. None: it
            is final, awaits a person, or waits for one of the 8 places for writes.
        not_before: The expected attempt's earliest start; None: at once.
        started: Owner nonce of the last start. Sticky: once set, nobody may say that the call did not run.
        started_attempt: The attempt that started last; 0 when none did.
        claimed_by, claimed_until, spared: As in `ModelStep`.
        requires_approval: Whether a person decides before it runs.
        built_in: It is one of ours: nobody runs it, its result is decided here.
        lane: Of the calls with the same one, one runs at a time (spec TOOL-18).
        reconciles: Its tool can look up what became of an attempt whose outcome is not known.
        wait: What it waits for, but for a worker and a person.
        task: Remote work of it.
        records: Entries that hold facts about it (`CallFact`), oldest first: changed arguments, questions, answers,
            recorded steps.
        questions: Questions that its tool has asked.
        parked: Its tool has done something in steps of its own, so nobody may say that it did nothing.
        arrived: Names of the events that came for it.
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
    spared: int = 0
    built_in: bool = False
    lane: str | None = None
    reconciles: bool = False
    wait: Wait | None = None
    task: Task | None = None
    records: tuple[int, ...] = ()
    questions: int = 0
    parked: bool = False
    arrived: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_STATUSES

    @property
    def is_ready(self) -> bool:
        return self.ready_at is not None and self.status in READY_STATUSES

    @property
    def holds_a_place(self) -> bool:
        """Whether it takes one of the places for writes: not while it only waits, or is only looked after."""
        return self.ready_at is not None and self.status == "approved" and not self.is_read

    @property
    def holds_lane(self) -> bool:
        """Whether the others of its lane wait for it: from start to end, its sleeps and remote work included."""
        begun = self.ready_at is not None or self.task is not None or self.parked
        return self.lane is not None and begun and not self.is_final

    @property
    def has_begun_and_waits(self) -> bool:
        """Whether it may take effect though no worker of ours is at it: remote, at its provider, between two parts."""
        return self.task is not None or self.parked or (self.wait is not None and self.wait.kind == "result")

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
    nonce stands for a lease until `claimed_until`, and nothing is sent. `spared`: attempts that never ran or only
    waited, and so count for no budget. `waiting_since`: a reconnect was put off until `not_before`.
    """

    step_id: str
    attempt: int
    ready_at: datetime
    first_attempt_at: datetime
    not_before: datetime | None = None
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    spared: int = 0
    waiting_since: datetime | None = None

    def waits(self, now: datetime) -> bool:
        """Whether nobody runs it, because its time has not come. Once it has, a worker may be at it at any moment."""
        return self.waiting_since is not None and self.not_before is not None and now < self.not_before


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """Something that a person decides. The id of an approval, and of a question to the user, is its call's id.

    Attributes:
        kind: `approval`, `question`, or `input`: a value that trusted code asks for.
        call_id: Empty for an `input`, which belongs to the session.
        raised_at: None: with approvals one at a time, its turn has not come.
        fence: Of its deadline's timer: the version that raised it, or that moved the deadline.
        arguments_hash: SHA-256 of what the person is shown; empty for what is no approval.
        decide_in_ms: How long a person has, from when it is raised.
        free_text: A question takes any text, not only one of its choices.
        asked_version: The entry that raised it, if that is not `fence`.
    """

    interrupt_id: str
    kind: str
    call_id: str
    raised_at: datetime | None
    fence: int
    arguments_hash: str = ""
    deadline: datetime | None = None
    decide_in_ms: int | None = None
    free_text: bool = False
    asked_version: int = 0

    @property
    def raised_version(self) -> int:
        return self.asked_version or self.fence


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """Remote work that is asked to stop, by a step of its own. Best effort: nobody waits for it (spec TASK-08).

    Attributes:
        task_version: The entry that holds the work's handle.
        not_before: The expected attempt's earliest start; None: at once.
    """

    step_id: str
    call_id: str
    turn_id: str
    tool_name: str
    task_version: int
    attempt: int
    ready_at: datetime
    first_attempt_at: datetime
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Titling:
    """A title that a model is asked for, by a step of its own that no turn waits for (spec TITLE-01)."""

    step_id: str
    attempt: int
    ready_at: datetime
    first_attempt_at: datetime
    not_before: datetime | None = None
