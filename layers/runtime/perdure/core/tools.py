"""What follows the start and the end of a tool's attempt."""

from __future__ import annotations

from perdure.core import texts
from perdure.core.calls import put_off, settle_call, started_by, told_of_start
from perdure.core.commands import ToolFinished, ToolsFinished, ToolStarted
from perdure.core.decision import Decision, Draft
from perdure.core.head import Call, Head
from perdure.core.limits import ATTEMPT_WINDOW, MAX_ATTEMPTS, TOOL_RETRY_DELAYS
from perdure.core.tasks import look_for_outcome, told_of_look
from perdure.core.turns import join_calls
from perdure.core.values import replace


def on_tool_started(draft: Draft, command: ToolStarted) -> Decision:
    """Record that a write is about to run. The body may run only when the reply says `go`.

    A stop that came first leaves nothing to start. A start that this very worker made before, and whose answer
    was lost, is recognised by its nonce and holds.
    """
    head = draft.head
    call = head.turn.call(command.call_id) if head.turn else None
    if head.turn is None or call is None or not call.is_ready or call.attempt != command.attempt:
        return Decision.unchanged(head, {"go": False})
    if call.started_attempt == command.attempt:
        return Decision.unchanged(head, {"go": call.started == command.owner})
    if head.turn.stop is not None:  # an earlier attempt of it ran, or it would have been rejected
        settle_call(draft, call, "outcome_unknown", texts.OUTCOME_UNKNOWN, reason="turn_cancelled")
        join_calls(draft)
        return draft.decision({"go": False})

    if head.paused_at is not None:  # the gate was closed after this worker had claimed the attempt
        put_off(draft, call)
        return draft.decision({"go": False})
    draft.set_turn(head.turn.with_call(started_by(draft, call, command.owner)))
    return draft.decision({"go": True})


def on_tool_finished(draft: Draft, command: ToolFinished) -> Decision:
    """Decide what follows a tool's outcome: wait for its siblings, try again, or ask the model."""
    return on_tools_finished(draft, ToolsFinished(outcomes=(command,)))


def on_tools_finished(draft: Draft, command: ToolsFinished) -> Decision:
    """Take several outcomes at once, in their order; those that are old news change nothing."""
    taken = [_take_outcome(draft, outcome) for outcome in command.outcomes]
    if not any(taken):
        return Decision.unchanged(draft.head)
    join_calls(draft)
    return draft.decision({"accepted": True})


def is_awaited(head: Head, outcome: ToolFinished) -> bool:
    """Whether HEAD still waits for this attempt's outcome."""
    call = head.turn.call(outcome.call_id) if head.turn else None
    return call is not None and call.is_ready and call.attempt == outcome.attempt


def _take_outcome(draft: Draft, outcome: ToolFinished) -> bool:
    if not is_awaited(draft.head, outcome):
        return False  # old news: another attempt, or the turn is closed
    call = draft.turn.call(outcome.call_id)
    assert call is not None, "it is awaited"
    if call.task is None:
        told_of_start(draft, call, outcome.started_at)
    else:
        told_of_look(draft, call, outcome)
    if outcome.outcome != "error":
        settle_call(draft, call, outcome.outcome, outcome.output)
    else:
        try_again_or_give_up(draft, call, outcome.output)
    return True


def may_try_again(draft: Draft, attempt: int, first_attempt: Call) -> bool:
    """Whether another attempt of a call is within its budget: 3 attempts that begin within 30 minutes."""
    began = first_attempt.first_attempt_at or draft.now
    return attempt < MAX_ATTEMPTS and draft.now - began < ATTEMPT_WINDOW


def try_again_or_give_up(draft: Draft, call: Call, detail: str, *, at_once: bool = False) -> None:
    """Follow an attempt that ended without an outcome, as the tool's effect allows (spec TOOL-02, TOOL-05).

    Args:
        at_once: Nothing is wrong with the tool, its worker died: what follows need not wait.
    """
    stopping = draft.turn.stop is not None
    # An attempt that asked or parked has ended well, and looks only read.
    ran_once = call.runs_once and call.started_attempt == call.attempt and call.task is None
    if not stopping and not ran_once and may_try_again(draft, call.attempt - call.spared, call):
        draft.event("attempt_reset", {"reason": detail}, step=call.call_id, attempt=call.attempt)
        delay = TOOL_RETRY_DELAYS[min(call.attempt - call.spared, len(TOOL_RETRY_DELAYS)) - 1]
        later = None if at_once else draft.now + delay
        again = replace(call, attempt=call.attempt + 1, ready_at=later or draft.now, not_before=later, claimed_by=None)
        draft.set_turn(draft.turn.with_call(again))
    else:
        give_up(draft, call, detail)


def give_up(draft: Draft, call: Call, detail: str) -> None:
    """End a call whose attempts are spent, as truly as can be told."""
    if call.is_read:
        settle_call(draft, call, "failed", texts.ATTEMPTS_SPENT.format(detail=detail))
    elif call.started is None and not call.parked:
        settle_call(draft, call, "failed", texts.did_not_run(detail))
    elif call.reconciles and call.task is None and draft.turn.stop is None:
        look_for_outcome(draft, call)
    else:
        settle_call(draft, call, "outcome_unknown", texts.OUTCOME_UNKNOWN)
