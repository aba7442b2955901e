"""What user code may look at when it has a say in a model step: the run so far, and where the step stands in it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from perdure.agents.budget import ContextFill
from perdure.core.history import CallItem, HistoryItem, ModelItem, ToolResultItem
from perdure.core.usage import NO_TOTALS, UsageTotals

JsonObject = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionContext:
    """What a function of instructions may look at. It is called for every model step (spec MODEL-12).

    Attributes:
        settings: The session's settings as they were when the turn began, through the agent's `settings_resolver`.
        values: What people gave by the application's requests for values, by name; the latest of each (spec APPR-15).
    """

    session_id: str
    turn_id: str
    attempt: int
    interaction_mode: str
    settings: JsonObject
    values: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastStep:
    """A model step of the running turn that is over: what the model said, its calls and their results, in its order."""

    text: str
    reasoning: str = ""
    calls: tuple[CallItem, ...] = ()
    results: tuple[ToolResultItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext(InstructionContext):
    """The run as a model step finds it: for resolvers, stop policies and `prepare_step`.

    Attributes:
        history: The whole conversation as the model would see it, this turn included.
        steps: The steps of the running turn so far, oldest first; empty in the first one.
        context_fill: How large the prompt of the last completed step was, beside the window of its model.
        turn_usage: What all provider calls of the running turn have used, failed ones and lost attempts included. A
            figure that some call lacks is a floor, and `missing` names it.
    """

    tenant: str
    step_execution_id: str
    history: tuple[HistoryItem, ...]
    steps: tuple[PastStep, ...]
    context_fill: ContextFill
    turn_usage: UsageTotals = NO_TOTALS


def past_steps(items: Iterable[HistoryItem]) -> tuple[PastStep, ...]:
    """Return the steps of one turn from its part of the conversation."""
    steps: list[tuple[ModelItem, list[ToolResultItem]]] = []
    for item in items:
        if isinstance(item, ModelItem):
            steps.append((item, []))
        elif isinstance(item, ToolResultItem) and steps:
            steps[-1][1].append(item)
    return tuple(
        PastStep(text=said.text, reasoning=said.reasoning, calls=said.calls, results=tuple(results))
        for said, results in steps
    )


async def answered(value: T | Awaitable[T]) -> T:
    """Return what a hook gave, which may be an `async def`."""
    return await value if inspect.isawaitable(value) else value
