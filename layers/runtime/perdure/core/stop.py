"""Stopping a turn: one marker on HEAD, then whatever had started is waited for."""

from __future__ import annotations

from perdure.core.commands import StopTurn
from perdure.core.decision import Decision, Draft
from perdure.core.head import Head, StopMarker
from perdure.core.turns import cancel_turn, reject_open_calls
from perdure.core.values import replace


def on_stop_turn(draft: Draft, command: StopTurn) -> Decision:
    """Record a stop and settle at once all that did not start. Started writes and a running model call end it later."""
    turn = draft.head.turn
    if turn is None or (command.turn_id is not None and command.turn_id != turn.turn_id):
        return Decision.unchanged(draft.head, {"result": _result_for_another_turn(draft.head, command.turn_id)})
    if turn.stop is not None:
        return Decision.unchanged(draft.head, {"result": "already_recorded"})

    marker = StopMarker(at=draft.now, disposition=command.disposition, actor=command.actor)
    draft.set_turn(replace(turn, stop=marker))
    actor = {"issuer": command.actor.issuer, "subject": command.actor.subject}
    draft.event("turn_stopping", {"actor": actor, "disposition": command.disposition})
    reject_open_calls(draft)
    if draft.turn.step is None and not draft.turn.open_calls:
        cancel_turn(draft)
    return draft.decision({"result": "recorded"}, command.receipts)


def _result_for_another_turn(head: Head, turn_id: str | None) -> str:
    if turn_id is not None and head.last_turn is not None and head.last_turn.turn_id == turn_id:
        return "already_recorded" if head.last_turn.outcome == "cancelled" else "too_late"
    if turn_id is None and head.turn is None:
        return "idle"
    return "other_turn"
