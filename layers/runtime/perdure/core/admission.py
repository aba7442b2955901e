"""Accepting a user's message: into the inbox, and from there, when nothing is before it, into its turn at once."""

from __future__ import annotations

from typing import Any

from perdure.core.commands import InboxPolicy, SendInput
from perdure.core.decision import Decision, Draft
from perdure.core.delivery import deliver
from perdure.core.entries import Actor, Input
from perdure.core.head import QueuedMessage
from perdure.core.hold import lift_if_changed
from perdure.core.inbox import find
from perdure.core.questions import answer_by_message, open_questions
from perdure.core.settings import check_run_settings, take_settings
from perdure.core.turns import preview_of, start_next
from perdure.core.values import replace
from perdure.errors import RequestConflictError

JsonObject = dict[str, Any]


def on_send_input(draft: Draft, command: SendInput) -> Decision:
    """Accept a message in the one commit that also starts its turn, or let it wait as its delivery says."""
    return draft.decision(admit(draft, command), command.receipts)


def admit(draft: Draft, command: SendInput) -> JsonObject:
    """Accept a message; returns what its sender is told.

    Raises:
        RequestConflictError: `session_closed`, `agent_mismatch`, or the id is taken by a message that waits. The draft
            is as it was.
    """
    begin_session(draft, command.actor, command.agent, command.default_agent)
    head = draft.head
    if head.closed_at is not None:
        raise RequestConflictError("this session is closed: start another one", code="session_closed")
    message_id = command.message_id or draft.new_id("message")
    if find(head, message_id) or (head.turn and any(m.message_id == message_id for m in head.turn.joined)):
        raise RequestConflictError(
            f"message {message_id!r} is already queued: use another message_id", code="idempotency_mismatch"
        )
    policy = command.policies.get(head.agent or "", InboxPolicy())
    delivery = command.delivery or policy.delivery
    if command.delivery is None and command.source == "person" and policy.answers:
        answered = answer_by_message(draft, command)
        if answered is not None:
            draft.head = replace(draft.head, last_activity_at=draft.now)
            return {
                "message_id": message_id,
                "delivered_as": "answer",
                "interrupt_id": answered,
                "version": draft.version,
            }
        if open_questions(head, draft.now):
            delivery = "steer"  # what is asked is replaced, so that nobody waits for both

    draft.head = replace(head, last_activity_at=draft.now, preview=preview_of(command.text))
    draft.accept(
        Input(
            message_id=message_id,
            text=command.text,
            delivery=delivery,
            metadata=command.metadata,
            actor=command.actor,
            files=command.files,
            source=command.source,
            run_settings=command.run_settings,
        )
    )
    check_run_settings(command.run_settings or {})
    if command.settings is not None:
        take_settings(draft, command.settings)
    lift_if_changed(draft, command.credentials.get(head.agent or ""))
    holds = policy.on_turn_failure == "hold" or (policy.on_turn_failure == "auto" and command.source == "person")
    message = QueuedMessage(
        message_id=message_id,
        input_version=draft.version,
        arrived=draft.version,
        delivery=delivery,
        coalesce=policy.coalesce and delivery == "queue",
        hold=holds,
        run_settings=command.run_settings is not None,
    )
    delivered_as = deliver(draft, (message,), delivery, command.actor)
    start_next(draft)
    reply: JsonObject = {"message_id": message_id, "delivered_as": delivered_as, "version": draft.version}
    if find(draft.head, message_id) is not None:
        draft.event("message_queued", {"message_id": message_id, "delivery": delivered_as})
    else:
        reply["turn_id"] = draft.turn.turn_id
    return reply


def begin_session(draft: Draft, actor: Actor, agent: str | None, default_agent: str) -> None:
    """Make sure that there is a session, and that it is the one of this agent.

    Raises:
        RequestConflictError: `agent_mismatch`: the session belongs to another agent.
    """
    head = draft.head
    if head.exists and agent is not None and agent != head.agent:
        raise RequestConflictError(
            f"this session belongs to agent {head.agent!r}, not {agent!r}: leave `agent` out or use another session",
            code="agent_mismatch",
        )
    draft.head = replace(
        head,
        agent=head.agent or agent or default_agent,
        owner=head.owner or actor,
        created_at=head.created_at or draft.now,
        last_activity_at=head.last_activity_at or draft.now,
    )
