"""What follows an attempt that nobody will finish: another one, or the failure route."""

from __future__ import annotations

from perdure.core import texts
from perdure.core.calls import put_off, settle_call
from perdure.core.commands import AttemptLost, AttemptPutOff
from perdure.core.decision import Decision, Draft
from perdure.core.head import Call, ModelStep, Turn
from perdure.core.limits import ATTEMPT_WINDOW, MAX_ATTEMPTS
from perdure.core.models import keep_partial
from perdure.core.tasks import on_task_cancelled
from perdure.core.tools import give_up, try_again_or_give_up
from perdure.core.turns import cancel_turn, end_steered_turn, fail_turn, join_calls, join_injected, record_usage
from perdure.core.values import replace


def on_attempt_lost(draft: Draft, command: AttemptLost) -> Decision:
    """Replace a lost attempt, or give its step up when the budget is spent. Of old news only the usage counts."""
    if any(each.step_id == command.step_id for each in draft.head.cancellations):
        from perdure.core.wait_commands import TaskCancelled  # there are few of them

        done = TaskCancelled(step_id=command.step_id, attempt=command.attempt, done=False)
        return on_task_cancelled(draft, done)
    titling = draft.head.titling
    if titling is not None and (titling.step_id, titling.attempt) == (command.step_id, command.attempt):
        from perdure.core.titles import try_again  # as above

        try_again(draft, titling, final=command.final)
        return draft.decision({"accepted": True})
    turn = draft.head.turn
    if turn is None:
        return _old_news(draft, command)
    if turn.step is not None and turn.step.step_id == command.step_id and turn.step.attempt == command.attempt:
        _model_attempt_lost(draft, turn, turn.step, command)
        return draft.decision({"accepted": True})
    call = turn.call(command.step_id)
    if call is None or not call.is_ready or call.attempt != command.attempt:
        return _old_news(draft, command)
    _tool_attempt_lost(draft, call, command)
    join_calls(draft)
    return draft.decision({"accepted": True})


def _old_news(draft: Draft, command: AttemptLost) -> Decision:
    _count(draft, command)
    return draft.decision({"accepted": False}) if command.usage else Decision.unchanged(draft.head)


def _count(draft: Draft, command: AttemptLost) -> None:
    record_usage(draft, command.usage, step=command.step_id, attempt=command.attempt, turn_id=command.turn_id)


def _model_attempt_lost(draft: Draft, turn: Turn, step: ModelStep, command: AttemptLost) -> None:
    if turn.stop is not None:
        _count(draft, command)
        draft.set_turn(replace(draft.turn, step=None))
        keep_partial(draft, command.parts)
        cancel_turn(draft)
        return
    if turn.steer:
        _count(draft, command)
        draft.set_turn(replace(draft.turn, step=None))
        end_steered_turn(draft)
        return
    in_time = draft.now - step.first_attempt_at < ATTEMPT_WINDOW
    if not command.final and step.attempt - step.spared < MAX_ATTEMPTS and in_time:
        _count(draft, command)
        draft.event("attempt_reset", {"reason": command.reason}, step=step.step_id, attempt=step.attempt)
        again = replace(
            step, attempt=step.attempt + 1, ready_at=draft.now, not_before=None, claimed_by=None, waiting_since=None
        )
        draft.set_turn(replace(draft.turn, step=again))
        join_injected(draft)  # what is assembled again may be joined, too
        return
    if command.claimed:  # somebody began it, so it is told as a pair
        ended = {"status": "failed", "reason": command.reason}
        draft.event("model_started", at=step.ready_at, step=step.step_id, attempt=step.attempt)
        _count(draft, command)
        draft.event("model_finished", ended, step=step.step_id, attempt=step.attempt)
    draft.set_turn(replace(draft.turn, step=None))
    fail_turn(draft, command.error_code, f"the model step was given up after attempt {step.attempt}: {command.reason}")


def _tool_attempt_lost(draft: Draft, call: Call, command: AttemptLost) -> None:
    began = call.started is not None or call.parked or call.task is not None
    if not command.claimed and not began and call.attempt - call.spared == 1:
        settle_call(draft, call, "failed", texts.did_not_run(command.reason))
    elif command.final:
        give_up(draft, call, command.reason)
    else:
        try_again_or_give_up(draft, call, command.reason, at_once=True)


def on_attempt_put_off(draft: Draft, command: AttemptPutOff) -> Decision:
    """Number the attempt anew that a worker claimed and did not begin, so that it can be claimed after the pause."""
    turn = draft.head.turn
    if turn is None:
        return Decision.unchanged(draft.head)
    step, call = turn.step, turn.call(command.step_id)
    if step is not None and (step.step_id, step.attempt) == (command.step_id, command.attempt):
        again = replace(step, attempt=step.attempt + 1, spared=step.spared + 1, claimed_by=None, claimed_until=None)
        draft.set_turn(replace(turn, step=again))
    elif call is not None and call.is_ready and call.attempt == command.attempt:
        put_off(draft, call)
    else:
        return Decision.unchanged(draft.head)
    return draft.decision({"accepted": True})
