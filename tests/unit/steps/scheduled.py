"""A model and a stage for tests of schedules."""

from __future__ import annotations

from typing import Any

from perdure.models.scripted import Reply, ScriptedModel, tool_results, user_texts
from perdure.testing.fixtures import Stage

HOURLY = {"every": {"hours": 1}, "time_zone": "UTC"}


def asking(*calls: Any) -> ScriptedModel:
    """A model that makes these calls when it is told to go, and else repeats what it hears."""

    def reply(request: Any) -> str | Reply:
        said = user_texts(request)[-1]
        return Reply(calls=calls) if said == "go" and not tool_results(request) else f"heard: {said}"

    return ScriptedModel(reply)


async def heard(stage: Stage) -> list[str]:
    return [text for role, text in await stage.transcript() if role == "assistant" and text.startswith("heard")]


async def due(stage: Stage) -> None:
    """Jump to the next timer, fire it and run what it makes ready."""
    at = min(timer.due_at for _, timer in stage.timers.pending)
    await stage.clock.advance((at - stage.clock.now()).total_seconds())
    await stage.fire_timers()
    await stage.run_all()
