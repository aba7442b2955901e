"""Socket tickets: how a browser, which can't send headers with a WebSocket, proves who it is.

A ticket is good for 60 seconds and for one connection. The table holds its hash only.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from perdure.aws import keys
from perdure.aws.limits import TICKET_LIFETIME
from perdure.aws.table import ConditionNotMetError, Table, text
from perdure.core.codec import from_millis, to_millis
from perdure.core.entries import Actor
from perdure.ports import Clock, NewId

_SORT_KEY = "TICKET"


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketHolder:
    """Whom a ticket was given to. `until`: when the token that it was given for ends."""

    tenant: str
    actor: Actor
    until: datetime | None = None


def _secret() -> str:
    return secrets.token_urlsafe(32)


class SocketTickets:
    """Issues and redeems tickets.

    Args:
        new_id: Makes the nonce by which a lost answer to a redemption is recognised.
        new_secret: Makes tickets; unlike ids they must be impossible to guess (256 bits).
    """

    def __init__(self, table: Table, clock: Clock, new_id: NewId, new_secret: Callable[[], str] = _secret) -> None:
        self._table = table
        self._clock = clock
        self._new_id = new_id
        self._new_secret = new_secret

    async def issue(self, holder: TicketHolder) -> str:
        """Return a new ticket."""
        ticket = self._new_secret()
        ends = self._clock.now() + TICKET_LIFETIME
        content = {
            "tenant": holder.tenant,
            "issuer": holder.actor.issuer,
            "subject": holder.actor.subject,
            "until": to_millis(holder.until) if holder.until else None,
        }
        await self._table.put(
            {
                "pk": _partition(ticket),
                "sk": _SORT_KEY,
                "holder": json.dumps(content),
                "ends_ms": to_millis(ends),
                "ttl": to_millis(ends) // 1000 + 1,
            }
        )
        return ticket

    async def redeem(self, ticket: str) -> TicketHolder | None:
        """Use a ticket up and return its holder. None: there is no such ticket, it is too old, or it was used."""
        nonce = self._new_id()
        try:
            await self._table.update(
                _partition(ticket),
                _SORT_KEY,
                put={"redeemed_by": nonce},
                condition="#ends_ms > :now AND (attribute_not_exists(#redeemed_by) OR #redeemed_by = :redeemed_by)",
                values={"now": to_millis(self._clock.now())},
            )
        except ConditionNotMetError:
            return None
        item = await self._table.get(_partition(ticket), _SORT_KEY, strong=True)
        if item is None:
            return None
        content = json.loads(text(item, "holder"))
        return TicketHolder(
            tenant=content["tenant"],
            actor=Actor(issuer=content["issuer"], subject=content["subject"]),
            until=from_millis(content["until"]) if content["until"] is not None else None,
        )


def _partition(ticket: str) -> str:
    return f"#ticket#{keys.sha256(ticket)}"
