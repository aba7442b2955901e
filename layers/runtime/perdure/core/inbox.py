"""The inbox: messages that were accepted and wait. Steered ones come first, then urgent ones, then the rest.

`place` is the only way in, `next_batch` the only way to a turn, and whatever `Head.inbox` holds may still be changed.
"""

from __future__ import annotations

from perdure.core.decision import Draft
from perdure.core.head import Head, QueuedMessage
from perdure.core.values import replace

DELIVERIES = ("queue", "inject", "steer", "interrupt", "interrupt_next", "supersede", "passive")
"""The delivery modes (spec U-2)."""

STOPPING = {"interrupt": "interrupted", "interrupt_next": "interrupted", "supersede": "superseded"}
"""Deliveries that stop the running turn, and the reason that its end tells."""

URGENT = ("interrupt_next", "supersede")
"""Deliveries that go before ordinary messages, in the order in which they came."""


def place(draft: Draft, message: QueuedMessage) -> None:
    """Put a message in the inbox behind the last one of its class."""
    ahead = [i for i, other in enumerate(draft.head.inbox) if _class(other) <= _class(message)]
    insert(draft, message, ahead[-1] + 1 if ahead else 0)


def insert(draft: Draft, message: QueuedMessage, position: int) -> None:
    """Put a message at a position of the inbox."""
    inbox = draft.head.inbox
    draft.head = replace(draft.head, inbox=(*inbox[:position], message, *inbox[position:]))


def take_out(draft: Draft, message: QueuedMessage) -> None:
    """Take a message out of the inbox."""
    draft.head = replace(draft.head, inbox=tuple(m for m in draft.head.inbox if m is not message))


def put_back(draft: Draft, messages: tuple[QueuedMessage, ...]) -> None:
    """Return messages that were injected into a turn without an answer: before all that wait in normal order (U-3)."""
    inbox = draft.head.inbox
    first = next((i for i, other in enumerate(inbox) if _class(other) == _NORMAL), len(inbox))
    back = tuple(m if m.is_passive else replace(m, delivery="queue", coalesce=False) for m in messages)
    draft.head = replace(draft.head, inbox=(*inbox[:first], *back, *inbox[first:]))


def no_longer_injected(draft: Draft) -> None:
    """Let the messages that were to join a turn that is over wait for their own."""
    inbox = (replace(m, delivery="queue") if m.delivery == "inject" else m for m in draft.head.inbox)
    draft.head = replace(draft.head, inbox=tuple(inbox))


def find(head: Head, message_id: str) -> QueuedMessage | None:
    """Return the waiting message with this id, or None."""
    return next((message for message in head.inbox if message.message_id == message_id), None)


def next_batch(inbox: tuple[QueuedMessage, ...]) -> tuple[QueuedMessage, ...]:
    """Return the messages of the next turn, in their order; none when only passive ones wait.

    All steered ones, or the first other one and, if it coalesces, its like; and the passive ones that came before.
    """
    leaders = tuple(message for message in inbox if message.is_steered)
    if not leaders:
        leaders = tuple(message for message in inbox if not message.is_passive)[:1]
        if leaders and leaders[0].coalesce and not leaders[0].urgent:
            leaders = coalesced(inbox)
    return with_passive(inbox, leaders)


def coalesced(inbox: tuple[QueuedMessage, ...]) -> tuple[QueuedMessage, ...]:
    """Return the messages that share one turn: all or none of them are delivered (spec INBOX-10)."""
    return tuple(m for m in inbox if m.coalesce and not m.urgent and m.delivery == "queue")


def with_passive(inbox: tuple[QueuedMessage, ...], leaders: tuple[QueuedMessage, ...]) -> tuple[QueuedMessage, ...]:
    """Return messages together with the passive ones that ride with them: those that came before (spec INBOX-03)."""
    newest = max((message.accepted_version for message in leaders), default=0)
    riding = tuple(m for m in inbox if m.is_passive and m.accepted_version < newest)
    return (*riding, *leaders)


def same_class(one: QueuedMessage, other: QueuedMessage) -> bool:
    """Whether two messages may be put in another order."""
    return _class(one) == _class(other)


def inbox_state(message: QueuedMessage) -> str:
    """Return the state that everybody is told: `passive`, `steered` or `queued`."""
    if message.is_passive:
        return "passive"
    return "steered" if message.is_steered else "queued"


_NORMAL = 2


def _class(message: QueuedMessage) -> int:
    if message.is_steered:
        return 0
    return 1 if message.urgent else _NORMAL
