"""What a tool does in steps of its own: recorded once, and with waits between that nobody holds a worker for."""

from __future__ import annotations

from perdure.core import texts
from perdure.core.calls import await_again, end_of_stopped, settle_call, told_of_start
from perdure.core.codec import format_time
from perdure.core.decision import Decision, Draft
from perdure.core.head import Call, Wait
from perdure.core.limits import MAX_RECORDS
from perdure.core.turns import join_calls
from perdure.core.values import replace
from perdure.core.wait_commands import EventArrived, EventShown, OutputShown, ResultBrought, StepRecorded, ToolParked
from perdure.errors import NotFoundError, RequestConflictError


def on_step_recorded(draft: Draft, command: StepRecorded) -> Decision:
    """Keep what a step of a running tool returned. From here on the tool is known to have done something.

    A call whose turn is being stopped may still record: what it did is done.
    """
    call = _running(draft, command.call_id, command.attempt)
    if call is None:
        return Decision.unchanged(draft.head, {"recorded": False})
    recorded = draft.remember(call, "step", command.value, name=command.name)
    draft.set_turn(draft.turn.with_call(replace(recorded, parked=True)))
    payload = {"tool_call_id": call.call_id, "name": command.name}
    draft.event("tool.step_recorded", payload, step=call.call_id, attempt=call.attempt)
    return draft.decision({"recorded": True})


def on_output_shown(draft: Draft, command: OutputShown) -> Decision:
    """Tell what a running tool has so far, as a durable event; the call runs on (spec TOOL-17)."""
    call = _running(draft, command.call_id, command.attempt)
    if call is None:
        return Decision.unchanged(draft.head)
    payload = {"tool_call_id": call.call_id, "output": command.output, "preliminary": True}
    draft.event("tool.output", payload, step=call.call_id, attempt=call.attempt)
    return draft.decision({"accepted": True})


def on_event_shown(draft: Draft, command: EventShown) -> Decision:
    """Put an event of the application's own on record; the call runs on (spec EVT-07)."""
    call = _running(draft, command.call_id, command.attempt)
    if call is None:
        return Decision.unchanged(draft.head)
    draft.event(command.event_type, command.payload, step=call.call_id, attempt=call.attempt)
    return draft.decision({"accepted": True})


def on_tool_parked(draft: Draft, command: ToolParked) -> Decision:
    """Let a call wait for a time or an event, without a worker. Behind it the tool runs again from its start."""
    call = _running(draft, command.call_id, command.attempt)
    if call is None:
        return Decision.unchanged(draft.head)
    told_of_start(draft, call, command.started_at)
    if draft.turn.stop is not None:
        end_of_stopped(draft, call)
    elif command.event and command.name in call.arrived:
        draft.set_turn(draft.turn.with_call(await_again(replace(call, parked=True))))
    elif len(call.records) >= MAX_RECORDS:
        settle_call(draft, call, "failed" if call.is_read else "outcome_unknown", texts.TOO_MANY_FACTS)
    else:
        until = draft.now + command.sleep if command.sleep is not None else None
        kind = "event" if command.event else "timer"
        wait = Wait(kind=kind, since=draft.now, until=until, fence=draft.version, name=command.name)
        waiting = replace(
            call,
            status="waiting_for_event" if command.event else "waiting_for_timer",
            ready_at=None,
            not_before=None,
            claimed_by=None,
            claimed_until=None,
            wait=wait,
            parked=True,
        )
        draft.set_turn(draft.turn.with_call(waiting))
        draft.event(
            "timer_started" if not command.event else "tool.awaits_event",
            {
                "tool_call_id": call.call_id,
                "name": command.name,
                "until": format_time(until) if until else None,
            },
            step=call.call_id,
            attempt=call.attempt,
        )
    join_calls(draft)
    return draft.decision({"accepted": True})


def on_event_arrived(draft: Draft, command: EventArrived) -> Decision:
    """Go on with a tool that waits for this event. One that comes early is kept for it.

    Raises:
        RequestConflictError: `not_pending`: it came before, or the call takes none.
        NotFoundError: `interrupt_not_found`: the running turn has no such call.
    """
    call = _of_turn(draft, command.call_id)
    takes_events = not (call.is_final or call.built_in or call.task is not None or _waits_for_result(call))
    awaited = call.wait is not None and call.wait.kind == "event" and call.wait.name == command.name
    is_full = len(call.records) >= MAX_RECORDS and not awaited
    if not takes_events or command.name in call.arrived or is_full:
        raise RequestConflictError(
            f"call {command.call_id!r} waits for no event {command.name!r} (any more)", code="not_pending"
        )
    told = draft.remember(call, "event", {"value": command.value}, name=command.name)
    told = replace(told, arrived=(*told.arrived, command.name))
    draft.set_turn(draft.turn.with_call(await_again(told) if awaited else told))
    payload = {
        "tool_call_id": call.call_id,
        "name": command.name,
        "actor": command.actor.told(),
    }
    draft.event("tool.event_arrived", payload, step=call.call_id)
    join_calls(draft)
    return draft.decision({"result": "recorded"}, command.receipts)


def on_result_brought(draft: Draft, command: ResultBrought) -> Decision:
    """Take the result of a call that its provider runs, checked against the call that was admitted (spec TOOL-19).

    Raises:
        RequestConflictError: `not_pending`: the call is none of those, or has its result.
        NotFoundError: `interrupt_not_found`: the running turn has no such call.
    """
    call = _of_turn(draft, command.call_id)
    if call.wait is None or call.wait.kind != "result" or call.tool_name != command.tool_name:
        raise RequestConflictError(
            f"call {command.call_id!r} is no call of {command.tool_name!r} that waits for a result from outside",
            code="not_pending",
        )
    settle_call(draft, call, "succeeded" if command.succeeded else "failed", command.output)
    join_calls(draft)
    return draft.decision({"result": "recorded"}, command.receipts)


def _waits_for_result(call: Call) -> bool:
    return call.wait is not None and call.wait.kind == "result"


def _of_turn(draft: Draft, call_id: str) -> Call:
    call = draft.head.turn.call(call_id) if draft.head.turn else None
    if call is None:
        raise NotFoundError(f"no call {call_id!r} is open", code="interrupt_not_found")
    return call


def _running(draft: Draft, call_id: str, attempt: int) -> Call | None:
    call = draft.head.turn.call(call_id) if draft.head.turn else None
    runs = call is not None and call.is_ready and call.task is None and call.attempt == attempt
    return call if runs else None
