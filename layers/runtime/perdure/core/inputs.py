"""Values that an application asks people for (spec APPR-15). They belong to the session, not to a turn.

A value stays in the log, and reaches the model only if the agent's instructions use it.
"""

from __future__ import annotations

from typing import Any

from perdure.core.codec import format_time
from perdure.core.commands import ResolveInterrupt
from perdure.core.control_commands import RequestValue, WithdrawRequest
from perdure.core.decision import Decision, Draft
from perdure.core.entries import Actor
from perdure.core.head import Head, Interrupt
from perdure.core.limits import MAX_REQUESTS
from perdure.core.values import replace
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError

JsonObject = dict[str, Any]

PREFIX = "input:"
"""An application's request is the interrupt `input:<name>`."""


def request_of(head: Head, interrupt_id: str) -> Interrupt | None:
    """Return the application's request with this id, or None."""
    return next((each for each in head.requests if each.interrupt_id == interrupt_id), None)


def on_request_value(draft: Draft, command: RequestValue) -> Decision:
    """Ask for a value, once: as long as a request of a name is open, asking again changes nothing.

    Raises:
        InvalidRequestError: One request too many.
    """
    interrupt_id = f"{PREFIX}{command.name}"
    if request_of(draft.head, interrupt_id) is not None:
        return Decision.unchanged(draft.head, {"interrupt_id": interrupt_id})
    if len(draft.head.requests) >= MAX_REQUESTS:
        raise InvalidRequestError(f"this session has {MAX_REQUESTS} open requests, the most there may be")
    deadline = draft.now + command.deadline if command.deadline is not None else None
    request = Interrupt(
        interrupt_id=interrupt_id,
        kind="input",
        call_id="",
        raised_at=draft.now,
        fence=draft.version,
        deadline=deadline,
    )
    draft.head = replace(draft.head, requests=(*draft.head.requests, request))
    draft.event(
        "interrupt_raised",
        {
            "interrupt_id": interrupt_id,
            "kind": "input",
            "question": command.prompt,
            "schema": command.schema,
            "deadline": format_time(deadline) if deadline else None,
        },
    )
    return draft.decision({"interrupt_id": interrupt_id}, command.receipts)


def on_withdraw_request(draft: Draft, command: WithdrawRequest) -> Decision:
    """Ask no more.

    Raises:
        NotFoundError: `interrupt_not_found`.
    """
    request = request_of(draft.head, f"{PREFIX}{command.name}")
    if request is None:
        raise NotFoundError(f"no request {command.name!r} is open", code="interrupt_not_found")
    _close(draft, request, {"cancellation_reason": "withdrawn"}, command.actor)
    return draft.decision({"result": "recorded"}, command.receipts)


def resolve_request(draft: Draft, request: Interrupt, command: ResolveInterrupt) -> Decision:
    """Take the value of an application's request, or that there will be none.

    Raises:
        InvalidRequestError: It was approved, or answered by a text.
        RequestConflictError: `deadline_passed`.
    """
    if request.deadline is not None and draft.now >= request.deadline:
        raise RequestConflictError(f"the deadline of {request.interrupt_id!r} has passed", code="deadline_passed")
    if command.value is not None and command.answer is None and command.approved is None:
        value = command.value["value"]
        draft.fact("", "input", value, name=request.interrupt_id.removeprefix(PREFIX))
        _close(draft, request, {"answered": True, "answer": value, "message": command.message}, command.actor)
    elif command.approved is False and command.answer is None:
        _close(draft, request, {"answered": False, "rejection_message": command.message}, command.actor)
    else:
        raise InvalidRequestError(
            f"interrupt {request.interrupt_id!r} asks for a value: send `value`, or `approved: false` to decline it"
        )
    return draft.decision({"result": "resolved"}, command.receipts)


def expire_request(draft: Draft, request: Interrupt) -> Decision:
    """Go on without the value, because the time is over."""
    late = {"answered": False, "rejection_message": "question deadline passed"}
    _close(draft, request, late, Actor(issuer="perdure", subject="deadline"))
    return draft.decision({"accepted": True})


def _close(draft: Draft, request: Interrupt, how: JsonObject, actor: Actor) -> None:
    draft.head = replace(draft.head, requests=tuple(each for each in draft.head.requests if each is not request))
    payload: JsonObject = {"interrupt_id": request.interrupt_id, "kind": request.kind}
    draft.event("interrupt_resolved", payload | how | {"actor": actor.told()})
