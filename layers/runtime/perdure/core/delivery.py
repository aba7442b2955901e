"""How a message reaches an agent that may be at work: the delivery modes (spec U-2)."""

from __future__ import annotations

from typing import Any

from perdure.core.decision import Draft
from perdure.core.entries import Actor
from perdure.core.head import QueuedMessage
from perdure.core.hold import release
from perdure.core.inbox import DELIVERIES, STOPPING, URGENT, place
from perdure.core.stop import begin_stop
from perdure.core.turns import join_waiting_step, steer_turn
from perdure.core.values import replace
from perdure.errors import InvalidRequestError


def deliver(draft: Draft, messages: tuple[QueuedMessage, ...], delivery: str, actor: Actor) -> str:
    """Put messages where their delivery wants them, and do to the running turn what that asks for.

    All of them are in their places before anything is done, because that may begin the next turn.

    Returns:
        What they were delivered as. A mode that acts on a running turn is `queue` when none would take them.

    Raises:
        InvalidRequestError: There is no such delivery.
    """
    if delivery not in DELIVERIES:
        raise InvalidRequestError(f"delivery {delivery!r} is unknown: use one of {', '.join(DELIVERIES)}")
    turn = draft.head.turn
    if delivery == "passive":
        _place_all(draft, messages, delivery="passive", coalesce=False, urgent=False)
        return delivery
    if delivery in STOPPING:
        return _stop_for(draft, messages, delivery, actor)
    takes_more = turn is not None and turn.stop is None and turn.controls >= 1
    if delivery == "inject" and takes_more and not draft.turn.steer:
        _place_all(draft, messages, delivery="inject", urgent=False)
        join_waiting_step(draft)
        return delivery
    if delivery == "steer" and takes_more:
        _place_all(draft, messages, delivery="steer", coalesce=False, urgent=False)
        steer_turn(draft)
        return delivery
    _place_all(draft, messages, delivery="queue", urgent=False)
    return "queue"


def _place_all(draft: Draft, messages: tuple[QueuedMessage, ...], **changes: Any) -> None:
    for message in messages:
        place(draft, replace(message, **changes))


def _stop_for(draft: Draft, messages: tuple[QueuedMessage, ...], delivery: str, actor: Actor) -> str:
    """Let messages stop what runs. A hold ends by them, too: later messages wait until retried or interrupted."""
    turn = draft.head.turn
    waits_for = turn is not None or draft.head.inbox or draft.head.hold is not None
    _place_all(draft, messages, delivery="queue", urgent=delivery in URGENT, coalesce=False)
    if turn is None:
        release(draft, actor)
    elif turn.stop is None and turn.controls >= 1:
        disposition = "discard" if delivery == "supersede" else "keep"
        begin_stop(draft, actor=actor, disposition=disposition, reason=STOPPING[delivery])
    return delivery if waits_for else "queue"
