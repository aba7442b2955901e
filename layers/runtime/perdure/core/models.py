"""What follows a model step: an answer, tool calls, a failure, or the end of a stopped turn."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from perdure.core import texts
from perdure.core.approvals import denial_key, raise_approvals
from perdure.core.calls import settle_call
from perdure.core.commands import ModelFinished, ModelWaits, Reconnect, RequestedCall
from perdure.core.decision import Decision, Draft
from perdure.core.head import Call, Interrupt, Wait
from perdure.core.ids import content_hash
from perdure.core.limits import MAX_CALLS_PER_RESPONSE
from perdure.core.turns import (
    cancel_turn,
    complete_turn,
    end_steered_turn,
    fail_turn,
    join_calls,
    join_injected,
    record_usage,
    steer_turn,
)
from perdure.core.values import replace

JsonObject = dict[str, Any]

_FAILED_ENDINGS = {
    "truncated": "the model's answer was cut off at its output limit",
    "filtered": "the provider's content filter stopped the answer",
    "refused": "the model refused to answer",
    "not_accepted": "the answer is not what this agent accepts",
}
"""Endings that fail the turn though the provider call succeeded; their text stays as a message with that status."""


def on_model_finished(draft: Draft, command: ModelFinished) -> Decision:
    """Take a model step's outcome, or only its usage when the step is no longer expected."""
    turn = draft.head.turn
    step = turn.step if turn else None
    if turn is None or step is None or step.step_id != command.step_id or step.attempt != command.attempt:
        if not command.usage:
            return Decision.unchanged(draft.head)
        _record_usage(draft, command)
        return draft.decision({"accepted": False})

    draft.set_turn(replace(turn, step=None))
    if command.stop_policy is None:  # else no provider was called
        _record_step(draft, command)
        reconnects = turn.reconnects + len(command.reconnects)
        counted = replace(draft.turn, model_calls=turn.model_calls + 1, reconnects=reconnects)
        draft.set_turn(replace(counted, model_version=draft.version))
    if turn.stop is not None or command.ending == "aborted":
        keep_partial(draft, command.parts)
        cancel_turn(draft)
    elif command.ending == "failed":
        fail_turn(draft, command.error_code, command.error_message, credential=command.credential)
    elif command.ending in _FAILED_ENDINGS:
        if command.parts:
            draft.message("assistant", command.parts, status=command.ending, provider=command.provider)
        fail_turn(draft, command.ending, command.error_message or _FAILED_ENDINGS[command.ending])
    elif command.ending == "tool_calls" and command.calls:
        draft.run_state(command.run_state)
        _ask_for_tools(draft, command)
    elif command.stop_policy is not None:
        complete_turn(draft, answer=_text(command), reason="policy_stop", policy_name=command.stop_policy)
    else:  # asking for no tool is an answer, whatever the finish reason says (field case F011)
        if command.parts:
            draft.message("assistant", command.parts, provider=command.provider)
        complete_turn(draft, answer=_text(command))
    if command.titles and draft.head.title is None:
        from perdure.core.titles import begin_titling  # for agents that name sessions only

        begin_titling(draft)
    return draft.decision({"accepted": True})


def on_model_waits(draft: Draft, command: ModelWaits) -> Decision:
    """Call a provider again after a wait that nobody holds a worker for (spec RETRY-01, U-7)."""
    turn = draft.head.turn
    step = turn.step if turn else None
    if turn is None or step is None or step.step_id != command.step_id or step.attempt != command.attempt:
        record_usage(draft, command.usage, step=command.step_id, attempt=command.attempt, turn_id=command.turn_id)
        return draft.decision({"accepted": False})
    _record_reconnects(draft, command.reconnects, command.step_id, command.attempt)
    record_usage(draft, command.usage, step=command.step_id, attempt=command.attempt, turn_id=command.turn_id)
    if command.partial:
        draft.partial(command.partial)
    again_at = draft.now + command.retry_in
    again = replace(
        step,
        attempt=step.attempt + 1,
        spared=step.spared + 1,
        ready_at=again_at,
        first_attempt_at=again_at,
        not_before=again_at,
        claimed_by=None,
        claimed_until=None,
        waiting_since=draft.now,
    )
    reconnects = turn.reconnects + len(command.reconnects)
    draft.set_turn(replace(draft.turn, step=again, reconnects=reconnects))
    if turn.stop is not None:
        end_waiting_step(draft)
    elif turn.steer:
        draft.set_turn(replace(draft.turn, step=None))
        end_steered_turn(draft)
    else:
        join_injected(draft)  # when the wait is over, the input is assembled and nothing is committed
    return draft.decision({"accepted": True})


