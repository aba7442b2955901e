"""What every operation of a deployment needs: its ports, its agents, and one way to carry out a command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from perdure.access import Authorize, Operation, check_access
from perdure.checks import Caller, wait_seconds_of
from perdure.core.commands import Command, ResolveInterrupt, SendInput, StopTurn
from perdure.core.control_commands import SeedHistory, StartSession
from perdure.core.expected import awaited_steps
from perdure.core.head import Head
from perdure.core.interrupts import pending_interrupt
from perdure.core.wait_commands import ChangeWait
from perdure.errors import (
    InvalidRequestError,
    RequestConflictError,
    StoreUnavailableError,
    UnauthorizedError,
    UnsettledError,
)
from perdure.feed import Follower
from perdure.ports import SessionKey
from perdure.reading import Reader
from perdure.steps.base import StepDeps
from perdure.steps.commit import Executed, execute

if TYPE_CHECKING:
    from perdure.webhooks import Webhook


class Operations:
    """The ground that the operations of one deployment stand on.

    Args:
        knows_agents: False: it only looks at the sessions of a deployment whose agents it does not know.
        authorize: Says who else than its owner may do what to a session. None: nobody.
        webhooks: Whose events become messages.
        webhook_secret: Returns a webhook's secret by its `secret_env`. None: from the environment.
        approval_secret: What signed approvals are signed with, 24 bytes or more. None: what is kept under
            `PERDURE_APPROVAL_SECRET`, as a webhook's secret is.
    """

    def __init__(
        self,
        deps: StepDeps,
        *,
        knows_agents: bool = True,
        authorize: Authorize | None = None,
        webhooks: Sequence[Webhook] = (),
        webhook_secret: Callable[[str], str] | None = None,
        approval_secret: str | None = None,
    ) -> None:
        self._deps = deps
        self._webhooks = webhooks
        self._webhook_secret = webhook_secret
        self._approval_secret = approval_secret
        self._authorize = authorize
        self._knows_agents = knows_agents
        self._ports = deps.ports
        self._reader = Reader(deps.ports)
        self._follower = Follower(deps.ports, self._reader)

    async def _execute(
        self, caller: Caller, key: SessionKey, command: Command, *, check: Callable[[Head], None] | None = None
    ) -> Executed:
        """Carry out a command of a caller who may.

        Args:
            check: Raises a `RequestError` if what was checked beforehand does not hold for the state that is decided
                on.

        Raises:
            UnsettledError: The store never answered; it tells what ran when it last did.
        """
        last: Head | None = None

        def allow(head: Head) -> None:
            nonlocal last
            check_access(self._authorize, caller, key, head, _operation(command, head))
            last = head
            if isinstance(command, ResolveInterrupt) and command.approved:
                self._check_can_run(head, command.interrupt_id)
            if check is not None:
                check(head)

        # A caller may go away at any moment, and what was committed by then must still be sent on its way.
        executing = asyncio.ensure_future(execute(self._ports, key, command, allow=allow))
        try:
            return await asyncio.shield(executing)
        except asyncio.CancelledError:
            executing.add_done_callback(_seen)
            raise
        except StoreUnavailableError as error:
            raise unsettled(key.session_id, last, error) from error

    async def _visible(self, caller: Caller, key: SessionKey) -> Head | None:
        """Return the session's head, or None when it was never written or belongs to somebody else."""
        self._check_token(caller)
        head = await self._ports.store.peek(key)
        check_access(self._authorize, caller, key, head, "read")
        return head if head.exists else None

    def _check_token(self, caller: Caller) -> None:
        """Refuse a caller whose token has ended while they waited, or held a stream open (field case F114)."""
        if caller.until is not None and caller.until <= self._ports.clock.now():
            raise UnauthorizedError("your token has ended: come back with a new one")

    def _wait_of(self, caller: Caller, wait_seconds: float) -> float:
        """Return how long a caller may wait, in seconds: no longer than their token is good."""
        asked = wait_seconds_of(wait_seconds)
        if caller.until is None:
            return asked
        return min(asked, max(0.0, (caller.until - self._ports.clock.now()).total_seconds()))

    def _check_agent(self, name: str | None) -> None:
        """Refuse an agent that this deployment does not have."""
        if name is not None and self._deps.agents.get(name) is None:
            known = ", ".join(repr(other.name) for other in self._deps.agents)
            raise InvalidRequestError(f"agent {name!r} is not part of this deployment: use {known}")

    def _check_can_run(self, head: Head, interrupt_id: str) -> None:
        """Refuse to approve what this deployment can't run; rejecting and stopping still work (field case F043)."""
        call = head.turn.call(interrupt_id) if head.turn else None
        if call is None or call.status != "awaiting_approval":
            return
        if not self._can_run(head.agent, call.tool_name):
            raise RequestConflictError(
                f"agent {head.agent!r} with tool {call.tool_name!r} is not part of this deployment: "
                "deploy it again, reject the call or stop the turn",
                code="agent_missing",
            )

    def _is_missing(self, agent_name: str | None, tool_name: str) -> bool:
        """Whether this deployment can't run a tool of a session, as far as it knows its agents."""
        return self._knows_agents and not self._can_run(agent_name, tool_name)

    def _can_run(self, agent_name: str | None, tool_name: str) -> bool:
        agent = self._deps.agents.get(agent_name or "")
        return agent is not None and (
            agent.runner is not None or agent.tool(tool_name) is not None or agent.built_in(tool_name) is not None
        )


def unsettled(session_id: str, head: Head | None, error: StoreUnavailableError) -> UnsettledError:
    """Return the error of a command that never got its answer, with the run that was active when one last came.

    Args:
        head: The session as it was last seen. None: it was not, so nothing is known of it.
    """
    turn = head.turn if head is not None else None
    run = next(iter(awaited_steps(head)), None) if head is not None and turn is not None else None
    if turn is None:
        said = "" if head is None else "; no turn was active"
    else:
        said = f"; {turn.turn_id} was active" + (f" with attempt {run.attempt} of {run.step_id}" if run else "")
    told = f"whether this was carried out in session {session_id} is not known: {error.message}{said}"
    return UnsettledError(
        told,
        session_id=session_id,
        turn_id=turn.turn_id if turn else None,
        step_execution_id=run.step_id if run else None,
        attempt=run.attempt if run else None,
    )


def _operation(command: Command, head: Head) -> Operation:
    if isinstance(command, (SendInput, SeedHistory, StartSession)):
        return "send"
    if isinstance(command, ResolveInterrupt):
        return "approve"
    if isinstance(command, ChangeWait) and pending_interrupt(head, command.wait_id) is not None:
        return "approve"
    return "stop" if isinstance(command, StopTurn) else "control"


def _seen(executed: asyncio.Future[Executed]) -> None:
    """Look at what became of a command that nobody waits for, or asyncio reports its failure."""
    if not executed.cancelled():
        executed.exception()
