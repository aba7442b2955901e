"""Recovery: the sweep, dead letters and timers. Whatever should be in flight and is not is found here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Literal

from perdure.core.commands import AttemptLost
from perdure.core.control_commands import CredentialChanged
from perdure.core.expected import Dispatch, expected_dispatches, expected_timers
from perdure.core.head import Head, Hold
from perdure.core.limits import LEASE_GRACE, START_LEASE, TIMER_GRACE
from perdure.operator_events import tell
from perdure.ports import Ports, SessionKey
from perdure.steps.base import StepDeps, StepMessage
from perdure.steps.commit import execute, resend_unclaimed
from perdure.steps.group import take_known_outcome
from perdure.steps.progress import parts_of
from perdure.steps.waking import fire_timer

JsonObject = dict[str, Any]

FIRST_SWEEP_DELAY = timedelta(seconds=60)
"""Time after which a session that is still working is looked at again; doubles with its age."""

LAST_SWEEP_DELAY = timedelta(hours=1)
"""Longest time between two looks."""


async def sweep(deps: StepDeps, *, limit: int = 1000) -> int:
    """Look after every session whose time has come; returns how many."""
    due = await deps.ports.store.sessions_due(deps.ports.clock.now(), limit)
    for key in due:
        await sweep_session_safely(deps, key)
    return len(due)


async def sweep_session_safely(deps: StepDeps, key: SessionKey, *, at_start: bool = False) -> None:
    """Look after one of many sessions: whatever is wrong with it must not keep the others waiting."""
    try:
        await sweep_session(deps, key, at_start=at_start)
    except Exception as error:  # noqa: BLE001  an outage, a newer version's record, a bug: the next sweep tries again
        tell("fault", "a session could not be looked after", error=error, session_id=key.session_id)


async def sweep_session(deps: StepDeps, key: SessionKey, *, at_start: bool = False) -> None:
    """Re-issue what a session expects: fire overdue timers, send unclaimed steps again, replace dead attempts.

    Args:
        at_start: The process has just begun: nothing was sent yet, and timers are not set.
    """
    ports = deps.ports
    loaded = await ports.store.load(key)
    now = ports.clock.now()
    looks: list[datetime] = []
    for timer in expected_timers(loaded.head):
        looks.append(max(timer.due_at + TIMER_GRACE, now + FIRST_SWEEP_DELAY))
        if timer.due_at <= now:
            await fire_timer(deps, key, timer.timer_id, timer.fence)
        elif at_start:
            await ports.timers.set(key, timer)
    for dispatch in expected_dispatches(loaded.head):
        looks.append(now + _next_delay(loaded.head, now))
        expires_at = await _look_after(deps, key, loaded.head, dispatch, now=now, at_start=at_start)
        if expires_at is not None:  # not renewed until then: its worker is dead
            looks.append(expires_at + LEASE_GRACE)
    if loaded.head.turn is None and loaded.head.hold is not None and loaded.head.hold.credential is not None:
        looks.append(now + await _look_at_credential(deps, key, loaded.head, loaded.head.hold, now))
    if looks:  # a session that awaits only a person costs no further look
        await ports.store.postpone(key, loaded.head.version, min(looks))


async def _look_at_credential(deps: StepDeps, key: SessionKey, head: Head, hold: Hold, now: datetime) -> timedelta:
    """Go on with a session whose model refused its credential, once it has another one; says when to look again."""
    agent = deps.agents.get(head.agent or "")
    if agent is not None:
        await execute(deps.ports, key, CredentialChanged(credential=agent.credential_version()))
    return min(max(now - hold.at, FIRST_SWEEP_DELAY), LAST_SWEEP_DELAY)


async def _seen_by_viewers(
    ports: Ports, key: SessionKey, head: Head, step_id: str, attempt: int
) -> tuple[JsonObject, ...]:
    """Return what viewers had seen of a model's answer whose worker died while its turn was being stopped (U-4)."""
    turn = head.turn
    if turn is None or turn.stop is None or turn.step is None or turn.step.step_id != step_id:
        return ()
    return parts_of(await ports.live.progress(key, step_id, attempt))


