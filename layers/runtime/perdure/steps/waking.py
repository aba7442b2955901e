"""What happens when a time has come: a deadline, the end of a wait, an occurrence of a schedule."""

from __future__ import annotations

from typing import Any

from perdure.agents.execution import run_body
from perdure.agents.schedules import Occurrence, ScheduleEndedError, ScheduleRetryError
from perdure.core.codec import encode, format_time
from perdure.core.commands import TimerFired
from perdure.core.entries import ScheduleSpec
from perdure.core.head import Head, Schedule
from perdure.core.ids import version_of
from perdure.core.schedules import schedule_of
from perdure.core.waits import waiting_call
from perdure.models.surrogates import mended
from perdure.operator_events import tell
from perdure.ports import SessionKey
from perdure.steps.base import StepDeps
from perdure.steps.commit import execute
from perdure.steps.limited import in_time

JsonObject = dict[str, Any]

LONGEST_HOOK = 30.0
"""Longest run of an agent's `on_schedule`, in seconds (spec SCHD-05)."""


async def fire_timer(deps: StepDeps, key: SessionKey, timer_id: str, fence: int) -> None:
    """Tell the session that a timer came due. One whose fence moved does nothing (spec WAIT-08)."""
    loaded = await deps.ports.store.load(key)
    schedule = schedule_of(loaded.head, timer_id)
    details: JsonObject = {}
    if schedule is None or schedule.fence == fence:
        details = await wait_details(deps, key, loaded.head, timer_id)
    await execute(deps.ports, key, TimerFired(timer_id=timer_id, fence=fence, details=details), known=loaded)


async def wait_details(deps: StepDeps, key: SessionKey, head: Head, wait_id: str) -> JsonObject:
    """Return what the end of a wait tells and HEAD does not hold.

    Of a durable wait the reason that the model gave for it; of a schedule what it sends, as `occur` wants it.
    """
    schedule = schedule_of(head, wait_id)
    if schedule is not None:
        return await _occurrence(deps, key, head, schedule)
    call = waiting_call(head.turn, wait_id)
    version = version_of(wait_id)
    if call is None or not call.built_in or version is None:
        return {}
    for entry in (await deps.ports.store.read(key, first=version, last=version)).entries:
        for message in entry.messages:
            for part in message.parts:
                if part.get("tool_call_id") == wait_id and part["type"] == "tool_call":
                    reason = part["arguments"].get("reason")
                    return {} if reason is None else {"reason": reason}
    return {}


async def _occurrence(deps: StepDeps, key: SessionKey, head: Head, schedule: Schedule) -> JsonObject:
    entries = (await deps.ports.store.read(key, first=schedule.version, last=schedule.version)).entries
    specs = [spec for entry in entries for spec in entry.schedules if spec.schedule_id == schedule.schedule_id]
    if not specs:
        raise LookupError(f"the log of session {key.session_id} has no schedule {schedule.schedule_id!r}")
    details: JsonObject = {"version": schedule.version, "spec": encode(specs[0])}
    agent = deps.agents.get(head.agent or "")
    if agent is None:
        return details | {"outcome": "retry", "reason": f"agent {head.agent!r} is not part of this deployment"}
    if agent.on_schedule is None:
        return details
    return details | await _asked(deps, key, agent.on_schedule, schedule, specs[0])


async def _asked(deps: StepDeps, key: SessionKey, hook: Any, schedule: Schedule, spec: ScheduleSpec) -> JsonObject:
    """Return what the agent's `on_schedule` wants of an occurrence."""
    occurrence = Occurrence(
        session_id=key.session_id,
        schedule_id=schedule.schedule_id,
        number=schedule.number,
        scheduled_for=schedule.planned_at,
        attempt=schedule.attempt,
        text=spec.text,
        metadata=spec.metadata or {},
    )
    try:
        text = await in_time(deps.ports.clock, LONGEST_HOOK, run_body(hook, {}, occurrence))
    except ScheduleEndedError as error:
        return {"outcome": "ended", "reason": mended(str(error))}
    except ScheduleRetryError as error:
        return {"outcome": "retry", "reason": mended(str(error))}
    except Exception as error:  # noqa: BLE001  whatever user code raises is tried again (spec SCHD-03)
        tell("fault", "on_schedule failed", error=error, session_id=key.session_id)
        return {"outcome": "retry", "reason": f"on_schedule failed with {type(error).__name__}"}
    if text is None or not str(text).strip():  # nobody could send a blank message
        return {"outcome": "skip", "reason": f"on_schedule left it out at {format_time(deps.ports.clock.now())}"}
    return {"text": mended(str(text))}
