"""One claimed attempt of a step: it holds the lease, watches for a stop, and knows its deadline."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from perdure.agents.waiting import AttemptOver, Parked, ToolInputRequested
from perdure.core.checkpoints import check_checkpoint
from perdure.core.commands import AttemptPutOff, StepCommand, Taker
from perdure.core.entries import Entry
from perdure.core.expected import Dispatch, awaited_steps, expected_dispatches
from perdure.core.head import Head, Turn
from perdure.core.ids import version_of
from perdure.core.limits import LEASE_DURATION, LEASE_RENEWAL
from perdure.errors import PerdureError, StoreUnavailableError
from perdure.operator_events import tell
from perdure.ports import Loaded, Ports, SessionKey
from perdure.steps.base import StepMessage
from perdure.steps.commit import Executed, despite_outages, execute, resend_unclaimed, set_timers_again

T = TypeVar("T")

STEP_BUDGET = timedelta(minutes=15)
"""Longest run of one attempt (spec MODEL-02); a host with less time passes an earlier deadline."""

MOST_AHEAD = 64
"""Entries that are read beside HEAD at most, about those of 16 turns; a container that knows less reads on. Ours."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A claim that holds.

    Attributes:
        head: The session as it was when the attempt was claimed.
        owner: The nonce by which a lost answer is recognised.
        abort: Set when the turn is being stopped or the work is to be cut off; a tool may look at it.
        cut: Set when the lease was lost or the deadline has passed: the work has to end now.
        lost: Somebody gave this attempt up; its outcome is not wanted any more.
        known: The session as this worker saw it last.
        host_deadline: When the host ends this worker. None: it does not.
        leased: There is a lease item. A step that was taken in the commit that made it ready gets its item with the
            first renewal.
        settling: Makes the entries of the tail durable on their own while the work runs. None: nothing has to be.
        goes_on: This worker goes on after the attempt, so nothing waits for `settling`: a later commit profits from it.
    """

    ports: Ports
    key: SessionKey
    step_id: str
    number: int
    head: Head
    turn: Turn
    owner: str
    started_at: datetime
    deadline: datetime
    abort: asyncio.Event = field(default_factory=asyncio.Event)
    cut: asyncio.Event = field(default_factory=asyncio.Event)
    lost: bool = False
    known: Loaded | None = None
    host_deadline: datetime | None = None
    leased: bool = True
    settling: asyncio.Task[None] | None = None
    goes_on: bool = False
    _working: asyncio.Task[Any] | None = None
    _ends_on_abort: bool = False
    _ended: bool = False
    _seen_version: int = 0

    def __post_init__(self) -> None:
        self._seen_version = self.head.version

    @property
    def timed_out(self) -> bool:
        return self.ports.clock.now() >= self.deadline

    def named(self, call_id: str) -> dict[str, Any]:
        """Return what every command about a tool's attempt begins with."""
        return {
            "turn_id": self.turn.turn_id,
            "call_id": call_id,
            "attempt": self.number,
            "started_at": self.started_at,
        }

    async def watch(self, interval_seconds: float) -> None:
        """Renew the lease every 20 s and look for a stop every `interval_seconds`, until the work has to end."""
        clock = self.ports.clock
        renew_at = self.started_at + LEASE_RENEWAL
        while not self.cut.is_set():
            left = (self.deadline - clock.now()).total_seconds()
            await self._rest(max(min(interval_seconds, left), 0))
            try:
                if clock.now() >= renew_at:
                    renew_at = clock.now() + LEASE_RENEWAL
                    self.lost = not await self._renewed()
                head = await self.ports.store.peek(self.key)
                self._seen_version = max(self._seen_version, head.version)
                if not self.abort.is_set() and self._is_over(head):
                    self.abort.set()
                    self._end_work()
            except Exception as error:  # noqa: BLE001  the lease is good for 120 s; the next look may succeed
                if not isinstance(error, StoreUnavailableError):
                    tell("fault", "a running step could not be watched", error=error, session_id=self.key.session_id)
                await clock.sleep(interval_seconds)
            if self.lost or self.timed_out:
                self.abort.set()
                self.cut.set()
                self._end_work()

    async def _rest(self, seconds: float) -> None:
        """Wait until it is time to look again; in one process the word of a commit comes at once."""
        if self.ports.in_process:
            await self.ports.live.wait(self.key, version=self._seen_version, seen=sys.maxsize, timeout_seconds=seconds)
        else:
            await self.ports.clock.sleep(seconds)

    def _end_work(self) -> None:
        """Cancel the work if it has to end by now."""
        if self._working is not None and not self._ended and (self.cut.is_set() or self._ends_on_abort):
            self._ended = True
            self._working.cancel()

    async def _renewed(self) -> bool:
        hold = self.ports.leases.renew if self.leased else self.ports.leases.claim
        held = await hold(self.key, self.step_id, self.number, self.owner, self.ports.clock.now() + LEASE_DURATION)
        self.leased = True
        return held

    async def checkpoint(self) -> str | None:
        """Return what an earlier attempt of this step saved last. One that can't be read is lost, as any may be."""
        if self.number == 1:
            return None
        try:
            lease = await self.ports.leases.read_lease(self.key, self.step_id)
        except StoreUnavailableError:
            return None
        return lease.checkpoint if lease is not None else None

    async def save_checkpoint(self, text: str) -> bool:
        """Keep a text for the next attempt of this step. False: it may not have been kept. When this
        attempt was given up, the work is cut off here, as after a renewal that failed.

        Raises:
            InvalidRequestError: The text can't be a checkpoint.
        """
        check_checkpoint(text)
        try:
            held = self.leased or await self._renewed()
            if held and await self.ports.leases.save_checkpoint(self.key, self.step_id, self.number, self.owner, text):
                return True
        except StoreUnavailableError:
            return False
        self.lost = True
        self.abort.set()
        self.cut.set()
        asyncio.get_running_loop().call_soon(self._end_work)  # not now: the work may be the task that runs
        await asyncio.sleep(0)
        return False

    def at_hand(self, first: int) -> tuple[Entry, ...]:
        """Return the entries from a version to that of `head` if they came along with it, else none."""
        recent = self.known.recent if self.known is not None else ()
        if not recent or recent[0].version > first or recent[-1].version != self.head.version:
            return ()
        return tuple(entry for entry in recent if entry.version >= first)

    async def entries(self, first: int, last: int) -> tuple[Entry, ...]:
        """Read entries of the log, from one version to another. An outage that passes costs a wait and no attempt.

        Raises:
            StoreUnavailableError: It did not pass.
        """
        return (
            await despite_outages(self.ports, lambda: self.ports.store.read(self.key, first=first, last=last))
        ).entries

    async def commit(self, command: StepCommand, *, taker: Taker | None = None) -> Executed:
        """Carry out a command of this step, on what this worker knows if that is still current."""
        if self.settling is not None and not self.goes_on:  # what is settled now leaves HEAD with this very commit
            await asyncio.wait({self.settling})
        known = self.known
        if known is not None and len(expected_dispatches(known.head)) > 1:
            known = None  # a sibling has most likely written since, and a lost write costs more than a read
        executed = await execute(self.ports, self.key, command, taker=taker, known=known)
        self.known = executed.known
        return executed

    def _is_over(self, head: Head) -> bool:
        if head.version < self.head.version:
            return False  # a read that is a moment old
        if head.turn is None or head.turn.turn_id != self.turn.turn_id:
            return True
        return head.turn.stop is not None

    async def run(self, work: Coroutine[Any, Any, T], *, cancel_on_abort: bool) -> T | None:
        """Run the step's work until it ends, or has to end; with `cancel_on_abort` a stop ends it too.

        Returns:
            The work's result, or None when it was cut off. A cut-off `def` tool goes on in its thread.

        Raises:
            RuntimeError: The work ended with something that is no `Exception`.
        """
        if self.cut.is_set() or (cancel_on_abort and self.abort.is_set()):
            work.close()
            return None
        task = asyncio.current_task()
        assert task is not None
        self._working, self._ends_on_abort = task, cancel_on_abort
        try:
            return await work
        except asyncio.CancelledError as error:
            if self._ended:
                return None
            if task.cancelling():
                raise  # somebody else's cancellation: the worker is being stopped
            raise RuntimeError("the work cancelled itself") from error
        except BaseExceptionGroup as group:
            left_off = _left_off(group)
            if left_off is None and isinstance(group, Exception):
                raise
            raise left_off or RuntimeError(f"the work ended with {type(group).__name__}") from group
        except (Exception, GeneratorExit, KeyboardInterrupt, Parked, AttemptOver):
            raise
        except BaseException as error:  # such as `SystemExit`: it must end neither the worker nor this step's attempt
            raise RuntimeError(f"the work ended with {type(error).__name__}") from error
        finally:
            self._working = None
            if self._ended:
                task.uncancel()


