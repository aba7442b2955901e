"""What happens behind a failed turn: the inbox is held, and somebody retries, dismisses or mends it (spec U-6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.core.decision import Decision, Draft
from perdure.core.entries import Actor
from perdure.core.turns import start_next
from perdure.core.values import replace

if TYPE_CHECKING:
    from perdure.core.control_commands import CredentialChanged


def release(draft: Draft, actor: Actor | None) -> bool:
    """End a hold. Returns whether there was one."""
    hold = draft.head.hold
    if hold is None:
        return False
    draft.head = replace(draft.head, hold=None)
    by = actor.told() if actor else None
    draft.event("hold.released", {"reason": hold.reason, "actor": by})
    return True


def lift_if_changed(draft: Draft, credential: str | None) -> bool:
    """End a hold for a refused credential when the model has another one now. Returns whether it did."""
    hold = draft.head.hold
    if hold is None or hold.credential is None or credential is None or credential == hold.credential:
        return False
    return release(draft, None)


def on_credential_changed(draft: Draft, command: CredentialChanged) -> Decision:
    """Go on with the inbox of a session whose model has another credential now."""
    if draft.head.turn is not None or not lift_if_changed(draft, command.credential):
        return Decision.unchanged(draft.head)
    start_next(draft)
    return draft.decision({"accepted": True})
