"""Beginning a session without a message, and importing a history that was written elsewhere, once (spec STORE-14)."""

from __future__ import annotations

from perdure.core.admission import begin_session
from perdure.core.control_commands import SeedHistory, StartSession
from perdure.core.decision import Decision, Draft
from perdure.core.entries import Input
from perdure.core.settings import take_settings
from perdure.errors import InvalidRequestError, RequestConflictError

SEED_TURN = "seed"
"""The turn that imported messages belong to; the first real one is `turn-1`."""


def on_start_session(draft: Draft, command: StartSession) -> Decision:
    """Begin a session that waits for its first message. One that is there is not reset (spec SESS-01)."""
    known = draft.head.exists
    begin_session(draft, command.actor, command.agent, command.default_agent)
    if known:
        return Decision.unchanged(draft.head, {"result": "already_recorded"})
    if command.settings is not None:
        take_settings(draft, command.settings)
    actor = command.actor.told()
    draft.event("session.started", {"actor": actor})
    return draft.decision({"result": "recorded"}, command.receipts)


def on_seed_history(draft: Draft, command: SeedHistory) -> Decision:
    """Append the messages of an imported history. No model is called.

    Raises:
        RequestConflictError: `already_started`: the session has messages.
        InvalidRequestError: Some messages have an id and some have none, or two have the same.
    """
    if draft.head.message_sequence or draft.head.inbox:
        raise RequestConflictError("this session has messages already: import into a new one", code="already_started")
    named = [message.message_id for message in command.messages if message.message_id is not None]
    if named and len(named) < len(command.messages):
        raise InvalidRequestError(
            "some of the messages have a message_id and some have none: give all of them one, or none"
        )
    if len(set(named)) < len(named):
        raise InvalidRequestError("two of the messages have the same message_id: each needs its own")
    begin_session(draft, command.actor, command.agent, command.default_agent)
    draft.turn_id = SEED_TURN
    for seeded in command.messages:
        if seeded.role == "assistant":
            draft.message("assistant", ({"type": "text", "text": seeded.text},), message_id=seeded.message_id)
            continue
        message_id = seeded.message_id or draft.new_id("message")
        draft.accept(Input(message_id=message_id, text=seeded.text, actor=command.actor, source="application"))
        draft.message("user", message_id=message_id, input_version=draft.version)
    draft.turn_id = None
    draft.event("session.seeded", {"message_count": len(command.messages)})
    return draft.decision({"result": "recorded", "message_count": len(command.messages)}, command.receipts)
