"""How a tool's attempt ends that goes on later: with a question, behind a wait, or as remote work."""

from __future__ import annotations

from typing import Any

from perdure.agents.built_ins import BUILT_IN_TOOLS
from perdure.agents.waiting import (
    Parked,
    ToolInputRequested,
    ToolTask,
    check_wait,
    kept_value,
    whole_seconds,
)
from perdure.core.head import Call
from perdure.core.wait_commands import Question, TaskStarted, ToolAsked, ToolParked
from perdure.errors import ConfigurationError
from perdure.models.surrogates import mended
from perdure.steps.attempt import Attempt

JsonObject = dict[str, Any]


def goes_on_later(
    attempt: Attempt, call: Call, later: ToolInputRequested | Parked
) -> ToolAsked | ToolParked | tuple[str, str]:
    """Return what a tool waits for, or how it failed to say so."""
    if isinstance(later, Parked):
        return ToolParked(**attempt.named(call.call_id), name=later.name, sleep=later.sleep, event=later.event)
    return _asked_by(attempt, call, later)


def goes_on_as_task(attempt: Attempt, call: Call, task: ToolTask, *, polls: bool) -> TaskStarted:
    """Return that a tool has started remote work. `polls`: somebody can look after it."""
    return TaskStarted(
        **attempt.named(call.call_id),
        task_id=task.task_id,
        interval=whole_seconds(task.poll_interval),
        continuation=kept_value(task.continuation, "a continuation"),
        polls=polls,
    )


def _asked_by(attempt: Attempt, call: Call, asked: ToolInputRequested) -> ToolAsked | tuple[str, str]:
    """Return a tool's question as it can be asked, or that it can't."""
    try:
        return ToolAsked(
            **attempt.named(call.call_id),
            question=question_of(asked),
            continuation=kept_value(asked.continuation, "a continuation"),
        )
    except (ValueError, ConfigurationError) as error:
        return "failed", f"{call.tool_name} asked something that can't be asked: {error}"


def question_of(asked: ToolInputRequested) -> Question:
    """Return a question that was checked as one of the model's is.

    Raises:
        ValueError: It is none.
    """
    raw: JsonObject = {"question": _text(asked.question), "allows_free_text": asked.allows_free_text}
    choices = {"choices": [_text(choice) for choice in asked.choices]} if asked.choices else {}
    checked = BUILT_IN_TOOLS["ask_user"].validate(raw | choices)
    if asked.deadline is not None:
        check_wait(asked.deadline, "the deadline of a question")
    return Question(
        question=checked["question"],
        choices=tuple(checked.get("choices", ())),
        free_text=checked["allows_free_text"],
        deadline=asked.deadline,
    )


def _text(said: Any) -> Any:
    """Return a text of a tool's as it can be stored, as its output is; anything else as it is, for the check to see."""
    return mended(said) if isinstance(said, str) else said
