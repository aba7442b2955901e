"""The ports: what the runtime needs from the outside. Two adapter sets implement them: `embedded/` and `aws/`.

One suite per port (`perdure.testing.conformance`) runs against both sets; whoever writes another runs it too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

from perdure.core.commands import ToolFinished
from perdure.core.decision import Decision
from perdure.core.entries import Actor, Entry, Receipt
from perdure.core.expected import Dispatch, Timer
from perdure.core.head import Head

JsonObject = dict[str, Any]


class SessionKey(NamedTuple):
    """Which session: a tenant and an id that the application chose. Another tenant's is another session."""

    tenant: str
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A session as a strongly consistent read saw it.

    Attributes:
        head: `Head()` for a session that was never written; a purged one keeps version and counters.
        receipts: Those that were asked for and exist, by key hash.
        recent: The newest entries, as far as they came along without a read of their own: gapless, up to HEAD's
            version, oldest first. May be empty.
        to_settle: So much is in HEAD's tail that `settle` is worth its writes by now.
        token: What the adapter wants to see again at the commit; nobody else looks at it.
    """

    head: Head
    receipts: Mapping[str, Receipt] = field(default_factory=dict)
    recent: tuple[Entry, ...] = ()
    to_settle: bool = False
    token: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSlice:
    """A coherent piece of a session's log: `head` and a gapless run of its entries, oldest first."""

    head: Head
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """One row of the session list. `cursor` is opaque and leads to the rows behind this one."""

    session_id: str
    head: Head
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """Summaries, newest activity first. `next_cursor` is opaque; None: that was all."""

    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None


