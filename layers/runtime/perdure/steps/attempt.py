"""One claimed attempt of a step: it holds the lease, watches for a stop, and knows its deadline."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from perdure.core.expected import expected_dispatches
from perdure.core.head import Head, Turn
from perdure.core.limits import LEASE_DURATION, LEASE_RENEWAL
from perdure.errors import StoreUnavailableError
from perdure.ports import Ports, SessionKey
from perdure.steps.base import StepMessage
from perdure.steps.commit import resend_unclaimed

T = TypeVar("T")

STEP_BUDGET = timedelta(minutes=15)
"""Longest run of one attempt (spec MODEL-02); a host with less time passes an earlier deadline."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A claim that holds.

    Attributes:
        head: The session as it was when the attempt was claimed.
        owner: The nonce by which a lost answer is recognised.
        abort: Set when the turn is being stopped or the work is to be cut off; a tool may look at it.
        cut: Set when the lease was lost or the deadline has passed: the work has to end now.
        lost: Somebody gave this attempt up; its outcome is not wanted any more.
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

    @property
    def timed_out(self) -> bool:
        return self.ports.clock.now() >= self.deadline

    async def watch(self, interval_seconds: float) -> None:
        """Renew the lease every 20 s and look for a stop every `interval_seconds`, until the work has to end."""
        clock = self.ports.clock
        renew_at = self.started_at + LEASE_RENEWAL
        while not self.cut.is_set():
            left = (self.deadline - clock.now()).total_seconds()
            await clock.sleep(max(min(interval_seconds, left), 0))
            try:
                if clock.now() >= renew_at:
                    renew_at = clock.now() + LEASE_RENEWAL
                    self.lost = not await self._renewed()
                if not self.abort.is_set() and self._is_over(await self.ports.store.peek(self.key)):
                    self.abort.set()
            except StoreUnavailableError:
                continue  # the lease is good for 120 s; the next look may succeed
            if self.lost or self.timed_out:
                self.abort.set()
                self.cut.set()

    async def _renewed(self) -> bool:
        expires = self.ports.clock.now() + LEASE_DURATION
        return await self.ports.leases.renew(self.key, self.step_id, self.number, self.owner, expires)

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
        """
        task = asyncio.ensure_future(work)
        end = asyncio.ensure_future((self.abort if cancel_on_abort else self.cut).wait())
        try:
            await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            end.cancel()
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task


@contextlib.asynccontextmanager
async def claimed(
    ports: Ports,
    message: StepMessage,
    *,
    deadline: datetime | None,
    watch_seconds: float,
) -> AsyncIterator[Attempt | None]:
    """Claim an attempt, and hold it while the body runs. Yields None when there is nothing to do.

    The claim and the load of HEAD go out together: a claim that holds proves that nobody gave the attempt up, so a
    HEAD that expects it is current enough. Old news is acknowledged only after what HEAD expects was sent again.
    """
    owner = ports.new_id()
    started_at = ports.clock.now()
    holds, loaded = await asyncio.gather(
        ports.leases.claim(message.key, message.step_id, message.attempt, owner, started_at + LEASE_DURATION),
        ports.store.load(message.key),
    )
    head = loaded.head
    if head.turn is None or not _is_expected(head, message):
        await resend_unclaimed(ports, message.key, head)
        yield None
        return
    if not holds:
        yield None
        return
    limit = started_at + STEP_BUDGET
    attempt = Attempt(
        ports=ports,
        key=message.key,
        step_id=message.step_id,
        number=message.attempt,
        head=head,
        turn=head.turn,
        owner=owner,
        started_at=started_at,
        deadline=min(limit, deadline) if deadline else limit,
    )
    watcher = asyncio.create_task(attempt.watch(watch_seconds))
    try:
        yield attempt
    finally:
        watcher.cancel()


def _is_expected(head: Head, message: StepMessage) -> bool:
    return any((d.step_id, d.attempt) == (message.step_id, message.attempt) for d in expected_dispatches(head))
