"""The shapes of what a deployment tells of its agents."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field


class ModelChoice(BaseModel):
    """A model that a session may be set to."""

    name: Annotated[str, Field(description="What the setting `model` has to be.")]
    model: Annotated[str, Field(description="The model's name at its provider.")]
    reasoning_levels: Annotated[
        list[str], Field(description="What `model_settings.reasoning_effort` may be, weakest first; empty: not told.")
    ]
    context_window: Annotated[int | None, Field(description="In tokens.")] = None


class AgentChoice(BaseModel):
    """An agent of this deployment."""

    name: str
    models: list[ModelChoice]


class Agents(BaseModel):
    """The agents of this deployment; the first is that of new sessions."""

    agents: list[AgentChoice]
