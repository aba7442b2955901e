"""A session's title: what a person calls it, or what a model made of its first turn, out of band.

Such a call is a step of its own that no turn waits for. It never enters the history; what it used is counted.
"""

from __future__ import annotations

from datetime import timedelta

from perdure.core.decision import Decision, Draft
from perdure.core.limits import ATTEMPT_WINDOW, MAX_ATTEMPTS
from perdure.core.open_calls import Titling
from perdure.core.title_commands import SetTitle, TitleWritten
from perdure.core.turns import record_usage
from perdure.core.values import replace

RETRY_DELAY = timedelta(seconds=30)
"""Wait before a title is asked for again; our own choice: nobody waits for it."""


def begin_titling(draft: Draft) -> None:
    """Have a title written, if a turn has just been answered and the session has none."""
    last = draft.head.last_turn
    ended = last is not None and last.closed_version == draft.version and last.outcome == "completed"
    if not ended or draft.head.title is not None or draft.head.titling is not None:
        return
    step = Titling(step_id=draft.new_id("title"), attempt=1, ready_at=draft.now, first_attempt_at=draft.now)
    draft.head = replace(draft.head, titling=step)


def on_set_title(draft: Draft, command: SetTitle) -> Decision:
    """Take a person's title; it stays, whatever a model would call the session (spec TITLE-02)."""
    if draft.head.title == command.title and draft.head.titled_by == "person":
        return Decision.unchanged(draft.head, {"result": "already_recorded"})
    draft.head = replace(draft.head, title=command.title, titled_by="person", titling=None)
    draft.event("title_changed", {"title": command.title, "by": "person", "actor": command.actor.told()})
    return draft.decision({"result": "recorded"}, command.receipts)


def on_title_written(draft: Draft, command: TitleWritten) -> Decision:
    """Take a model's title, if one is still wanted; else only what it used."""
    step = draft.head.titling
    record_usage(draft, command.usage, step=command.step_id, attempt=command.attempt, turn_id=None)
    if step is None or (step.step_id, step.attempt) != (command.step_id, command.attempt):
        return draft.decision({"accepted": False}) if command.usage else Decision.unchanged(draft.head)
    if command.title is not None:
        draft.head = replace(draft.head, title=command.title, titled_by="model", titling=None)
        draft.event("title_changed", {"title": command.title, "by": "model"}, step=step.step_id, attempt=step.attempt)
    else:
        try_again(draft, step, final=command.final)
    return draft.decision({"accepted": True})


def try_again(draft: Draft, step: Titling, *, final: bool) -> None:
    """Ask for the title once more, or leave the session without one."""
    again = None
    if not final and step.attempt < MAX_ATTEMPTS and draft.now - step.first_attempt_at < ATTEMPT_WINDOW:
        at = draft.now + RETRY_DELAY
        again = replace(step, attempt=step.attempt + 1, ready_at=at, not_before=at)
    draft.head = replace(draft.head, titling=again)
