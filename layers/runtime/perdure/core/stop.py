"""Stopping a turn: one marker on HEAD, then whatever had started is waited for (spec U-4)."""

from __future__ import annotations

from perdure.core.calls import withdraw_calls
from perdure.core.decision import Draft
from perdure.core.entries import Actor
from perdure.core.head import Frontier, Head, StopMarker
from perdure.core.turns import cancel_turn
from perdure.core.values import replace


def begin_stop(
    draft: Draft,
    *,
    actor: Actor,
    disposition: str = "keep",
    reason: str = "stopped",
    frontier: Frontier | None = None,
) -> None:
    """Mark the running turn and settle at once all that did not start. What started ends it later."""
    turn = draft.turn
    marker = StopMarker(at=draft.now, disposition=disposition, actor=actor, reason=reason, frontier=frontier)
    draft.set_turn(replace(turn, stop=marker))
    by = actor.told()
    draft.event("turn_stopping", {"actor": by, "disposition": disposition, "reason": reason})
    withdraw_calls(draft, reason="turn_cancelled")
    step = draft.turn.step
    if step is not None and step.waits(draft.now):  # nobody runs it: a stop gives the reconnect up (spec STOP-13)
        draft.set_turn(replace(draft.turn, step=None))
        step = None
    if step is None and not draft.turn.open_calls:
        cancel_turn(draft)


def result_for_another_turn(head: Head, turn_id: str | None) -> str:
    """Return what a stop is answered that does not mean the running turn."""
    if turn_id is not None and head.last_turn is not None and head.last_turn.turn_id == turn_id:
        return "already_recorded" if head.last_turn.outcome == "cancelled" else "too_late"
    if turn_id is None and head.turn is None:
        return "idle"
    return "other_turn"