class SessionStore(Protocol):
    """Sessions: one HEAD and one log of immutable entries each.

    Every method may raise `StoreUnavailableError`: no answer came; after a `commit` the outcome is then unknown.
    """

    async def load(self, key: SessionKey, receipt_keys: Sequence[str] = ()) -> Loaded:
        """Read HEAD, then the receipts with these key hashes; strongly consistent, in this order (races.md X1)."""
        ...

    async def peek(self, key: SessionKey) -> Head:
        """Read HEAD, possibly a moment old. For stop markers and viewers, never for a decision."""
        ...

    async def commit(self, key: SessionKey, loaded: Loaded, decision: Decision) -> Loaded:
        """Commit one decision: its new head and its entry, in one conditional write.

        Returns the session as it is with this commit, to decide on again without a read.

        The write holds only while the stored session is still at `loaded.head.version`, so of two attempts that
        read the same version exactly one commits. A commit whose answer was lost is recognised by its `commit_id`
        and counts as done, even if its entry has left the tail meanwhile (races.md X2).

        Raises:
            StaleSessionError: Another commit came first. Nothing was written.
            StoreUnavailableError: The outcome is unknown; look with `find_commit` before deciding again.
            ItemTooLargeError: The entry fits nowhere. Nothing was written.
        """
        ...

    async def find_commit(self, key: SessionKey, commit_id: str, versions: Sequence[int]) -> Entry | None:
        """Return the entry that a command committed as one of these versions, strongly consistent, or None."""
        ...

    async def read(
        self,
        key: SessionKey,
        *,
        first: int | None = None,
        last: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> LogSlice:
        """Read HEAD and the entries of versions `first` to `last`, both included, as one coherent snapshot.

        Entries come oldest first, cut at HEAD's version, without gaps. With a `limit` they are the oldest ones of
        the range, or with `newest` the newest. Entries below `head.deleted_before` may be missing.
        """
        ...

    async def settle(self, key: SessionKey) -> None:
        """Make entries that are only in HEAD's tail durable on their own.

        Done while a model or a tool works, when `Loaded.to_settle` says that it is time.
        """
        ...

    async def list_sessions(
        self, tenant: str, owner: Actor, *, cursor: str | None = None, limit: int = 50
    ) -> SessionPage:
        """Return an owner's sessions, newest activity first; at most `limit` (1-200).

        Raises:
            InvalidRequestError: `invalid_cursor`.
        """
        ...

    async def sessions_due(self, now: datetime, limit: int = 1000) -> Sequence[SessionKey]:
        """Return sessions whose `sweep_due_at` has come, the longest overdue first."""
        ...

    async def postpone(self, key: SessionKey, version: int, due_at: datetime) -> None:
        """Have the sweep look again at `due_at`, if the session is still at this version. Never an error."""
        ...


RevokeResult = Literal["alive", "claimed", "unclaimed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who runs a step's attempt, or that the attempt was given up (`revoked`).

    `claimed` is False only for a revoked attempt that nobody had claimed. `checkpoint` is the last text that this
    attempt saved, or an earlier one if it has saved none; None when there is none.
    """

    attempt: int
    owner: str
    expires_at: datetime
    claimed: bool = True
    revoked: bool = False
    checkpoint: str | None = None


class Leases(Protocol):
    """One lease item per step. An attempt is claimed at most once, never reclaimed; items outlive their step.

    The item also holds the step's checkpoint, which claims, renewals and revocations leave as it is.
    """

    async def claim(self, key: SessionKey, step_id: str, attempt: int, owner: str, expires_at: datetime) -> bool:
        """Claim an attempt. False: it, or a later one, was claimed or revoked before.

        A claim of the same owner whose answer was lost is recognised and holds.
        """
        ...

    async def renew(self, key: SessionKey, step_id: str, attempt: int, owner: str, expires_at: datetime) -> bool:
        """Move the expiry of a claim. False: the attempt was revoked or replaced, so the work must stop."""
        ...

    async def revoke(self, key: SessionKey, step_id: str, attempt: int, now: datetime) -> RevokeResult:
        """Make sure that an attempt never runs (again), if nobody holds it.

        Returns:
            `alive`: its claim has not expired `LEASE_GRACE` ago; nothing was changed. `claimed`: it had been
            claimed and is revoked now. `unclaimed`: nobody had claimed it, and nobody ever will. Repeating a
            revocation gives the same answer.
        """
        ...

    async def save_checkpoint(self, key: SessionKey, step_id: str, attempt: int, owner: str, text: str) -> bool:
        """Replace a step's checkpoint, for whoever claims a later attempt. The expiry of the claim stays as it is.

        A checkpoint may be lost, with the machine for instance: it is a hint for the next attempt and proves nothing.

        Returns:
            False: this owner does not hold this attempt (any more); nothing was changed.

        Raises:
            InvalidRequestError: The text is larger than `MAX_CHECKPOINT_BYTES`, or no valid Unicode.
        """
        ...

    async def read_lease(self, key: SessionKey, step_id: str) -> Lease | None:
        """Return a step's lease, strongly consistent."""
        ...


class Results(Protocol):
    """Outcomes of tools on their way to a commit, so that one commit can take many (races.md X14)."""

    async def put(self, key: SessionKey, result: ToolFinished) -> None:
        """Make an attempt's outcome known, once: putting it again changes nothing. From then on it is never lost.

        Raises:
            StoreUnavailableError: No answer came.
        """
        ...

    async def of_turn(self, key: SessionKey, turn_id: str) -> Sequence[ToolFinished]:
        """Return all outcomes of a turn's calls that were put, strongly consistent, those that were taken included."""
        ...


class StepQueue(Protocol):
    """Carries ids to workers: at least once, in any order, with delays. A message is a hint and never trusted."""

    async def send(self, key: SessionKey, dispatch: Dispatch) -> None:
        """Have a step's attempt run, not before `dispatch.not_before`."""
        ...


class Timers(Protocol):
    """Fires timers at or after their time, at least once. Another fence makes another timer (races.md X12)."""

    async def set(self, key: SessionKey, timer: Timer) -> None:
        """Set a timer; setting the same one again changes nothing."""
        ...

    async def cancel(self, key: SessionKey, timer: Timer) -> None:
        """Remove a timer if it is still there. Best effort: a stale timer does nothing when it fires."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEvent:
    """Something that a viewer may see before the commit: progress, or the early word of a durable event."""

    type: str
    at: datetime
    payload: JsonObject = field(default_factory=dict)


PROGRESS_GAP = "progress.gap"
"""The live event that ends an attempt's progress before its commit: what follows it was not kept (spec EVT-06)."""


class LiveChannel(Protocol):
    """Progress of running steps, and the word that a session changed. Best effort: the log is the truth."""

    async def publish(
        self, key: SessionKey, turn_id: str, step_id: str, attempt: int, events: Sequence[LiveEvent]
    ) -> None:
        """Append progress of a step's attempt, in order, and wake its viewers. Must not raise for a lost viewer.

        What a session's open attempts keep is bounded. What does not fit any more is left out, and so is all that
        follows it in its attempt; a last event, `PROGRESS_GAP`, says so. Viewers see the rest with the commit.
        """
        ...

    async def progress(self, key: SessionKey, step_id: str, attempt: int, after: int = 0) -> Sequence[LiveEvent]:
        """Return the progress of an attempt from its `after`-th event on."""
        ...

    async def changed(self, key: SessionKey, head: Head) -> None:
        """Tell viewers that a commit was made. Subscriptions are read now, after the commit (races.md X13)."""
        ...

    async def wait(self, key: SessionKey, *, version: int, seen: int, timeout_seconds: float) -> None:
        """Return when the session is past `version`, or its open steps have more than `seen` progress events in
        all, or the time is over, whichever comes first. May return early."""
        ...


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after this many seconds."""
        ...


class NewId(Protocol):
    """The only source of randomness: commit ids and owner nonces."""

    def __call__(self) -> str:
        """Return a new unique id of at most 32 characters of `[a-z0-9]`."""
        ...


def _nobody_waits(_: SessionKey) -> AbstractAsyncContextManager[Any]:
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """One adapter set.

    Attributes:
        progress_interval_seconds: How long progress is gathered before it is published; 0: it goes out at once.
        results: Where outcomes wait for a common commit when many are in flight. None: each is committed alone.
        in_process: Everything is answered from this process: asking two ports side by side gains nothing.
        turnstile: Held while a command of a session is decided and committed. Where all commands come from one
            process it lets them through one by one; the commit's condition alone keeps them apart, but of many at
            once each would lose race after race.
    """

    store: SessionStore
    leases: Leases
    queue: StepQueue
    timers: Timers
    live: LiveChannel
    clock: Clock
    new_id: NewId
    results: Results | None = None
    progress_interval_seconds: float = 0.0
    in_process: bool = False
    turnstile: Callable[[SessionKey], AbstractAsyncContextManager[Any]] = _nobody_waits
