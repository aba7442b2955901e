"""The bodies that requests may have. Strict: no other fields, no converted types; null is the same as absent."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

Delivery = Literal["queue", "inject", "steer", "interrupt", "interrupt_next", "supersede", "passive"]
"""How a message reaches an agent that may be at work (docs/concepts/control.md)."""


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
    delivery: Annotated[
        Delivery | None, Field(description="How it reaches an agent at work. Absent: as the agent's inbox says.")
    ] = None
    settings: Annotated[
        dict[str, Any] | None,
        Field(description="Replaces the session's settings, in the same commit. At most 16 KiB, never secrets."),
    ] = None
    run_settings: Annotated[
        dict[str, Any] | None, Field(description="On top of the session's settings, for this message's own turn alone.")
    ] = None
    metadata: Annotated[dict[str, Any] | None, Field(description="Kept with the message and given back.")] = None
    files: Annotated[list[FileBody] | None, Field(description="At most 20 files that go with the text.")] = None


class StartBody(Body):
    """What a new session begins with."""

    agent: Annotated[str | None, Field(description="Absent: the first agent.")] = None
    settings: Annotated[
        dict[str, Any] | None, Field(description="The session's settings. At most 16 KiB, never secrets.")
    ] = None


class GrantBody(Body):
    """Calls of the same tool, with the same values in some arguments, that nobody has to approve for a while."""

    lasts_seconds: Annotated[int, Field(description="For how long: up to 30 days.")]
    fields: Annotated[list[str] | None, Field(description="Names of arguments; absent: whatever they are.")] = None
    max_uses: Annotated[int | None, Field(description="How many calls; absent: any number.")] = None


class InterruptBody(Body):
    """A person's decision: `approved`, the `answer` to a question, or a `value`. `approved: false` declines any."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["approved"]}, {"required": ["answer"]}, {"required": ["value"]}]}
    )

    approved: Annotated[bool | None, Field(description="Whether the tool call may run; false declines a question.")] = (
        None
    )
    message: Annotated[str | None, Field(description="A word to the model, with any decision.")] = None
    arguments_hash: Annotated[
        str | None, Field(description="Of the arguments that were shown; a decision on others is refused.")
    ] = None
    arguments: Annotated[
        dict[str, Any] | None,
        Field(
            description="The approved call runs with these instead, whole. Its tool checks them first. "
            "Needs the `arguments_hash` of those that they replace."
        ),
    ] = None
    grant: Annotated[
        GrantBody | None, Field(description="With an approval: approve calls like this one ahead, in this session.")
    ] = None
    value: Annotated[Any, Field(description="What an application asked for; anything but null.")] = None
    answer: Annotated[
        str | None,
        Field(description="The answer to a question: one of its choices, word for word, unless it takes free text."),
    ] = None

    @model_validator(mode="after")
    def _one_decision(self) -> InterruptBody:
        if sum(said is not None for said in (self.approved, self.answer, self.value)) != 1:
            raise ValueError("give exactly one of `approved`, `answer` and `value`")
        if self.grant is not None and not self.approved:
            raise ValueError("`grant` goes with `approved: true`")
        if self.answer is not None and self.arguments_hash is not None:
            raise ValueError("`arguments_hash` goes with `approved`, not with `answer`")
        if self.arguments is not None and not self.approved:
            raise ValueError("`arguments` go with `approved: true`")
        if self.arguments is not None and self.arguments_hash is None:
            raise ValueError("`arguments` need the `arguments_hash` of those that they replace")
        return self


class StopBody(Body):
    """What to stop, and what becomes of what it had written. At most one id; none: the running turn, whichever it is.

    Without a running turn it dismisses a failed one that holds the inbox.
    """

    turn_id: Annotated[str | None, Field(description="Only this turn.")] = None
    message_id: Annotated[
        str | None, Field(description="Only the turn of this message; one that waits is taken back.")
    ] = None
    step_execution_id: Annotated[str | None, Field(description="Only while this model step or tool call runs.")] = None
    frontier: Annotated[
        str | None,
        Field(description="Cursor of the last event that was shown: text behind it is cut, effects never are."),
    ] = None
    disposition: Annotated[
        str | None, Field(description="`keep` (default): shown text stays. `discard`: no later prompt has it.")
    ] = None


class EmptyBody(Body):
    """Nothing. The body may be left out."""


class RetryBody(Body):
    """Which click this is: a fresh id for each, and the same id when one is sent again."""

    retry_id: Annotated[str, Field(description="1 to 128 characters.")]


class ChangeBody(Body):
    """Another text for a waiting message, or another place: exactly one of these fields."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [name]} for name in ("text", "before", "after", "position")]}
    )

    text: Annotated[str | None, Field(description="The new text, whole.")] = None
    before: Annotated[str | None, Field(description="Id of the waiting message that it goes before.")] = None
    after: Annotated[str | None, Field(description="Id of the waiting message that it goes behind.")] = None
    position: Annotated[Literal["first", "last"] | None, Field(description="Among the messages of its class.")] = None

    @model_validator(mode="after")
    def _one_change(self) -> ChangeBody:
        if sum(value is not None for value in (self.text, self.before, self.after, self.position)) != 1:
            raise ValueError("give exactly one of `text`, `before`, `after` and `position`")
        return self


class DeliverBody(Body):
    """Another delivery for a waiting message."""

    delivery: Annotated[Delivery, Field(description="As for a new message.")]


class ChangeWaitBody(Body):
    """Another time for a wait, or another deadline. The one body in which null says something."""

    until: Annotated[
        str | None,
        Field(
            description="RFC 3339 with an offset, at most 365 days away; one that has passed ends the wait at once. "
            "Null: no time at all, of what can do without one: a question, an approval, an event.",
            examples=["2027-01-31T09:00:00+01:00"],
        ),
    ]


class EventBody(RootModel[dict[str, Any]]):
    """An event of another system, as that system words it."""


class TitleBody(Body):
    """What a session is called."""

    title: Annotated[str, Field(description="1 to 200 characters; spaces are made single.")]


class SettingsBody(RootModel[dict[str, Any]]):
    """The session's settings, whole: nothing is merged, and `{}` clears them. At most 16 KiB, never secrets."""
