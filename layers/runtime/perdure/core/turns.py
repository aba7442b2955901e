"""How a turn opens, joins its calls and closes. Every decision module ends here."""

from __future__ import annotations

from typing import Any

from perdure.core.calls import make_ready, take_call, withdraw_calls
from perdure.core.codec import encode
from perdure.core.decision import Draft
from perdure.core.head import ClosedTurn, Hold, ModelStep, QueuedMessage, Turn, TurnError
from perdure.core.inbox import next_batch, no_longer_injected, put_back, with_passive
from perdure.core.limits import LEASE_DURATION, MAX_ERROR_CHARACTERS, PREVIEW_CHARACTERS
from perdure.core.usage import CallUsage
from perdure.core.values import replace

JsonObject = dict[str, Any]

CONTROLS = 1
"""What turns that this version begins understand (`Turn.controls`)."""

BLOCKING = ("auth", "credits")
"""Failures that always hold the inbox, until the model's credential changes or somebody dismisses them (spec U-6)."""


def start_next(draft: Draft) -> None:
    """Start the next turn if no turn runs, the gate is open, and somebody waits for an answer."""
    head = draft.head
    if head.turn is not None or head.paused_at is not None or head.hold is not None:
        return
    batch = next_batch(head.inbox)
    if batch:
        draft.head = replace(head, inbox=tuple(m for m in head.inbox if m not in batch))
        _open_turn(draft, batch)


def _open_turn(draft: Draft, batch: tuple[QueuedMessage, ...]) -> None:
    """Start the next turn with accepted messages: number it, append them, ask the model."""
    draft.turn_id = _next_turn_id(draft)
    for message in batch:
        append_input(draft, message)
    _begin_turn(
        draft,
        {"message_ids": [message.message_id for message in batch]} if len(batch) > 1 else {},
        message_id=batch[-1].message_id,
        run_settings_version=next((m.input_version for m in reversed(batch) if m.run_settings), None),
        hold=any(message.hold for message in batch),
    )


def reopen_turn(draft: Draft, failed: ClosedTurn, payload: JsonObject) -> None:
    """Go on with a failed turn in a next one, from the model step that failed (spec RETRY-08)."""
    draft.turn_id = _next_turn_id(draft)
    draft.head = replace(draft.head, hold=None)
    _begin_turn(
        draft,
        payload,
        message_id=failed.message_id,
        run_settings_version=failed.run_settings_version,
        hold=failed.hold,
        model_calls=failed.model_calls,
        model_version=failed.model_version,
        denied=failed.denied,
    )


def _next_turn_id(draft: Draft) -> str:
    return f"turn-{draft.head.turn_count + 1}"


def _begin_turn(draft: Draft, payload: JsonObject, *, message_id: str, **kept: Any) -> None:
    """Make a turn the running one, behind the messages it begins with, and ask the model.

    Args:
        payload: What its `turn_started` tells besides its message.
        kept: Further fields of the `Turn`.
    """
    assert draft.turn_id is not None, "it has its id before its messages"
    sequence = draft.message_sequence
    draft.event("turn_started", {"sequence": sequence, "message_id": message_id} | payload)
    draft.head = replace(draft.head, turn_count=draft.head.turn_count + 1, last_turn_error=None)
    draft.set_turn(
        Turn(
            turn_id=draft.turn_id,
            opened_version=draft.version,
            first_sequence=sequence,
            message_id=message_id,
            started_at=draft.now,
            settings_version=draft.head.settings_version,
            controls=CONTROLS,
            **kept,
        )
    )
    ask_model(draft)


def append_input(draft: Draft, message: QueuedMessage) -> int:
    """Append an accepted message to the transcript of the running turn; returns its sequence."""
    return draft.message("user", message_id=message.message_id, input_version=message.input_version).sequence


def ask_model(draft: Draft) -> None:
    """Make a model step ready. It is the only way to start a model call."""
    join_injected(draft)
    step = ModelStep(step_id=draft.new_id("model"), attempt=1, ready_at=draft.now, first_attempt_at=draft.now)
    if draft.taker is not None and draft.head.paused_at is None:
        step = replace(step, claimed_by=draft.taker.owner, claimed_until=draft.now + LEASE_DURATION)
    draft.set_turn(replace(draft.turn, step=step))


def join_injected(draft: Draft) -> None:
    """Let the injected messages join the running turn at this input assembly (spec INBOX-06, U-3)."""
    injected = tuple(message for message in draft.head.inbox if message.delivery == "inject")
    if not injected or draft.turn.stop is not None or draft.turn.steer:
        return
    joining = with_passive(draft.head.inbox, injected)
    draft.head = replace(draft.head, inbox=tuple(m for m in draft.head.inbox if m not in joining))
    for message in joining:
        sequence = append_input(draft, message)
        draft.event("inbox.joined", {"message_id": message.message_id, "sequence": sequence})
    draft.set_turn(replace(draft.turn, joined=(*draft.turn.joined, *joining)))


def join_waiting_step(draft: Draft) -> None:
    """Let what is injected while a reconnect waits join at once: the input is assembled when the wait is over.

    The attempt is numbered anew, so that a worker whose clock is early can't answer without having seen it.
    """
    step = draft.turn.step
    if step is not None and step.waits(draft.now):
        again = replace(step, attempt=step.attempt + 1, spared=step.spared + 1)
        draft.set_turn(replace(draft.turn, step=again))
        join_injected(draft)


