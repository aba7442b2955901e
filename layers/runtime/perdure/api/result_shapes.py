"""The shapes of what controls and webhooks are answered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from perdure.api.bodies import Delivery
from perdure.api.shapes import FilePart


class Recorded(BaseModel):
    """The command was recorded; `already_recorded`: it was so before, and nothing has changed."""

    result: Literal["recorded", "already_recorded"]


class RetryResult(Recorded):
    """The retry was recorded. `turn_id`: the turn that it started; none when a wait for a reconnect was cut short."""

    turn_id: str | None = None


class Removed(BaseModel):
    """A waiting message was taken back; this is what it said. Doing it again gives the same."""

    result: Literal["removed"]
    message_id: str
    text: str
    metadata: dict[str, Any] | None = None
    files: list[FilePart] | None = None


class Delivered(BaseModel):
    """How a waiting message is delivered now. `turn_id`: the turn that it started at once."""

    message_id: str
    delivered_as: Delivery
    turn_id: str | None = None


class HookReceipt(BaseModel):
    """An event was taken: the receipt of its message, or `ignored` for one that concerns nobody."""

    ignored: Literal[True] | None = None
    message_id: str | None = None
    turn_id: str | None = None
    delivered_as: Delivery | None = None
    duplicate: bool | None = None
    cursor: str | None = None


class ToolOutput(BaseModel):
    """A piece of an output. Characters are Unicode code points, and never half of one."""

    output: str
    total_characters: int
    sha256: Annotated[str, Field(description="Of the whole output in UTF-8, in hex.")]
    next_offset: Annotated[int | None, Field(description="Where the rest begins; absent at the end.")] = None
