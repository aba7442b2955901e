"""The shapes of what provider calls used."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class Figure(BaseModel):
    """A number and where it comes from. Without `value` it is not known; `partial`: at least this much."""

    value: int | None = None
    provenance: Literal["reported", "computed", "unavailable"]
    partial: bool | None = None


class Cost(BaseModel):
    """A price as providers reported it: decimal text, never estimated or converted."""

    value: str
    currency: str | None = None
    provenance: Literal["reported", "computed"]


class Usage(BaseModel):
    """What a session's provider calls used so far."""

    input_tokens: Figure
    output_tokens: Figure
    cached_input_tokens: Figure
    reasoning_tokens: Figure
    cost: Cost | None = None
    model_calls: int
