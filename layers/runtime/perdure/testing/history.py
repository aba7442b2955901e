"""The steps of a session, read from its durable events: what a test asserts the shape of a turn with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

JsonObject = dict[str, Any]

_ENDS = ("model_finished", "tool_call_finished")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRun:
    """One attempt of a step, as its end was recorded.

    Attributes:
        name: `model`, or the tool's name.
        ending: `model_finished`'s status, the call's final status, or `lost` for an attempt that another replaced.
    """

    turn_id: str
    step_id: str
    name: str
    attempt: int
    ending: str

    def __str__(self) -> str:
        number = f" #{self.attempt}" if self.attempt > 1 else ""
        return f"{self.name}{number}: {self.ending}"


def step_history(events: Iterable[JsonObject]) -> list[StepRun]:
    """Return every attempt that ended, in the order of the events. Progress is left out.

    A call that ended without an attempt (denied, stopped, invalid) is in it, too, with its status.

        assert shape(events) == ["model: completed", "lookup: succeeded", "model #2: completed"]
    """
    durable = [event for event in events if "sequence" in event]
    names = {
        event["payload"]["tool_call_id"]: event["payload"]["tool_name"]
        for event in durable
        if event["type"] == "tool_call_deferred"
    }
    replaced = _replaced(durable)
    runs = []
    for event in durable:
        ending = _ending(event, replaced)
        if ending is not None:
            step = event["step_execution_id"]
            runs.append(
                StepRun(
                    turn_id=event["turn_id"],
                    step_id=step,
                    name=names.get(step, "model"),
                    attempt=event["attempt"],
                    ending=ending,
                )
            )
    return runs


def shape(events: Iterable[JsonObject]) -> list[str]:
    """Return `step_history` as short texts."""
    return [str(run) for run in step_history(events)]


def _replaced(events: list[JsonObject]) -> set[tuple[str, int]]:
    """Return the attempts that were replaced: those that were reset and of which no end is told.

    A reset alone does not say so: a reconnect within an attempt takes back what was shown, too.
    """
    reset = {(e["step_execution_id"], e["attempt"]) for e in events if e["type"] == "attempt_reset"}
    ended = {(e["step_execution_id"], e["attempt"]) for e in events if e["type"] in _ENDS}
    return reset - ended


def _ending(event: JsonObject, replaced: set[tuple[str, int]]) -> str | None:
    if event["type"] in _ENDS:
        return str(event["payload"]["status"])
    if event["type"] == "attempt_reset" and (event["step_execution_id"], event["attempt"]) in replaced:
        return "lost"
    return None
