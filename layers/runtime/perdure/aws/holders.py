"""From an authorizer to the function behind it: whose connection or stream it is, as a flat text."""

from __future__ import annotations

import json

from perdure.aws.tickets import TicketHolder
from perdure.core.codec import from_millis, to_millis
from perdure.core.entries import Actor


def written_holder(holder: TicketHolder) -> str:
    """Return a holder as ASCII JSON: an authorizer's context takes flat text only."""
    until = to_millis(holder.until) if holder.until else None
    return json.dumps([holder.tenant, holder.actor.issuer, holder.actor.subject, until])


def read_holder(written: str) -> TicketHolder:
    """Return the holder that was written.

    Raises:
        ValueError: The text is none of ours.
    """
    tenant, issuer, subject, until = json.loads(written)
    actor = Actor(issuer=issuer, subject=subject)
    return TicketHolder(tenant=tenant, actor=actor, until=from_millis(until) if until is not None else None)