def end_waiting_step(draft: Draft) -> None:
    """End a stopped turn whose model step nobody runs, because it waits to be sent again (spec STOP-13)."""
    draft.set_turn(replace(draft.turn, step=None))
    cancel_turn(draft)


def _record_step(draft: Draft, command: ModelFinished) -> None:
    step, attempt = command.step_id, command.attempt
    draft.event("model_started", at=command.started_at, step=step, attempt=attempt)
    _record_reconnects(draft, command.reconnects, step, attempt)
    _record_usage(draft, command)
    ended = "completed" if command.ending in ("answer", "tool_calls") else command.ending
    draft.event("model_finished", {"status": ended}, step=step, attempt=attempt)


def _record_reconnects(draft: Draft, reconnects: tuple[Reconnect, ...], step: str, attempt: int) -> None:
    for reconnect in reconnects:
        if reconnect.partial:
            draft.event("attempt_reset", {"reason": reconnect.reason}, at=reconnect.at, step=step, attempt=attempt)
        draft.event(
            "model_retry_scheduled",
            {"retry_in_ms": reconnect.retry_in_ms, "attempt": reconnect.number, "reason": reconnect.reason},
            at=reconnect.at,
            step=step,
            attempt=attempt,
        )


def _record_usage(draft: Draft, command: ModelFinished) -> None:
    record_usage(draft, command.usage, step=command.step_id, attempt=command.attempt, turn_id=command.turn_id)


def keep_partial(draft: Draft, parts: tuple[JsonObject, ...]) -> None:
    """Keep what there was of a stopped answer, marked: projections cut it, or leave it out (spec U-4, U-5)."""
    stop = draft.turn.stop
    if parts:
        status = "superseded" if stop is not None and stop.disposition == "discard" else "interrupted"
        draft.message("assistant", parts, status=status)


def _text(command: ModelFinished) -> str:
    return "".join(part["text"] for part in command.parts if part["type"] == "text")


def _ask_for_tools(draft: Draft, command: ModelFinished) -> None:
    call_ids = [draft.new_id("call") for _ in command.calls]
    parts = (*command.parts, *(_call_part(i, c) for i, c in zip(call_ids, command.calls, strict=True)))
    draft.message("assistant", parts, provider=command.provider)
    mode = draft.head.approval_mode or command.approval_mode
    calls = tuple(_call(draft, i, c, mode) for i, c in zip(call_ids, command.calls, strict=True))
    settled_at_once = [
        _settled_at_once(draft, command, index, requested, mode) for index, requested in enumerate(command.calls)
    ]
    # A call that is over before it begins never enters HEAD, which has to stay small whatever a model sends.
    open_calls = tuple(call for call, settled in zip(calls, settled_at_once, strict=True) if settled is None)
    draft.set_turn(replace(draft.turn, calls=open_calls))
    for call, requested, settled in zip(calls, command.calls, settled_at_once, strict=True):
        draft.event(
            "tool_call_deferred",
            {
                "tool_call_id": call.call_id,
                "tool_name": call.tool_name,
                "effect": call.effect,
                "requires_approval": call.requires_approval,
            },
            step=command.step_id,
            attempt=command.attempt,
        )
        if settled is not None:
            status, output, reason = settled
            settle_call(draft, call, status, output, reason=reason)
        elif call.status == "awaiting_approval" and mode != "always_ask" and _was_granted(draft, call, requested):
            draft.set_turn(draft.turn.with_call(replace(call, status="approved")))
        elif call.status == "awaiting_approval":
            _ask_person(draft, call, requested)
        elif call.built_in:
            _take_built_in(draft, call, requested)
    raise_approvals(draft, one_by_one=command.one_by_one)
    if command.answered:
        complete_turn(draft, answer=_text(command))
    elif draft.turn.steer:
        steer_turn(draft)
    elif command.limit_reached:
        complete_turn(draft, answer=_text(command), reason="model_call_limit")
    else:
        pairs = zip(call_ids, command.calls, strict=True)
        join_calls(draft, frozenset(call_id for call_id, requested in pairs if requested.inline))