def join_calls(draft: Draft, inline: frozenset[str] = frozenset()) -> None:
    """When every call has its result: ask the model again, or end a turn that is being stopped or steered.

    Args:
        inline: Calls that the worker of the model step may run itself.
    """
    if draft.turn.open_calls:
        make_ready(draft)
        take_call(draft, inline)
    elif draft.turn.stop is not None:
        cancel_turn(draft)
    elif draft.turn.steer:
        end_steered_turn(draft)
    else:
        ask_model(draft)


def complete_turn(draft: Draft, *, answer: str, reason: str | None = None, policy_name: str | None = None) -> None:
    """End the turn with the model's answer, or for a reason: a limit, a named policy that had seen enough.

    With the answer, what joined the turn on the way has been answered, too (spec INBOX-08).
    """
    answered = reason is None
    absorbed = [message.message_id for message in draft.turn.joined] if answered else []
    payload: JsonObject = {"message_count": _message_count(draft), "reason": reason, "policy_name": policy_name}
    payload["absorbed"] = absorbed or None
    if answered:
        draft.set_turn(replace(draft.turn, joined=()))
    draft.event("turn_completed", payload | _rehomed(draft))
    _close(draft, "completed", preview=answer, reason=reason)


def fail_turn(draft: Draft, code: str, message: str, *, credential: str | None = None) -> None:
    """End the turn without an answer; the reason stays visible until the next turn starts.

    The inbox is held if the turn's input says so, or the provider refused the credential; a steer goes on all the same.
    """
    if len(message) > MAX_ERROR_CHARACTERS:
        message = message[: MAX_ERROR_CHARACTERS - 1] + "…"
    turn = draft.turn
    blocks = code if code in BLOCKING else None
    holds = blocks is not None or (turn.hold and not turn.steer)
    error = {"code": code, "message": message}
    payload = {"error": error, "message_count": _message_count(draft), "held": holds or None}
    draft.event("turn_failed", payload | _rehomed(draft))
    hold = Hold(at=draft.now, reason=blocks, credential=credential if blocks else None) if holds else None
    draft.head = replace(draft.head, last_turn_error=TurnError(code=code, message=message), hold=hold)
    _close(draft, "failed", reason=code)


def cancel_turn(draft: Draft) -> None:
    """End a turn that was stopped and has nothing left to wait for."""
    stop = draft.turn.stop
    payload: JsonObject = {"message_count": _message_count(draft)}
    if stop is not None:
        payload["reason"] = stop.reason
        payload["disposition"] = stop.disposition
        if stop.frontier is not None:
            payload["frontier"] = encode(stop.frontier)
    draft.event("turn_cancelled", payload | _rehomed(draft))
    _close(draft, "cancelled", reason=stop.reason if stop else None)


def steer_turn(draft: Draft) -> None:
    """Let the running turn end at its next safe boundary: what began goes on, what did not is not run (INBOX-05)."""
    draft.set_turn(replace(draft.turn, steer=True))
    withdraw_calls(draft, reason="steered")
    step = draft.turn.step
    if not draft.turn.open_calls and (step is None or step.waits(draft.now)):
        end_steered_turn(draft)


def end_steered_turn(draft: Draft) -> None:
    """End a turn that gives way to the steered messages, which all begin the next one."""
    steered = sum(1 for message in draft.head.inbox if message.is_steered)
    payload = {"steered_message_count": steered, "message_count": _message_count(draft)}
    draft.event("turn_steered", payload | _rehomed(draft))
    _close(draft, "steered")


def _rehomed(draft: Draft) -> JsonObject:
    """Return word of the messages that joined the turn and got no answer by it: they go back to the inbox (U-3)."""
    joined = draft.turn.joined
    return {"rehomed": [message.message_id for message in joined]} if joined else {}


def record_usage(draft: Draft, rows: tuple[CallUsage, ...], *, step: str, attempt: int, turn_id: str | None) -> None:
    """Count the provider calls of a model step's attempt, also of one that nobody expects any more."""
    if rows:
        draft.usage(rows, turn_id)
    for _ in rows:  # the figures are the entry's: see `public_event`
        draft.event("usage_recorded", step=step, attempt=attempt, turn_id=turn_id)


def _message_count(draft: Draft) -> int:
    return draft.message_sequence - draft.turn.first_sequence


def _close(draft: Draft, outcome: str, preview: str | None = None, reason: str | None = None) -> None:
    turn = draft.turn
    closed = ClosedTurn(
        turn_id=turn.turn_id,
        opened_version=turn.opened_version,
        closed_version=draft.version,
        outcome=outcome,
        reason=reason,
    )
    if outcome == "failed":
        closed = replace(
            closed,
            message_id=turn.message_id,
            model_calls=turn.model_calls,
            model_version=turn.model_version,
            denied=turn.denied,
            run_settings_version=turn.run_settings_version,
            hold=turn.hold,
        )
    draft.turn_usage(turn.usage)
    put_back(draft, turn.joined)
    no_longer_injected(draft)
    draft.head = replace(
        draft.head,
        turn=None,
        last_turn=closed,
        last_activity_at=draft.now,
        preview=draft.head.preview if not preview else preview_of(preview),
    )
    draft.turn_id = None
    start_next(draft)


def preview_of(text: str) -> str:
    """Return the start of a text on one line, for lists."""
    line = " ".join(text[: PREVIEW_CHARACTERS * 4].split())
    return line if len(line) <= PREVIEW_CHARACTERS else line[: PREVIEW_CHARACTERS - 1] + "…"
