"""Builders for tests of schedules."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from perdure.core.codec import encode
from perdure.core.commands import TimerFired
from perdure.core.schedule_commands import SetSchedule
from tests.unit.core.builders import ALICE, Play

DAILY = {"every": "0 9 * * *", "time_zone": "UTC"}
EVERY_MINUTE = {"every": {"minutes": 1}, "time_zone": "UTC"}
IN_AN_HOUR = {"after": {"hours": 1}}
TIMER = "schedule:report"


def set_to(when: dict[str, Any] = IN_AN_HOUR, play: Play | None = None, **changes: Any) -> Play:
    """Return a session, idle unless told otherwise, with a schedule `report`."""
    play = play or an_idle_session()
    command = SetSchedule(schedule_id="report", text="Write the report", when=when, actor=ALICE)
    play.apply(replace(command, **changes))
    return play


def an_idle_session() -> Play:
    play = Play()
    play.send()
    play.model_answers()
    return play


def details(play: Play, **made: Any) -> dict[str, Any]:
    """Return what the step that fires a timer looks up."""
    (schedule,) = play.head.schedules
    specs = [s for entry in play.log if entry.version == schedule.version for s in entry.schedules]
    return {"version": schedule.version, "spec": encode(specs[-1])} | made


def fire(play: Play, **made: Any) -> bool:
    """Fire the schedule's timer; returns whether anything came of it."""
    (schedule,) = play.head.schedules
    fired = TimerFired(timer_id=TIMER, fence=schedule.fence, details=details(play, **made))
    return play.apply(fired).entry is not None


def go_to_slot(play: Play, late: timedelta = timedelta(0)) -> datetime:
    (schedule,) = play.head.schedules
    play.now = schedule.due_at + late
    return schedule.slot


def event(play: Play, kind: str) -> dict[str, Any]:
    return next(e.payload for e in play.last.events if e.type == kind)