async def _look_after(
    deps: StepDeps, key: SessionKey, head: Head, dispatch: Dispatch, *, now: datetime, at_start: bool
) -> datetime | None:
    """Return when the lease of a step that seems to be running expires, or None for any other step."""
    ports = deps.ports
    lease = await ports.leases.read_lease(key, dispatch.step_id)
    has_lease = lease is not None and lease.attempt == dispatch.attempt
    if dispatch.claimed_until is not None and not has_lease:  # run by whoever made it ready, without a lease item yet
        if not at_start and now < dispatch.claimed_until + LEASE_GRACE:
            return dispatch.claimed_until
        await replace_if_dead(deps, key, dispatch, reason="its worker died", final=False)
    elif lease is None or lease.attempt < dispatch.attempt:
        since = ready_at(head, dispatch)
        overdue = since is None or now >= since + START_LEASE
        if at_start or overdue:  # sent again, not given up: a message may still be on its way
            await ports.queue.send(key, dispatch)
    elif lease.attempt == dispatch.attempt and not await replace_if_dead(
        deps, key, dispatch, reason="its worker died", final=False
    ):
        return lease.expires_at
    return None


async def replace_if_dead(
    deps: StepDeps,
    key: SessionKey,
    dispatch: Dispatch | StepMessage,
    *,
    reason: str,
    final: bool,
    allow: Callable[[Head], None] | None = None,
) -> Literal["lost", "known", ""]:
    """Revoke an attempt that nobody holds any more, and only then say that it is lost (races.md X5).

    Args:
        allow: As of `execute`.

    Returns:
        `lost`: it was. `known`: its outcome was on its way, and was taken. Nothing: somebody holds it.
    """
    ports = deps.ports
    if await take_known_outcome(ports, key, dispatch.step_id, dispatch.attempt):
        return "known"
    was_taken = isinstance(dispatch, Dispatch) and dispatch.claimed_by is not None
    revoked = await ports.leases.revoke(key, dispatch.step_id, dispatch.attempt, ports.clock.now())
    if revoked == "alive":
        return ""
    head = (await ports.store.load(key)).head
    lost = AttemptLost(
        step_id=dispatch.step_id,
        attempt=dispatch.attempt,
        claimed=revoked == "claimed" or was_taken,
        reason=reason,
        final=final,
        parts=await _seen_by_viewers(ports, key, head, dispatch.step_id, dispatch.attempt),
    )
    await execute(ports, key, lost, allow=allow)
    tell(
        "dead_letter" if final else "recovery",
        "a message was given up, and its step with it" if final else "an attempt whose worker died was given up",
        session_id=key.session_id,
        step_id=dispatch.step_id,
        attempt=dispatch.attempt,
    )
    return "lost"


async def record_dead_letter(deps: StepDeps, message: StepMessage, reason: str) -> None:
    """Make a message that could not be processed a visible failure, if HEAD still expects it and nobody runs it."""
    loaded = await deps.ports.store.load(message.key)
    expected = expected_dispatches(loaded.head)
    if any((d.step_id, d.attempt) == (message.step_id, message.attempt) for d in expected):
        await replace_if_dead(deps, message.key, message, reason=reason, final=True)
    else:
        await resend_unclaimed(deps.ports, message.key, loaded.head)


def ready_at(head: Head, dispatch: Dispatch) -> datetime | None:
    """Return since when a step's expected attempt may have run."""
    turn = head.turn
    cancellation = next((c for c in head.cancellations if c.step_id == dispatch.step_id), None)
    if cancellation is not None:
        return cancellation.ready_at
    if head.titling is not None and head.titling.step_id == dispatch.step_id:
        return head.titling.ready_at
    if turn is not None and turn.step is not None and turn.step.step_id == dispatch.step_id:
        return turn.step.ready_at
    call = turn.call(dispatch.step_id) if turn else None
    return call.ready_at if call else None


def _next_delay(head: Head, now: datetime) -> timedelta:
    ready = [moment for dispatch in expected_dispatches(head) if (moment := ready_at(head, dispatch))]
    age = now - min(ready, default=now)
    return min(max(age, FIRST_SWEEP_DELAY), LAST_SWEEP_DELAY)
