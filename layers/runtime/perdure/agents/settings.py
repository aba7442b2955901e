"""Which model answers a step, with which settings: from what the turn's session was set to (spec MODEL-13, 14, U-9).

A session only names things; what there is to name was built by the deployment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure.agents.step import InstructionContext, StepContext, answered
from perdure.errors import SettingsError
from perdure.models.base import ModelClient
from perdure.models.capabilities import reasoning_levels
from perdure.models.settings import ModelSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from perdure.agents.definition import AgentDefinition

JsonObject = dict[str, Any]

SettingsResolver = Callable[[InstructionContext], "Mapping[str, Any] | Awaitable[Mapping[str, Any]]"]
ModelResolver = Callable[[StepContext], "str | Awaitable[str | None] | None"]

MODEL = "model"
"""The setting that names one of the agent's `models`."""

MODEL_SETTINGS = "model_settings"
"""The setting that is laid over the agent's own model settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model that a session may be set to, for a picker.

    Attributes:
        name: What the setting `model` has to be.
        model: The model's name at its provider.
        reasoning_levels: What `model_settings.reasoning_effort` may be, weakest first. Empty: not declared.
        context_window: In tokens. None: not declared.
    """

    name: str
    model: str
    provider: str
    reasoning_levels: tuple[str, ...] = ()
    context_window: int | None = None


async def effective_settings(agent: AgentDefinition, context: InstructionContext) -> JsonObject:
    """Return a turn's settings as the agent's `settings_resolver` has them.

    Raises:
        SettingsError: The resolver failed; the text is the resolver's own, which the session's owner sees (SET-05).
    """
    if agent.settings_resolver is None:
        return context.settings
    try:
        return dict(await answered(agent.settings_resolver(context)))
    except Exception as error:
        raise SettingsError(str(error) or f"the settings could not be resolved: {type(error).__name__}") from error


async def chosen_model(agent: AgentDefinition, step: StepContext) -> str | None:
    """Return the name of the model that answers a step; None for the agent's own `model`.

    Raises:
        SettingsError: What the session was set to is no name.
    """
    if agent.model_resolver is not None:
        return await answered(agent.model_resolver(step))
    name = step.settings.get(MODEL)
    if name is None or isinstance(name, str):
        return name
    raise SettingsError(f"the setting {MODEL!r} must be the name of a model: {_known(agent)}")


def client_named(agent: AgentDefinition, name: str | None) -> ModelClient:
    """Return one of the clients that the deployment built for an agent.

    Raises:
        SettingsError: There is none of this name.
    """
    if name is None:
        return agent.model
    client = agent.models.get(name)
    if client is None:
        raise SettingsError(f"no model of agent {agent.name!r} is named {name[:64]!r}: {_known(agent)}")
    return client


def model_settings(agent: AgentDefinition, settings: Mapping[str, Any], client: ModelClient) -> ModelSettings:
    """Return the settings of a call: the agent's, and those of the session over them.

    Raises:
        SettingsError: Those of the session are none, or ask for a level of reasoning that the client does not have.
    """
    overlay = settings.get(MODEL_SETTINGS)
    if overlay is not None and not isinstance(overlay, Mapping):
        raise SettingsError(f"the setting {MODEL_SETTINGS!r} must be an object")
    try:
        merged = ModelSettings.of(agent.model_settings).changed(overlay or {})
    except ValueError as error:
        raise SettingsError(f"the setting {MODEL_SETTINGS!r}: {error}") from None
    levels = reasoning_levels(client)
    if levels and merged.reasoning_effort is not None and merged.reasoning_effort not in levels:
        raise SettingsError(
            f"model {client.model!r} has no reasoning level {merged.reasoning_effort!r}: use {', '.join(levels)}"
        )
    return merged


def _known(agent: AgentDefinition) -> str:
    return f"use one of {', '.join(agent.models)}" if agent.models else "this agent has no models to choose from"
