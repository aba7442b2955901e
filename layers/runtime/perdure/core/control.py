"""What people do to a session that runs: stop, pause, resume, retry, and change what waits in its inbox."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from perdure.core.calls import make_ready
from perdure.core.commands import StopTurn
from perdure.core.control_commands import (
    CloseSession,
    DeliverMessage,
    EditMessage,
    MoveMessage,
    PauseSession,
    RemoveMessage,
    ResumeSession,
    RetryTurn,
)
from perdure.core.decision import Decision, Draft
from perdure.core.delivery import deliver
from perdure.core.entries import Actor
from perdure.core.head import Call, ModelStep, QueuedMessage, Turn
from perdure.core.hold import release
from perdure.core.inbox import coalesced, find, insert, place, same_class, take_out
from perdure.core.stop import begin_stop, result_for_another_turn
from perdure.core.turns import reopen_turn, start_next
from perdure.core.values import replace
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError

JsonObject = dict[str, Any]


def on_stop_turn(draft: Draft, command: StopTurn) -> Decision:
    """Record a stop of the turn that is meant, take back a message that still waits, or dismiss a failed turn."""
    head = draft.head
    if command.message_id is not None and (waiting := find(head, command.message_id)) is not None:
        _remove(draft, waiting, command.actor)
        return draft.decision({"result": "recorded"}, command.receipts)
    turn = head.turn
    if turn is None or not _is_meant(turn, command):
        dismisses = turn is None and (command.turn_id is None or _is_latest(draft, command.turn_id))
        if dismisses and command.message_id is None and command.step_id is None and release(draft, command.actor):
            start_next(draft)
            return draft.decision({"result": "recorded"}, command.receipts)
        names_another = command.message_id is not None or command.step_id is not None
        result = "other_turn" if names_another else result_for_another_turn(head, command.turn_id)
        return Decision.unchanged(head, {"result": result})
    if turn.stop is not None:
        return Decision.unchanged(head, {"result": "already_recorded"})
    if turn.controls < 1:
        return Decision.unchanged(head, {"result": "not_controllable"})
    begin_stop(draft, actor=command.actor, disposition=command.disposition, frontier=command.frontier)
    return draft.decision({"result": "recorded"}, command.receipts)


def _is_meant(turn: Turn, command: StopTurn) -> bool:
    if command.message_id is not None:
        return command.message_id == turn.message_id
    if command.step_id is not None:
        running = turn.call(command.step_id)
        in_call = running is not None and not running.is_final
        return in_call or (turn.step is not None and turn.step.step_id == command.step_id)
    return command.turn_id is None or command.turn_id == turn.turn_id


def _is_latest(draft: Draft, turn_id: str) -> bool:
    last = draft.head.last_turn
    return last is not None and last.turn_id == turn_id


def on_pause_session(draft: Draft, command: PauseSession) -> Decision:
    """Close the gate: what runs finishes, what is decided is recorded, and nothing begins (spec U-13)."""
    if draft.head.paused_at is not None:
        return Decision.unchanged(draft.head, {"result": "already_recorded"})
    draft.head = replace(draft.head, paused_at=draft.now)
    draft.event("session_paused", {"actor": command.actor.told()})
    return draft.decision({"result": "recorded"}, command.receipts)


def on_resume_session(draft: Draft, command: ResumeSession) -> Decision:
    """Open the gate: whatever is ready begins, and its times count from here."""
    if draft.head.paused_at is None:
        return Decision.unchanged(draft.head, {"result": "already_recorded"})
    draft.head = replace(draft.head, paused_at=None)
    draft.event("session_resumed", {"actor": command.actor.told()})
    turn = draft.head.turn
    if turn is not None:
        now = draft.now
        calls = tuple(
            replace(c, ready_at=now, first_attempt_at=now) if c.is_ready and not _is_later(c, now) else c
            for c in turn.calls
        )
        step = turn.step
        if step is not None and not _is_later(step, now):
            step = replace(step, ready_at=now, first_attempt_at=now)
        draft.set_turn(replace(turn, calls=calls, step=step))
        make_ready(draft)
    start_next(draft)
    return draft.decision({"result": "recorded"}, command.receipts)


def _is_later(step: ModelStep | Call, now: datetime) -> bool:
    return step.not_before is not None and step.not_before > now


def on_retry_turn(draft: Draft, command: RetryTurn) -> Decision:
    """Run the failed model step again; finished steps and their results stay (spec RETRY-08).

    While a turn waits for a reconnect: do not wait any longer (RETRY-03).

    Raises:
        RequestConflictError: `not_failed`: the latest turn did not fail, and none waits to be sent again.
    """
    turn, failed = draft.head.turn, draft.head.last_turn
    if turn is not None and turn.step is not None and turn.step.waits(draft.now) and turn.stop is None:
        step = turn.step
        now = replace(step, attempt=step.attempt + 1, spared=step.spared + 1, ready_at=draft.now, not_before=None)
        draft.set_turn(replace(turn, step=replace(now, first_attempt_at=draft.now, waiting_since=None)))
        return draft.decision({"result": "recorded"}, command.receipts)
    if turn is not None or failed is None or failed.outcome != "failed":
        raise RequestConflictError("the latest turn did not fail: there is nothing to retry", code="not_failed")
    release(draft, command.actor)
    reopen_turn(draft, failed, {"retry_of": failed.turn_id, "retry_id": command.retry_id})
    return draft.decision({"result": "recorded", "turn_id": draft.turn.turn_id}, command.receipts)


def on_edit_message(draft: Draft, command: EditMessage) -> Decision:
    """Change a waiting message's content.

    Raises:
        RequestConflictError: `stale_revision`: somebody else edited it meanwhile.
    """
    message = waiting_message(draft, command.edited.message_id)
    if message.input_version != command.base_version:
        raise RequestConflictError(
            f"message {message.message_id!r} was edited meanwhile: read the inbox again", code="stale_revision"
        )
    draft.accept(command.edited)
    edited = replace(message, input_version=draft.version, arrived=message.accepted_version)
    _replace(draft, message, edited)
    draft.event("inbox.edited", {"message_id": message.message_id, "actor": command.actor.told()})
    return draft.decision({"result": "recorded"}, command.receipts)


def on_move_message(draft: Draft, command: MoveMessage) -> Decision:
    """Change a waiting message's place among those of its class.

    Raises:
        InvalidRequestError: It would go before or behind a message of another class.
        RequestConflictError: `stale_revision`: the message that it would go next to does not wait (any more).
    """
    message = waiting_message(draft, command.message_id)
    other_id = command.before or command.after
    take_out(draft, message)
    inbox = draft.head.inbox
    like = [i for i, other in enumerate(inbox) if same_class(message, other)]
    if other_id is not None:
        other = find(draft.head, other_id)
        if other is None:
            raise RequestConflictError(
                f"no message {other_id!r} waits beside {message.message_id!r}: read the inbox again",
                code="stale_revision",
            )
        if not same_class(message, other):
            raise InvalidRequestError(
                f"message {message.message_id!r} can't be moved next to {other_id!r}, which is delivered another way: "
                "change its delivery"
            )
        insert(draft, message, inbox.index(other) + (1 if command.after else 0))
    elif command.position == "first" and like:
        insert(draft, message, like[0])
    else:
        place(draft, message)
    draft.event("inbox.moved", {"message_id": message.message_id, "actor": command.actor.told()})
    return draft.decision({"result": "recorded"}, command.receipts)


def on_remove_message(draft: Draft, command: RemoveMessage) -> Decision:
    """Take a waiting message back; the reply says where its content is."""
    message = waiting_message(draft, command.message_id)
    _remove(draft, message, command.actor)
    reply = {"result": "removed", "message_id": message.message_id, "input_version": message.input_version}
    return draft.decision(reply, command.receipts)


def on_deliver_message(draft: Draft, command: DeliverMessage) -> Decision:
    """Deliver a waiting message in another way. Of messages that share a turn, all are (spec INBOX-10)."""
    message = waiting_message(draft, command.message_id)
    group = coalesced(draft.head.inbox) if message.coalesce else (message,)
    together = group if message in group and command.delivery in ("inject", "steer") else (message,)
    for each in together:
        take_out(draft, each)
    delivered_as = deliver(draft, together, command.delivery, command.actor)
    start_next(draft)
    reply: JsonObject = {"message_id": message.message_id, "delivered_as": delivered_as}
    if find(draft.head, message.message_id) is not None:
        draft.event("message_queued", {"message_id": message.message_id, "delivery": delivered_as})
    elif draft.head.turn is not None:
        reply["turn_id"] = draft.turn.turn_id
    return draft.decision(reply, command.receipts)


def on_close_session(draft: Draft, command: CloseSession) -> Decision:
    """Take no more messages, or take them again. What runs and waits goes on (spec SESS-19)."""
    if (draft.head.closed_at is not None) == command.closed:
        return Decision.unchanged(draft.head, {"result": "already_recorded"})
    draft.head = replace(draft.head, closed_at=draft.now if command.closed else None)
    draft.event("session.closed" if command.closed else "session.reopened", {"actor": command.actor.told()})
    return draft.decision({"result": "recorded"}, command.receipts)


def waiting_message(draft: Draft, message_id: str) -> QueuedMessage:
    """Return the waiting message with this id.

    Raises:
        RequestConflictError: `already_delivered`: a turn has it.
        NotFoundError: `message_not_found`: HEAD does not have it; the caller checks whether it ever existed.
    """
    turn = draft.head.turn
    if turn is not None and (message_id == turn.message_id or any(m.message_id == message_id for m in turn.joined)):
        raise already_delivered(message_id)
    message = find(draft.head, message_id)
    if message is None:
        raise NotFoundError(f"no message {message_id!r} is waiting", code="message_not_found")
    return message


def already_delivered(message_id: str) -> RequestConflictError:
    """Return the error for changing a message that a turn has."""
    return RequestConflictError(
        f"message {message_id!r} was already delivered: it can't be changed any more", code="already_delivered"
    )


def _remove(draft: Draft, message: QueuedMessage, actor: Actor) -> None:
    take_out(draft, message)
    draft.event("message_removed", {"message_id": message.message_id, "actor": actor.told()})


def _replace(draft: Draft, message: QueuedMessage, changed: QueuedMessage) -> None:
    inbox = tuple(changed if other is message else other for other in draft.head.inbox)
    draft.head = replace(draft.head, inbox=inbox)
