"""An operator gives up one attempt whose worker is gone (spec SESS-25). No route leads here."""

from __future__ import annotations

from typing import Any

from perdure.access import check_access
from perdure.checks import Caller, session_key
from perdure.core.expected import Dispatch, awaited_steps
from perdure.core.head import Head
from perdure.core.limits import LEASE_GRACE, START_LEASE
from perdure.errors import NotFoundError, RequestConflictError
from perdure.operations import Operations
from perdure.ports import SessionKey
from perdure.steps.recover import ready_at, replace_if_dead

JsonObject = dict[str, Any]


class OrphanOperations(Operations):
    """The operations on runs that nobody will finish; no caller over a network has them."""

    async def abandon(
        self,
        caller: Caller,
        session_id: str,
        *,
        turn_id: str,
        step_execution_id: str,
        attempt: int,
        version: int,
    ) -> JsonObject:
        """Give up one attempt of a model step or a tool call whose worker is known to be gone.

        Its step ends as after its last attempt: the turn fails, or the call ends as `failed` or `outcome_unknown`.
        Returns `{"result": "abandoned"}`, or `settled` when its outcome was known after all and was taken.

        Args:
            version: The session's, as the operator looked at it.

        Raises:
            RequestConflictError: `stale_revision`: the session is at another version; `not_running`: this attempt is
                not expected; `still_running`: its lease has not expired, or it has hardly been sent. Nothing has
                changed then, but that a dead worker's lease may be revoked.
        """
        key = session_key(caller, session_id)
        head = (await self._ports.store.load(key)).head
        check_access(self._authorize, caller, key, head, "control")
        if not head.exists:
            raise NotFoundError(f"there is no session {session_id!r}", code="session_not_found")
        run = _expected(head, turn_id, step_execution_id, attempt, version)
        await self._check_orphaned(key, head, run)
        lost = await replace_if_dead(
            self._deps,
            key,
            run,
            reason=f"abandoned by {caller.actor.subject}",
            final=True,
            allow=lambda latest: _check_version(latest, version),
        )
        if not lost:
            raise _runs(run)
        return {"result": "abandoned" if lost == "lost" else "settled"}

    async def _check_orphaned(self, key: SessionKey, head: Head, run: Dispatch) -> None:
        """Refuse to give up an attempt that may only be on its way; a claimed one is judged by its lease."""
        lease = await self._ports.leases.read_lease(key, run.step_id)
        if lease is not None and lease.attempt >= run.attempt:
            return
        now, since = self._ports.clock.now(), ready_at(head, run)
        if run.claimed_until is not None:
            alive = now < run.claimed_until + LEASE_GRACE
        else:
            alive = since is not None and now < since + START_LEASE
        if alive:
            raise _runs(run)


def _expected(head: Head, turn_id: str, step_id: str, attempt: int, version: int) -> Dispatch:
    _check_version(head, version)
    if head.turn is not None and head.turn.turn_id == turn_id:
        for step in awaited_steps(head):
            if (step.step_id, step.attempt) == (step_id, attempt):
                return step
    raise RequestConflictError(
        f"attempt {attempt} of {step_id!r} in {turn_id!r} is not expected: read the session again", code="not_running"
    )


def _check_version(head: Head, version: int) -> None:
    if head.version != version:
        raise RequestConflictError(
            f"the session is at version {head.version}, not {version}: look at it again", code="stale_revision"
        )


def _runs(run: Dispatch) -> RequestConflictError:
    return RequestConflictError(
        f"attempt {run.attempt} of {run.step_id!r} may be at work: wait until its lease has expired, or stop the turn",
        code="still_running",
    )
