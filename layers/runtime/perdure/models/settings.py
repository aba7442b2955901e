"""Settings of a model call in words that every client understands, and how one set of them is laid over another.

Pure. A client puts them into the words of its wire; what only one provider knows travels in `provider_options`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

JsonObject = dict[str, Any]

ServiceTier = Literal["fast", "standard"]
_TIERS = ("fast", "standard")

MAX_EFFORT_CHARACTERS = 64
"""Longest name of a reasoning level. Our own choice: names are single words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How a model should answer (spec MODEL-13). None leaves it to whoever comes before, in the end to the provider.

    Attributes:
        temperature: From 0.0; the provider says up to what.
        max_output_tokens: Cap on the answer, reasoning included, from 1. An answer that reaches it is `truncated`.
        reasoning_effort: One of the client's `reasoning_levels`, such as `low`.
        service_tier: A preference: `fast` pays for speed where a provider sells it, and is ignored elsewhere.
        provider_options: Sent to the provider as they are; they win over the settings above. None takes one out.
    """

    temperature: float | None = None
    max_output_tokens: int | None = None
    reasoning_effort: str | None = None
    service_tier: ServiceTier | None = None
    provider_options: JsonObject = field(default_factory=dict)

    @classmethod
    def of(cls, value: ModelSettings | Mapping[str, Any] | None) -> ModelSettings:
        """Return what a deployment wrote: names that are not known here are options of the provider.

        Raises:
            ValueError: A value is none that its setting can have; the text names it.
        """
        if isinstance(value, ModelSettings):
            return value
        values = dict(value or {})
        known = {name: values.pop(name) for name in _NAMES if name in values}
        options = values | dict(known.pop("provider_options", None) or {})
        # An explicit None takes a default of the client out, which a setting that nobody set does not.
        options |= {name: None for name, given in known.items() if given is None}
        return cls().changed(known | {"provider_options": options})

    def changed(self, values: Mapping[str, Any]) -> ModelSettings:
        """Return these settings with others laid over them, as a session gives them: null takes a setting back.

        Raises:
            ValueError: A name is unknown or a value is none that its setting can have; the text names it.
        """
        for name, given in values.items():
            if name not in _NAMES:
                raise ValueError(f"{name!r} is no model setting: use {', '.join(_NAMES)}")
            if given is not None and (wrong := _CHECKS[name](given)):
                raise ValueError(f"{name} {wrong}")
        given = dict(values)
        options = given.pop("provider_options", {})
        merged = {} if options is None else self.provider_options | options
        return replace(self, **given, provider_options=merged)

    def over(self, base: ModelSettings) -> ModelSettings:
        """Return these settings, and those of `base` where these say nothing."""
        own = {name: value for name in _NAMES if (value := getattr(self, name)) is not None}
        return replace(base, **own | {"provider_options": base.provider_options | self.provider_options})

    def as_json(self) -> JsonObject:
        """Return what is set, as a JSON object."""
        return {name: value for name in _NAMES if (value := getattr(self, name)) not in (None, {})}


_NAMES = tuple(field.name for field in fields(ModelSettings))


def _temperature(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return "" if number and math.isfinite(value) and value >= 0 else "must be a number of 0 or more"


def _tokens(value: Any) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return "" if whole and value >= 1 else "must be a whole number of 1 or more"


def _effort(value: object) -> str:
    fits = isinstance(value, str) and 0 < len(value) <= MAX_EFFORT_CHARACTERS
    return "" if fits else "must be the name of a reasoning level"


def _tier(value: object) -> str:
    return "" if value in _TIERS else f"must be one of {', '.join(_TIERS)}"


def _options(value: object) -> str:
    return "" if isinstance(value, Mapping) else "must be an object"


_CHECKS = {
    "temperature": _temperature,
    "max_output_tokens": _tokens,
    "reasoning_effort": _effort,
    "service_tier": _tier,
    "provider_options": _options,
}
