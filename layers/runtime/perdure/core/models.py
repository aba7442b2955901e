"""What follows a model step: an answer, tool calls, a failure, or the end of a stopped turn."""

from __future__ import annotations

from typing import Any

from perdure.core import texts
from perdure.core.codec import format_time
from perdure.core.commands import ModelFinished, RequestedCall
from perdure.core.decision import Decision, Draft
from perdure.core.head import Call, Interrupt
from perdure.core.ids import content_hash
from perdure.core.limits import MAX_CALLS_PER_RESPONSE
from perdure.core.turns import cancel_turn, complete_turn, fail_turn, join_calls, record_usage, settle_call
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
        draft.set_turn(replace(draft.turn, model_calls=turn.model_calls + 1, model_version=draft.version))
    if turn.stop is not None or command.ending == "aborted":
        _keep_partial(draft, command)
        cancel_turn(draft)
    elif command.ending == "failed":
        fail_turn(draft, command.error_code, command.error_message)
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
    return draft.decision({"accepted": True})


def _record_step(draft: Draft, command: ModelFinished) -> None:
    step, attempt = command.step_id, command.attempt
    draft.event("model_started", at=command.started_at, step=step, attempt=attempt)
    for reconnect in command.reconnects:
        if reconnect.partial:
            draft.event("attempt_reset", {"reason": reconnect.reason}, at=reconnect.at, step=step, attempt=attempt)
        draft.event(
            "model_retry_scheduled",
            {"retry_in_ms": reconnect.retry_in_ms, "attempt": reconnect.number, "reason": reconnect.reason},
            at=reconnect.at,
            step=step,
            attempt=attempt,
        )
    _record_usage(draft, command)
    ended = "completed" if command.ending in ("answer", "tool_calls") else command.ending
    draft.event("model_finished", {"status": ended}, step=step, attempt=attempt)


def _record_usage(draft: Draft, command: ModelFinished) -> None:
    record_usage(draft, command.usage, step=command.step_id, attempt=command.attempt, turn_id=command.turn_id)


def _keep_partial(draft: Draft, command: ModelFinished) -> None:
    """Keep what the user saw of a stopped answer, marked; `discard` keeps nothing (spec U-4)."""
    stop = draft.turn.stop
    if command.parts and (stop is None or stop.disposition == "keep"):
        draft.message("assistant", command.parts, status="interrupted")


def _text(command: ModelFinished) -> str:
    return "".join(part["text"] for part in command.parts if part["type"] == "text")


def _ask_for_tools(draft: Draft, command: ModelFinished) -> None:
    call_ids = [draft.new_id("call") for _ in command.calls]
    parts = (*command.parts, *(_call_part(i, c) for i, c in zip(call_ids, command.calls, strict=True)))
    draft.message("assistant", parts, provider=command.provider)
    calls = tuple(_call(i, c) for i, c in zip(call_ids, command.calls, strict=True))
    settled_at_once = [
        _settled_at_once(draft, command, index, requested) for index, requested in enumerate(command.calls)
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
        elif call.status == "awaiting_approval":
            _raise_approval(draft, call, requested)
    if command.limit_reached:
        complete_turn(draft, answer=_text(command), reason="model_call_limit")
    else:
        pairs = zip(call_ids, command.calls, strict=True)
        join_calls(draft, frozenset(call_id for call_id, requested in pairs if requested.inline))


def _call(call_id: str, requested: RequestedCall) -> Call:
    asks = requested.requires_approval
    return Call(
        call_id=call_id,
        tool_name=requested.tool_name,
        effect=requested.effect,
        requires_approval=asks,
        status="awaiting_approval" if asks else "approved",
    )


def _call_part(call_id: str, requested: RequestedCall) -> JsonObject:
    part: JsonObject = {"type": "tool_call", "tool_call_id": call_id, "tool_name": requested.tool_name}
    if requested.arguments is not None:
        part["arguments"] = requested.arguments
    else:
        part["arguments_text"] = requested.arguments_text or ""
    if requested.provider_call_id:
        part["provider_call_id"] = requested.provider_call_id
    return part


def _settled_at_once(
    draft: Draft, command: ModelFinished, index: int, requested: RequestedCall
) -> tuple[str, str, str | None] | None:
    """Return status, text and cancellation reason of a call that ends before it begins; None for one that goes on."""
    if command.limit_reached:
        return "failed", texts.CALL_LIMIT.format(limit=command.call_limit), None
    if index >= MAX_CALLS_PER_RESPONSE:
        return "failed", texts.TOO_MANY_CALLS.format(limit=MAX_CALLS_PER_RESPONSE), None
    if requested.settled is not None:
        return *requested.settled, None
    if requested.requires_approval and denial_key(requested.tool_name, _hash(requested)) in draft.turn.denied:
        return "rejected", texts.DENIED_BEFORE, "denied"
    return None


def _raise_approval(draft: Draft, call: Call, requested: RequestedCall) -> None:
    deadline = draft.now + requested.approval_deadline if requested.approval_deadline else None
    interrupt = Interrupt(
        interrupt_id=call.call_id,
        kind="approval",
        call_id=call.call_id,
        raised_at=draft.now,
        fence=draft.version,
        arguments_hash=_hash(requested),
        deadline=deadline,
    )
    draft.set_turn(replace(draft.turn, interrupts=(*draft.turn.interrupts, interrupt)))
    draft.event(
        "interrupt_raised",
        {
            "interrupt_id": interrupt.interrupt_id,
            "kind": interrupt.kind,
            "tool_call_id": call.call_id,
            "tool_name": call.tool_name,
            "arguments_hash": interrupt.arguments_hash,
            "deadline": format_time(deadline) if deadline else None,
        },
    )


def _hash(requested: RequestedCall) -> str:
    return content_hash(requested.arguments if requested.arguments is not None else requested.arguments_text or "")


def denial_key(tool_name: str, arguments_hash: str) -> str:
    """Return what marks a call that a person declined in this turn: its tool and arguments."""
    return f"{tool_name}:{arguments_hash[:16]}"
