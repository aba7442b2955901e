"""Load, decide, commit, send: the four moves through which everything happens to a session."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from perdure.core.command import Command, StepCommand, UserCommand
from perdure.core.commands import Taker
from perdure.core.decide import decide
from perdure.core.decision import Decision
from perdure.core.entries import Entry, ReceiptClaim
from perdure.core.expected import Dispatch, expected_dispatches, expected_timers
from perdure.core.head import Head
from perdure.errors import RequestConflictError, StaleSessionError, StoreUnavailableError, TransientError
from perdure.operator_events import tell
from perdure.ports import Loaded, Ports, SessionKey

logger = logging.getLogger("perdure")

T = TypeVar("T")
JsonObject = dict[str, Any]

MAX_CONFLICTS = 64
"""Lost races before a user's command gives up. Each lost race means that another command won, so progress is made.

What a step has to say never gives up: an outcome that is known must not get lost.
"""

CONFLICT_DELAY_SECONDS = 0.02
"""Longest wait after the second lost race in a row; doubles with each. The first is tried again at once: of two
commands the other one is through."""

LONGEST_CONFLICT_DELAY_SECONDS = 0.16
"""Longest wait after any lost race: about ten conditional writes, one after another."""

MAX_OUTAGES = 4
"""Times that a store may give no answer before the caller hears of it."""

MAX_OUTAGES_OF_AN_OUTCOME = 8
"""The same for how a model or tool ended, which may not be known again: about 20 s, within the 30 s that a function
keeps for it (design §3). Its lease is renewed meanwhile."""

OUTAGE_DELAY_SECONDS = 0.2
"""Wait after the first outage; doubles with each."""

LONGEST_OUTAGE_DELAY_SECONDS = 5.0
"""Longest wait between two tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What became of a command.

    `entry` is None when nothing had to change; `duplicate` says that the reply is that of an earlier command.
    `known` is the session behind the commit, for whoever decides on it again at once. `telling` is the word to the
    viewers that is still under way when a taker goes on; it has to be awaited before the worker's host may sleep.
    """

    head: Head
    reply: JsonObject
    entry: Entry | None = None
    duplicate: bool = False
    known: Loaded | None = None
    telling: asyncio.Task[None] | None = None


async def execute(
    ports: Ports,
    key: SessionKey,
    command: Command,
    *,
    allow: Callable[[Head], None] | None = None,
    taker: Taker | None = None,
    known: Loaded | None = None,
) -> Executed:
    """Carry out one command: decide on the current state until a commit holds, then send what the new state expects.

    Args:
        allow: Raises a `RequestError` if the command may not be carried out on this state. It sees every state that
            is decided on, so nothing can change between the check and the commit.
        taker: Goes on with the step that the commit makes ready, which is then not sent.
        known: The session as the caller saw it last; saves a read when nobody else has written since. Only for
            commands without receipts.

    Raises:
        RequestError: The command can't be carried out; nothing has changed.
        StoreUnavailableError: The store kept silent; the command may or may not have been carried out.
    """
    claims: tuple[ReceiptClaim, ...] = getattr(command, "receipts", ())
    commit_id = ports.new_id()
    tried: dict[int, Decision] = {}
    conflicts = outages = 0
    while True:
        try:
            async with ports.turnstile(key):
                loaded = known or await ports.store.load(key, [claim.key_hash for claim in claims])
                was_known, known = known is not None, None
                if tried and (landed := await ports.store.find_commit(key, commit_id, list(tried))):
                    return await _landed(ports, key, loaded, landed, tried[landed.version])
                if allow is not None:
                    allow(loaded.head)
                if (earlier := earlier_reply(loaded, claims)) is not None:
                    await resend_unclaimed(ports, key, loaded.head)
                    await set_timers_again(ports, key, loaded.head)
                    return Executed(head=loaded.head, reply=earlier, duplicate=True)
                decision = decide(loaded.head, command, now=ports.clock.now(), commit_id=commit_id, taker=taker)
                if decision.entry is None and was_known:
                    continue  # that there is nothing to do may only seem so: look at what is stored
                if decision.entry is None:
                    await resend_unclaimed(ports, key, loaded.head)
                    return Executed(head=loaded.head, reply=decision.reply)
                tried[decision.entry.version] = decision
                made = await ports.store.commit(key, loaded, decision)
        except StaleSessionError:
            tried.pop(loaded.head.version + 1, None)  # nothing was written as that version, and never will be
            conflicts += 1
            if conflicts > MAX_CONFLICTS and isinstance(command, UserCommand):
                raise
            await _let_others_pass(ports, commit_id, conflicts)
        except StoreUnavailableError:
            outages += 1
            is_outcome = isinstance(command, StepCommand) and command.IS_OUTCOME
            if outages > (MAX_OUTAGES_OF_AN_OUTCOME if is_outcome else MAX_OUTAGES):
                tell("outage", "the store gave no answer", session_id=key.session_id, count=outages)
                raise
            await ports.clock.sleep(_outage_delay(outages))
        else:
            _tell_of_failures(key, decision.entry)
            done = Executed(head=decision.head, reply=decision.reply, entry=decision.entry, known=made)
            return await _effects_sent(ports, key, loaded.head, done, goes_on=taker is not None)


def _tell_of_failures(key: SessionKey, entry: Entry) -> None:
    """Tell the operators of turns that failed. Why is told by its code alone: a message may quote what a model said."""
    for event in entry.events:
        if event.type == "turn_failed":
            tell(
                "turn_failed",
                "a turn failed",
                session_id=key.session_id,
                turn_id=event.turn_id,
                step_id=event.step_execution_id,
                code=event.payload["error"]["code"],
            )


async def despite_outages(ports: Ports, ask: Callable[[], Awaitable[T]], *, most: int = MAX_OUTAGES) -> T:
    """Ask the store, and ask again when it gives no answer.

    Args:
        ask: May run again: a read, a claim (the store remembers its owner), an outcome that is put once more.
        most: Times that it may give none.

    Raises:
        StoreUnavailableError: It gave none once more.
    """
    outages = 0
    while True:
        try:
            return await ask()
        except StoreUnavailableError:
            outages += 1
            if outages > most:
                raise
            await ports.clock.sleep(_outage_delay(outages))


def _outage_delay(outages: int) -> float:
    return min(OUTAGE_DELAY_SECONDS * 2.0 ** (outages - 1), LONGEST_OUTAGE_DELAY_SECONDS)


async def _let_others_pass(ports: Ports, commit_id: str, conflicts: int) -> None:
    if conflicts > 1 and not ports.in_process:  # in one process they pass a turnstile, one by one
        await ports.clock.sleep(conflict_delay(commit_id, conflicts))


def conflict_delay(commit_id: str, conflicts: int) -> float:
    """Return how long a command waits after its second lost race or a later one, in seconds.

    It differs between commands, so that those that lost together do not try again together. Drawn from the command's
    id, so that a virtual run is repeatable.
    """
    longest = min(CONFLICT_DELAY_SECONDS * 2.0 ** (conflicts - 2), LONGEST_CONFLICT_DELAY_SECONDS)
    drawn = hashlib.sha256(f"{commit_id} {conflicts}".encode()).digest()[:4]
    return longest * (int.from_bytes(drawn, "big") / 0xFFFF_FFFF)


async def _effects_sent(ports: Ports, key: SessionKey, old: Head, done: Executed, *, goes_on: bool) -> Executed:
    """Send what follows from a commit. A worker that goes on with the next step does not wait for the viewers."""
    if not goes_on or ports.in_process:
        await send_effects(ports, key, old, done.head)
        return done
    telling = asyncio.create_task(ports.live.changed(key, done.head))
    await send_effects(ports, key, old, done.head, tell=False)
    return replace(done, telling=telling)


async def _landed(ports: Ports, key: SessionKey, loaded: Loaded, entry: Entry, decision: Decision) -> Executed:
    """Go on after a commit whose answer was lost: what it made expected may not have been sent."""
    await resend_unclaimed(ports, key, loaded.head)
    await set_timers_again(ports, key, loaded.head)
    await ports.live.changed(key, loaded.head)
    return Executed(head=decision.head, reply=decision.reply, entry=entry, known=loaded)


def earlier_reply(loaded: Loaded, claims: Sequence[ReceiptClaim]) -> JsonObject | None:
    """Return what an earlier command with one of these keys was answered, or None.

    Raises:
        RequestConflictError: `idempotency_mismatch`: the key was used with other content.
    """
    for claim in claims:
        receipt = loaded.receipts.get(claim.key_hash)
        if receipt is None:
            continue
        if receipt.content_hash != claim.content_hash:
            raise RequestConflictError(
                "this idempotency key was used before with other content: use a new key for a new request",
                code="idempotency_mismatch",
            )
        return receipt.reply
    return None


async def send_effects(ports: Ports, key: SessionKey, old: Head, new: Head, *, tell: bool = True) -> None:
    """Send what the new head expects and the old one did not. What gets lost here is found by the sweep.

    Args:
        tell: Tell the viewers, too; False: the caller does.
    """
    before, after = set(expected_dispatches(old)), expected_dispatches(new)
    was, now = set(expected_timers(old)), expected_timers(new)
    sends = [ports.queue.send(key, d) for d in after if d not in before and d.claimed_by is None]
    sends += [ports.timers.set(key, timer) for timer in now if timer not in was]
    sends += [ports.timers.cancel(key, timer) for timer in was if timer not in now]
    if tell:
        sends.append(ports.live.changed(key, new))
    if ports.in_process:
        for send in sends:
            await send
        return
    for outcome in await asyncio.gather(*sends, return_exceptions=True):
        if isinstance(outcome, TransientError):
            logger.warning("an effect could not be sent; the sweep will", extra={"session_id": key.session_id})
        elif isinstance(outcome, BaseException):
            raise outcome


async def resend_unclaimed(ports: Ports, key: SessionKey, head: Head) -> None:
    """Send again what is expected and nobody has claimed; a crash between commit and send heals by this (X9)."""
    for dispatch in expected_dispatches(head):
        if dispatch.claimed_by is None and await is_unclaimed(ports, key, dispatch):
            await ports.queue.send(key, dispatch)


async def set_timers_again(ports: Ports, key: SessionKey, head: Head) -> None:
    """Set the timers that are expected once more: whoever committed may have died before it had.

    Not for a message of a timer itself that finds nothing to do: each copy would make copies of all the others.
    """
    setting = [ports.timers.set(key, timer) for timer in expected_timers(head)]
    for outcome in await asyncio.gather(*setting, return_exceptions=True):
        if isinstance(outcome, TransientError):
            logger.warning("a timer could not be set; the sweep will fire it", extra={"session_id": key.session_id})
        elif isinstance(outcome, BaseException):
            raise outcome


async def is_unclaimed(ports: Ports, key: SessionKey, dispatch: Dispatch) -> bool:
    """Whether nobody has claimed (or given up) this attempt yet."""
    lease = await ports.leases.read_lease(key, dispatch.step_id)
    return lease is None or lease.attempt < dispatch.attempt
