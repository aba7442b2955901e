"""How a message reaches an agent that may be at work: the delivery modes (spec U-2)."""

from __future__ import annotations

from perdure.core.decision import Draft
from perdure.core.entries import Actor
from perdure.core.head import QueuedMessage
from perdure.core.hold import release
from perdure.core.inbox import DELIVERIES, STOPPING, URGENT, place
from perdure.core.stop import begin_stop
from perdure.core.turns import steer_turn
from perdure.core.values import replace
from perdure.errors import InvalidRequestError


def deliver(draft: Draft, message: QueuedMessage, delivery: str, actor: Actor) -> str:
    """Put a message where its delivery wants it, and do to the running turn what that asks for.

    Returns:
        What it was delivered as. A mode that acts on a running turn is `queue` when there is none that would take it.

    Raises:
        InvalidRequestError: There is no such delivery.
    """
    if delivery not in DELIVERIES:
        raise InvalidRequestError(f"delivery {delivery!r} is unknown: use one of {', '.join(DELIVERIES)}")
    turn = draft.head.turn
    if delivery == "passive":
        place(draft, replace(message, delivery="passive", coalesce=False, urgent=False))
        return delivery
    if delivery in STOPPING:
        return _stop_for(draft, message, delivery, actor)
    takes_more = turn is not None and turn.stop is None and turn.controls >= 1
    if delivery == "inject" and takes_more and not draft.turn.steer:
        place(draft, replace(message, delivery="inject", urgent=False))
        return delivery
    if delivery == "steer" and takes_more:
        place(draft, replace(message, delivery="steer", coalesce=False, urgent=False))
        steer_turn(draft)
        return delivery
    place(draft, replace(message, delivery="queue", urgent=False))
    return "queue"


def _stop_for(draft: Draft, message: QueuedMessage, delivery: str, actor: Actor) -> str:
    """Let a message stop what runs. A hold ends by it, too: later messages wait until retried or interrupted."""
    urgent = delivery in URGENT
    turn = draft.head.turn
    waits_for = turn is not None or draft.head.inbox or draft.head.hold is not None
    place(draft, replace(message, delivery="queue", urgent=urgent, coalesce=False))
    if turn is None:
        release(draft, actor)
    elif turn.stop is None and turn.controls >= 1:
        disposition = "discard" if delivery == "supersede" else "keep"
        begin_stop(draft, actor=actor, disposition=disposition, reason=STOPPING[delivery])
    return delivery if waits_for else "queue"
