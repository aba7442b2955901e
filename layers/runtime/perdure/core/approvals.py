"""A person decides on a call, or does not decide in time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from perdure.core import texts
from perdure.core.calls import settle_call
from perdure.core.codec import format_time
from perdure.core.commands import GrantScope, ResolveInterrupt
from perdure.core.decision import Draft
from perdure.core.head import Call, Interrupt
from perdure.core.values import replace
from perdure.errors import InvalidRequestError, RequestConflictError

JsonObject = dict[str, Any]


def raise_approvals(draft: Draft, *, one_by_one: bool) -> None:
    """Ask for the decisions that were noted: all of them, or the first (spec APPR-07)."""
    for interrupt in draft.turn.interrupts[: 1 if one_by_one else None]:
        if interrupt.raised_at is None:
            _raise(draft, interrupt)


def _raise(draft: Draft, noted: Interrupt) -> None:
    call = draft.turn.call(noted.call_id)
    assert call is not None, "an approval belongs to a call"
    after = noted.decide_in_ms
    deadline = draft.now + timedelta(milliseconds=after) if after is not None else None
    raised = replace(noted, raised_at=draft.now, fence=draft.version, deadline=deadline, decide_in_ms=None)
    interrupts = tuple(raised if other is noted else other for other in draft.turn.interrupts)
    draft.set_turn(replace(draft.turn, interrupts=interrupts))
    draft.event(
        "interrupt_raised",
        {
            "interrupt_id": raised.interrupt_id,
            "kind": raised.kind,
            "tool_call_id": raised.call_id,
            "tool_name": call.tool_name,
            "arguments_hash": raised.arguments_hash,
            "deadline": format_time(deadline) if deadline else None,
        },
    )


def denial_key(tool_name: str, arguments_hash: str) -> str:
    """Return what marks a call that a person declined in this turn: its tool and arguments."""
    return f"{tool_name}:{arguments_hash[:16]}"


def decide_approval(draft: Draft, interrupt: Interrupt, call: Call, command: ResolveInterrupt) -> None:
    """Let a call run, perhaps with arguments that the person changed, or not.

    Raises:
        RequestConflictError: `arguments_changed`: another call was shown.
        InvalidRequestError: An answer to an approval, or changed arguments of a call that is rejected.
    """
    if command.approved is None:
        raise InvalidRequestError(f"interrupt {command.interrupt_id!r} is an approval: send `approved`, not `answer`")
    if command.arguments is not None and not command.approved:
        raise InvalidRequestError("a rejected call is not run: leave `arguments` out, or approve it")
    if command.arguments_hash is not None and command.arguments_hash != interrupt.arguments_hash:
        raise RequestConflictError(
            f"the arguments of {command.interrupt_id!r} are not those that were shown: read the session again",
            code="arguments_changed",
        )
    if command.grant is not None and not command.approved:
        raise InvalidRequestError("a rejected call approves nothing ahead: leave `grant` out, or approve it")
    draft.event(
        "interrupt_resolved",
        {
            "interrupt_id": interrupt.interrupt_id,
            "kind": interrupt.kind,
            "approved": command.approved,
            "message" if command.approved else "rejection_message": command.message,
            "arguments": command.arguments,
            "grant": _grant(draft, call, command.grant),
            "actor": command.actor.told(),
        },
    )
    if command.approved:
        others = tuple(i for i in draft.turn.interrupts if i is not interrupt)
        approved = replace(call, status="approved")
        if command.arguments is not None:
            approved = draft.remember(approved, "arguments", command.arguments)
        draft.set_turn(replace(draft.turn.with_call(approved), interrupts=others))
    else:
        denied = (*draft.turn.denied, denial_key(call.tool_name, interrupt.arguments_hash))
        draft.set_turn(replace(draft.turn, denied=denied))
        settle_call(draft, call, "rejected", texts.denied(command.message), reason="denied")


def _grant(draft: Draft, call: Call, scope: GrantScope | None) -> JsonObject | None:
    if scope is None:
        return None
    from perdure.core.grants import grant  # few approvals give one

    return grant(draft, call, scope)


def expire_approval(draft: Draft, interrupt: Interrupt, call: Call) -> None:
    """Reject a call on which nobody decided in time."""
    draft.event(
        "interrupt_resolved",
        {
            "interrupt_id": interrupt.interrupt_id,
            "kind": interrupt.kind,
            "approved": False,
            "rejection_message": texts.APPROVAL_DEADLINE_PASSED,
            "actor": {"issuer": "perdure", "subject": "deadline"},
        },
    )
    settle_call(draft, call, "rejected", texts.APPROVAL_DEADLINE_PASSED, reason="deadline_passed")
