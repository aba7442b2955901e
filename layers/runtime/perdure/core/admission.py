"""Accepting a user's message: it starts a turn at once, or waits for its own."""

from __future__ import annotations

from perdure.core.commands import SendInput
from perdure.core.decision import Decision, Draft
from perdure.core.entries import Input
from perdure.core.head import QueuedMessage
from perdure.core.turns import open_turn, preview_of
from perdure.core.values import replace
from perdure.errors import InvalidRequestError, RequestConflictError


def on_send_input(draft: Draft, command: SendInput) -> Decision:
    """Accept a message in the one commit that also starts its turn, or queue it behind the running one."""
    head = draft.head
    if head.exists and command.agent is not None and command.agent != head.agent:
        raise RequestConflictError(
            f"this session belongs to agent {head.agent!r}, not {command.agent!r}: "
            "leave `agent` out or use another session",
            code="agent_mismatch",
        )
    if command.delivery != "queue":
        raise InvalidRequestError(f"delivery {command.delivery!r} is not supported: use 'queue'")
    message_id = command.message_id or draft.new_id("message")
    if any(queued.message_id == message_id for queued in head.inbox):
        raise RequestConflictError(
            f"message {message_id!r} is already queued: use another message_id", code="idempotency_mismatch"
        )

    draft.head = replace(
        head,
        agent=head.agent or command.agent or command.default_agent,
        owner=head.owner or command.actor,
        created_at=head.created_at or draft.now,
        last_activity_at=draft.now,
        preview=preview_of(command.text),
    )
    draft.accept(
        Input(
            message_id=message_id,
            text=command.text,
            delivery=command.delivery,
            metadata=command.metadata,
            actor=command.actor,
            files=command.files,
        )
    )
    reply = {"message_id": message_id, "delivered_as": "queue", "version": draft.version}
    if draft.head.turn is None:
        open_turn(draft, message_id, draft.version)
        reply["turn_id"] = draft.turn.turn_id
    else:
        queued = QueuedMessage(message_id=message_id, input_version=draft.version)
        draft.head = replace(draft.head, inbox=(*draft.head.inbox, queued))
        draft.event("message_queued", {"message_id": message_id, "delivery": command.delivery})
    return draft.decision(reply, command.receipts)
