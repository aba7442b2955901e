"""What follows the start and the end of a tool's attempt."""

from __future__ import annotations

from dataclasses import replace

from perdure.core import texts
from perdure.core.commands import ToolFinished, ToolStarted
from perdure.core.decision import Decision, Draft
from perdure.core.head import Call
from perdure.core.limits import ATTEMPT_WINDOW, MAX_ATTEMPTS, TOOL_RETRY_DELAYS
from perdure.core.turns import join_calls, settle_call, started_by


def on_tool_started(draft: Draft, command: ToolStarted) -> Decision:
    """Record that a write is about to run. The body may run only when the reply says `go`.

    A stop that came first leaves nothing to start. A start that this very worker made before, and whose answer
    was lost, is recognised by its nonce and holds.
    """
    head = draft.head
    call = head.turn.call(command.call_id) if head.turn else None
    if head.turn is None or call is None or call.is_final or call.attempt != command.attempt:
        return Decision.unchanged(head, {"go": False})
    if not call.is_ready:
        return Decision.unchanged(head, {"go": False})
    if call.started_attempt == command.attempt:
        return Decision.unchanged(head, {"go": call.started == command.owner})
    if head.turn.stop is not None:  # an earlier attempt of it ran, or it would have been rejected
        settle_call(draft, call, "outcome_unknown", texts.OUTCOME_UNKNOWN, reason="turn_cancelled")
        join_calls(draft)
        return draft.decision({"go": False})

    draft.set_turn(head.turn.with_call(started_by(draft, call, command.owner)))
    return draft.decision({"go": True})


def on_tool_finished(draft: Draft, command: ToolFinished) -> Decision:
    """Decide what follows a tool's outcome: wait for its siblings, try again, or ask the model."""
    head = draft.head
    call = head.turn.call(command.call_id) if head.turn else None
    if head.turn is None or call is None or call.is_final or call.attempt != command.attempt:
        return Decision.unchanged(head)  # old news: another attempt, or the turn is closed
    if call.status != "approved":
        return Decision.unchanged(head)

    if call.is_read:
        draft.event(
            "tool_call_started",
            {"tool_call_id": call.call_id, "tool_name": call.tool_name},
            at=command.started_at,
            step=call.call_id,
            attempt=call.attempt,
        )
    if command.outcome != "error":
        settle_call(draft, call, command.outcome, command.output)
    else:
        try_again_or_give_up(draft, call, command.output)
    join_calls(draft)
    return draft.decision({"accepted": True})


def may_try_again(draft: Draft, attempt: int, first_attempt: Call) -> bool:
    """Whether another attempt of a call is within its budget: 3 attempts that begin within 30 minutes."""
    began = first_attempt.first_attempt_at or draft.now
    return attempt < MAX_ATTEMPTS and draft.now - began < ATTEMPT_WINDOW


def try_again_or_give_up(draft: Draft, call: Call, detail: str) -> None:
    """Follow an attempt that ended without an outcome, as the tool's effect allows (spec TOOL-02, TOOL-05)."""
    stopping = draft.turn.stop is not None
    ran_once = call.runs_once and call.started is not None
    if not stopping and not ran_once and may_try_again(draft, call.attempt, call):
        delay = TOOL_RETRY_DELAYS[min(call.attempt, len(TOOL_RETRY_DELAYS)) - 1]
        draft.event("attempt_reset", {"reason": detail}, step=call.call_id, attempt=call.attempt)
        ready_at = draft.now + delay
        again = replace(call, attempt=call.attempt + 1, ready_at=ready_at, not_before=ready_at, claimed_by=None)
        draft.set_turn(draft.turn.with_call(again))
    elif call.is_read:
        settle_call(draft, call, "failed", texts.ATTEMPTS_SPENT.format(detail=detail))
    elif call.started is None:
        settle_call(draft, call, "failed", texts.did_not_run(detail))
    else:
        settle_call(draft, call, "outcome_unknown", texts.OUTCOME_UNKNOWN)
