"""Who may do what to which session: its owner everything, others what an application's hook allows (design §4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from perdure.checks import Caller
from perdure.core.entries import Actor
from perdure.core.head import Head
from perdure.errors import ForbiddenError, NotFoundError
from perdure.ports import SessionKey

Operation = Literal["read", "send", "approve", "stop", "control"]
"""What somebody wants to do. `control`: retry, pause, settings, and what waits in the inbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks: a verified subject of a token issuer, within a tenant."""

    tenant: str
    actor: Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """What a hook may look at. Another tenant's session never comes here: its id is one that was never written."""

    session_id: str
    agent: str | None
    owner: Actor | None


Authorize = Callable[[Principal, Operation, SessionFacts], bool | None]
"""Says whether somebody may do something: True, False, or None for the usual rule: the owner may. Pure and quick: it is
asked again after every lost race."""


def check_access(
    authorize: Authorize | None, caller: Caller, key: SessionKey, head: Head, operation: Operation
) -> None:
    """Refuse what the caller may not do.

    Raises:
        NotFoundError: `session_not_found`: they may not even see the session (field cases F057, F143).
        ForbiddenError: `forbidden`: they may see it, and not do this.
    """
    if not head.exists or _may(authorize, caller, key, head, operation):
        return
    if operation == "read" or not _may(authorize, caller, key, head, "read"):
        raise NotFoundError(f"there is no session {key.session_id!r}", code="session_not_found")
    raise ForbiddenError(
        f"you may see session {key.session_id!r}, and not {operation} it: ask its owner", code="forbidden"
    )


def _may(authorize: Authorize | None, caller: Caller, key: SessionKey, head: Head, operation: Operation) -> bool:
    verdict = None
    if authorize is not None:
        facts = SessionFacts(session_id=key.session_id, agent=head.agent, owner=head.owner)
        verdict = authorize(Principal(tenant=caller.tenant, actor=caller.actor), operation, facts)
    return head.owner == caller.actor if verdict is None else verdict
