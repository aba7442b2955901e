"""The bodies that requests may have. Strict: no other fields, no converted types; null is the same as absent."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Body(BaseModel):
    """A JSON object with exactly these fields."""

    model_config = ConfigDict(extra="forbid", strict=True)


class FileBody(Body):
    """A file, by the name under which the application finds it."""

    reference: Annotated[str, Field(description="The application's own name for it; not shown to models.")]
    media_type: Annotated[str | None, Field(description="Such as `image/png`.")] = None
    name: Annotated[str | None, Field(description="What a person calls it.")] = None


class InputBody(Body):
    """A user's message."""

    text: Annotated[str, Field(description="Any Unicode text that is not blank; comes back exactly as sent.")]
    message_id: Annotated[str | None, Field(description="Your id for the message; ours when absent.")] = None
    agent: Annotated[
        str | None, Field(description="Absent: the session's agent, or the first agent for a new session.")
    ] = None
    delivery: Annotated[Literal["queue"] | None, Field(description="`queue`: the message waits for its own turn.")] = (
        None
    )
    metadata: Annotated[dict[str, Any] | None, Field(description="Kept with the message and given back.")] = None
    files: Annotated[list[FileBody] | None, Field(description="At most 20 files that go with the text.")] = None


class InterruptBody(Body):
    """A person's decision: on an approval `approved`, to a question `answer`."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["approved"]}, {"required": ["answer"]}]})

    approved: Annotated[bool | None, Field(description="Whether the tool call may run.")] = None
    message: Annotated[str | None, Field(description="A word to the model, with either decision.")] = None
    arguments_hash: Annotated[
        str | None, Field(description="Of the arguments that were shown; a decision on others is refused.")
    ] = None
    answer: Annotated[str | None, Field(description="The answer to a question.")] = None

    @model_validator(mode="after")
    def _one_decision(self) -> InterruptBody:
        if (self.approved is None) == (self.answer is None):
            raise ValueError("give either `approved` or `answer`")
        if self.answer is not None and (self.message is not None or self.arguments_hash is not None):
            raise ValueError("`message` and `arguments_hash` go with `approved`, not with `answer`")
        return self


class StopBody(Body):
    """Which turn to stop, and what becomes of what it had written."""

    turn_id: Annotated[str | None, Field(description="Absent: the running turn, whichever it is.")] = None
    disposition: Annotated[str | None, Field(description="`keep` (default): shown text stays.")] = None