_LEAVES_OFF = (Parked, AttemptOver, ToolInputRequested)


def _left_off(group: BaseExceptionGroup[BaseException]) -> Parked | AttemptOver | ToolInputRequested | None:
    """Return how work left off that did several things at once; None if one of them failed."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    failed = group.split(_LEAVES_OFF)[1]
    return first if failed is None and isinstance(first, _LEAVES_OFF) else None


@contextlib.asynccontextmanager
async def claimed(
    ports: Ports,
    message: StepMessage,
    *,
    deadline: datetime | None,
    watch_seconds: float,
    first: int | None = None,
    aside: list[asyncio.Task[None]] | None = None,
) -> AsyncIterator[Attempt | None]:
    """Claim an attempt, and hold it while the body runs. Yields None when there is nothing to do.

    The claim and the load of HEAD go out together: a claim that holds proves that nobody gave the attempt up, so a
    HEAD that expects it is current enough. Old news is acknowledged only after what HEAD expects was sent again.

    Args:
        first: Version from which on the body will want the log; what is not in HEAD is read beside it.
        aside: As in `taken`, of a worker that goes on after this attempt.
    """
    owner = ports.new_id()
    until = ports.clock.now() + LEASE_DURATION
    holds, loaded = await despite_outages(ports, lambda: _claim_and_load(ports, message, owner, until, first))
    head = loaded.head
    if head.turn is None or not _is_expected(head, message):
        if holds and _waits_for_the_gate(head, message):
            put_off = AttemptPutOff(step_id=message.step_id, attempt=message.attempt)
            head = (await execute(ports, message.key, put_off)).head
        await resend_unclaimed(ports, message.key, head)
        await set_timers_again(ports, message.key, head)
        yield None
        return
    if not holds:
        yield None
        return
    attempt = _attempt(ports, message.key, loaded, message.step_id, message.attempt, owner, deadline)
    async with _watched(attempt, watch_seconds, aside):
        yield attempt


@contextlib.asynccontextmanager
async def taken(
    ports: Ports,
    key: SessionKey,
    known: Loaded,
    dispatch: Dispatch,
    *,
    deadline: datetime | None,
    watch_seconds: float,
    aside: list[asyncio.Task[None]],
) -> AsyncIterator[Attempt]:
    """Hold an attempt that this worker took in the commit that made it ready.

    Args:
        aside: Gets what goes on beside the steps that follow, and has to be awaited in the end.
    """
    assert dispatch.claimed_by is not None, "the step was taken"
    attempt = _attempt(ports, key, known, dispatch.step_id, dispatch.attempt, dispatch.claimed_by, deadline)
    attempt.leased = False
    async with _watched(attempt, watch_seconds, aside):
        yield attempt


def _attempt(
    ports: Ports, key: SessionKey, known: Loaded, step_id: str, number: int, owner: str, deadline: datetime | None
) -> Attempt:
    assert known.head.turn is not None, "a step belongs to a turn"
    now = ports.clock.now()
    return Attempt(
        ports=ports,
        key=key,
        step_id=step_id,
        number=number,
        head=known.head,
        turn=known.head.turn,
        owner=owner,
        started_at=now,
        deadline=min(now + STEP_BUDGET, deadline) if deadline else now + STEP_BUDGET,
        known=known,
        host_deadline=deadline,
    )


@contextlib.asynccontextmanager
async def _watched(
    attempt: Attempt, watch_seconds: float, aside: list[asyncio.Task[None]] | None
) -> AsyncIterator[None]:
    watching = asyncio.create_task(attempt.watch(watch_seconds))
    if attempt.known is not None and attempt.known.to_settle and len(expected_dispatches(attempt.head)) == 1:
        # Of many siblings each would pay for the same puts; the step behind them is alone.
        attempt.settling = asyncio.create_task(attempt.ports.store.settle(attempt.key))
        attempt.goes_on = aside is not None
        if aside is not None:
            aside.append(attempt.settling)
    try:
        yield
    finally:
        watching.cancel()
        if not attempt.ports.in_process:  # a Lambda loop stops with its invocation
            ending: list[asyncio.Task[None]] = [watching]
            if attempt.settling is not None and not attempt.goes_on:
                ending.append(attempt.settling)
            await asyncio.gather(*ending, return_exceptions=True)


async def _claim_and_load(
    ports: Ports, message: StepMessage, owner: str, expires_at: datetime, first: int | None
) -> tuple[bool, Loaded]:
    async def claim() -> bool:
        return await ports.leases.claim(message.key, message.step_id, message.attempt, owner, expires_at)

    if ports.in_process:
        return await claim(), await ports.store.load(message.key)
    holds, loaded, before = await asyncio.gather(
        claim(), ports.store.load(message.key), _read_ahead(ports, message, first)
    )
    return holds, replace(loaded, recent=_joined(before, loaded.recent))


async def _read_ahead(ports: Ports, message: StepMessage, first: int | None) -> tuple[Entry, ...]:
    """Return the newest entries of the log from a version up to the one that made the step, which comes with HEAD."""
    made = version_of(message.step_id)
    if first is None or made is None or first >= made:
        return ()
    try:
        ahead = await ports.store.read(message.key, first=first, last=made - 1, limit=MOST_AHEAD, newest=True)
    except PerdureError:
        return ()  # whoever needs them reads them again, and hears of it
    return ahead.entries


def _joined(before: tuple[Entry, ...], recent: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return both in one run, or only the newest when something is missing between."""
    if not recent or not before or before[-1].version < recent[0].version - 1:
        return recent
    return (*(entry for entry in before if entry.version < recent[0].version), *recent)


def _waits_for_the_gate(head: Head, message: StepMessage) -> bool:
    """Whether a pause alone keeps this attempt from running, so that its claim would be lost for nothing."""
    step = (message.step_id, message.attempt)
    awaited = any((d.step_id, d.attempt) == step and d.claimed_by is None for d in awaited_steps(head))
    return head.paused_at is not None and awaited


def _is_expected(head: Head, message: StepMessage) -> bool:
    step = (message.step_id, message.attempt)
    return any((d.step_id, d.attempt) == step and d.claimed_by is None for d in expected_dispatches(head))