def _was_granted(draft: Draft, call: Call, requested: RequestedCall) -> bool:
    if not draft.head.grants:
        return False
    from perdure.core.grants import use_grant  # few sessions have any

    return use_grant(draft, call.call_id, requested)


def _take_built_in(draft: Draft, call: Call, requested: RequestedCall) -> None:
    """Do at once what a built-in tool is for: ask, or begin to wait. Their modules are imported with the first."""
    if call.status == "awaiting_answer":
        from perdure.core.questions import ask_user

        ask_user(draft, call, requested)
    else:
        from perdure.core.waits import begin_wait

        begin_wait(draft, call, requested)


_BUILT_IN_STATUSES = {"ask_user": "awaiting_answer", "durable_wait": "waiting_for_timer"}


def _call(draft: Draft, call_id: str, requested: RequestedCall, mode: str) -> Call:
    waits = requested.built_in or requested.brought
    asks = not waits and (mode == "always_ask" or (requested.requires_approval and mode != "allow_all"))
    status = "awaiting_approval" if asks else "approved"
    if requested.brought:
        status = "waiting_for_event"
    elif requested.built_in:
        status = _BUILT_IN_STATUSES[requested.tool_name]
    return Call(
        call_id=call_id,
        tool_name=requested.tool_name,
        effect=requested.effect,
        requires_approval=asks,
        status=status,
        built_in=requested.built_in,
        lane=requested.lane,
        reconciles=requested.reconciles,
        wait=Wait(kind="result", since=draft.now, fence=draft.version) if requested.brought else None,
    )


def _call_part(call_id: str, requested: RequestedCall) -> JsonObject:
    part: JsonObject = {"type": "tool_call", "tool_call_id": call_id, "tool_name": requested.tool_name}
    if requested.arguments is not None:
        part["arguments"] = requested.arguments
    else:
        part["arguments_text"] = requested.arguments_text or ""
    if requested.provider_call_id:
        part["provider_call_id"] = requested.provider_call_id
    return part if requested.shown is None else part | requested.shown


def _settled_at_once(
    draft: Draft, command: ModelFinished, index: int, requested: RequestedCall, mode: str
) -> tuple[str, str, str | None] | None:
    """Return status, text and cancellation reason of a call that ends before it begins; None for one that goes on."""
    if requested.settled is not None and requested.settled[0] == "succeeded":
        return *requested.settled, None  # its provider has run it
    if command.limit_reached:
        return "failed", texts.CALL_LIMIT.format(limit=command.call_limit), None
    if index >= MAX_CALLS_PER_RESPONSE:
        return "failed", texts.TOO_MANY_CALLS.format(limit=MAX_CALLS_PER_RESPONSE), None
    if requested.settled is not None:
        return *requested.settled, None
    blocked = requested.effect != "read" if mode == "read_only" else mode == "deny_all" and requested.requires_approval
    if blocked:
        return "rejected", texts.BLOCKED_BY_MODE.format(mode=mode), "policy"
    if requested.requires_approval and denial_key(requested.tool_name, _hash(requested)) in draft.turn.denied:
        return "rejected", texts.DENIED_BEFORE, "denied"
    return None


def _ask_person(draft: Draft, call: Call, requested: RequestedCall) -> None:
    """Note that a person has to decide; they are asked by `raise_approvals`."""
    deadline = requested.approval_deadline
    interrupt = Interrupt(
        interrupt_id=call.call_id,
        kind="approval",
        call_id=call.call_id,
        raised_at=None,
        fence=draft.version,
        arguments_hash=_hash(requested),
        decide_in_ms=None if deadline is None else deadline // timedelta(milliseconds=1),
    )
    draft.set_turn(replace(draft.turn, interrupts=(*draft.turn.interrupts, interrupt)))


def _hash(requested: RequestedCall) -> str:
    return content_hash(requested.arguments if requested.arguments is not None else requested.arguments_text or "")
