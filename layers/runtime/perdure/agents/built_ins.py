"""Tools that the runtime itself brings: their names, descriptions, schemas and checks, for every runner.

An agent enables them by name. An enabled name is reserved, and its policy is fixed: its own effect, and no approval
(spec CLIENT-13).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from perdure.agents.policies import Effect, EffectivePolicy
from perdure.core.limits import MAX_TOOL_OUTPUT_BYTES
from perdure.core.outputs import READER
from perdure.errors import ConfigurationError

JsonObject = dict[str, Any]

MAX_QUESTION_CHARACTERS = 4000
"""Length of a question, in characters. Our own choice: what a person reads before they answer."""

MAX_CHOICES = 20
"""Answers that a question may offer. Our own choice: what fits in a menu."""

MAX_CHOICE_CHARACTERS = 200
"""Length of an answer that a question offers, in characters. Our own choice: what fits on a button."""

MAX_REASON_CHARACTERS = 1000
"""Length of the reason of a wait, in characters. Our own choice."""

MAX_READ_CHARACTERS = 16_000
"""Longest answer of `read_tool_output`, in characters, its first line included. Our own choice: what a prompt shows of
an output by default."""

MAX_SEARCH_CHARACTERS = 200
"""Length of a text that is looked for in an output, in characters. Our own choice."""

SHORTEST_OUTPUT_LIMIT = 1000
"""Least that `AgentDefinition.tool_output_limit` may be, in characters. Our own choice: the notes need their room."""

MAX_SCHEDULED_CHARACTERS = 10_000
"""Length of a message that a model schedules for itself, in characters. Our own choice."""

MAX_SCHEDULE_ID = 64
"""Length of a schedule's id, in characters: with its number it is part of a message id."""

DEFAULT_MAX_WAIT = timedelta(days=365)
"""Default of `AgentDefinition.max_wait` (spec WAIT-01)."""

LONGEST_TIME = timedelta(days=3653)
"""The most that a wait or a question may be allowed. Our own choice: ten years are far from the last day of a clock."""

_LONGEST_CALL_ID = 64
"""In characters: what providers take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInTool:
    """A tool that the runtime brings.

    Attributes:
        parameters: JSON Schema of its arguments.
        validate: Checks raw arguments and returns those that are stored: without optional ones that are null. Raises
            ValueError with a short reason, which repeats no value.
        in_core: The session itself takes the call, when the model step that asked for it is committed. Else a worker
            runs it as it runs other tools.
        effect: What it does to the world: a session that may only read has no schedules set.
    """

    name: str
    description: str
    parameters: JsonObject
    validate: Callable[[Mapping[str, Any]], JsonObject]
    in_core: bool = True
    effect: Effect = "read"

    @property
    def policy(self) -> EffectivePolicy:
        """What holds for its calls: nobody has to approve them."""
        return EffectivePolicy(effect=self.effect, requires_approval=False)


def built_in_tool(name: str, *, max_wait: timedelta = DEFAULT_MAX_WAIT) -> BuiltInTool:
    """Return a built-in tool as an agent with this longest wait offers it.

    Raises:
        KeyError: There is none of this name.
    """
    return _durable_wait(max_wait) if name == "durable_wait" else BUILT_IN_TOOLS[name]


def enabled(agent: str, names: Sequence[str], own: Collection[str], policies: Collection[str]) -> tuple[str, ...]:
    """Return the built-in tools that an agent enables, in the order in which models are offered them.

    Args:
        agent: Its name, for messages.
        own: Names of its own tools.
        policies: Names of tools that it has a policy for.

    Raises:
        ConfigurationError: A name that does not exist or is there twice, or is used otherwise (spec TOOL-16, TOOL-03).
    """
    for name in names:
        if name not in BUILT_IN_TOOLS:
            there = ", ".join(BUILT_IN_TOOLS)
            raise ConfigurationError(
                f"agent {agent!r} names the built-in tool {name!r}, which does not exist: there is {there}"
            )
        if list(names).count(name) > 1:
            raise ConfigurationError(f"agent {agent!r} names the built-in tool {name!r} twice")
        if name in own:
            raise ConfigurationError(f"tool {name} uses the name of an enabled built-in tool")
        if name in policies:
            raise ConfigurationError(f"agent {agent!r} has a policy for {name!r}: that of a built-in tool is fixed")
    return tuple(name for name in BUILT_IN_TOOLS if name in names)


def check_limits(
    agent: str, *, max_wait: timedelta, question_deadline: timedelta | None, output_limit: int | None
) -> None:
    """Refuse limits of an agent that nothing could hold.

    Raises:
        ConfigurationError: One of them is too large or too small.
    """
    if output_limit is not None and output_limit < SHORTEST_OUTPUT_LIMIT:
        raise ConfigurationError(
            f"tool_output_limit of agent {agent!r} must be {SHORTEST_OUTPUT_LIMIT} characters or more, or None"
        )
    if max_wait % timedelta(seconds=1) or not timedelta(seconds=1) <= max_wait <= LONGEST_TIME:
        raise ConfigurationError(f"max_wait of agent {agent!r} must be whole seconds, from one second to ten years")
    if question_deadline is not None and not timedelta(0) < question_deadline <= LONGEST_TIME:
        raise ConfigurationError(
            f"question_deadline of agent {agent!r} must be longer than zero, and at most ten years: "
            "leave it out to wait for ever"
        )


def _object(properties: JsonObject, *required: str) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _given(raw: Mapping[str, Any], parameters: JsonObject) -> JsonObject:
    """Return what was given of a tool's parameters: an optional one that is null was not."""
    for name in raw:
        if name not in parameters["properties"]:
            raise ValueError(f"{name[:100]}: is no parameter of this tool")
    for name in parameters["required"]:
        if raw.get(name) is None:
            raise ValueError(f"{name}: is required")
    return {name: value for name, value in raw.items() if value is not None}


def _check_text(name: str, value: Any, longest: int, *, may_be_blank: bool = False) -> None:
    if type(value) is not str:
        raise ValueError(f"{name}: must be a text")
    if not value.strip() and not may_be_blank:
        raise ValueError(f"{name}: must not be blank")
    if len(value) > longest:
        raise ValueError(f"{name}: has {len(value)} characters, and may have {longest}")


_ASK_USER = _object(
    {
        "question": {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION_CHARACTERS},
        "choices": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_CHOICE_CHARACTERS},
            "minItems": 1,
            "maxItems": MAX_CHOICES,
            "description": "Answers to choose from.",
        },
        "allows_free_text": {
            "type": "boolean",
            "default": True,
            "description": "Whether the user may answer in other words. False only together with choices.",
        },
    },
    "question",
)


def _checked_question(raw: Mapping[str, Any]) -> JsonObject:
    given = _given(raw, _ASK_USER)
    _check_text("question", given["question"], MAX_QUESTION_CHARACTERS)
    if "choices" in given:
        choices = given["choices"]
        if type(choices) is not list or not 1 <= len(choices) <= MAX_CHOICES:
            raise ValueError(f"choices: must be a list of 1 to {MAX_CHOICES} texts")
        for index, choice in enumerate(choices):
            _check_text(f"choices.{index}", choice, MAX_CHOICE_CHARACTERS)
        if len(set(choices)) < len(choices):
            raise ValueError("choices: must differ from each other")
    if type(given.get("allows_free_text", True)) is not bool:
        raise ValueError("allows_free_text: must be true or false")
    if given.get("allows_free_text") is False and "choices" not in given:
        raise ValueError("allows_free_text: may be false only with choices")
    return given


_ASK_USER_TOOL = BuiltInTool(
    name="ask_user",
    description=(
        "Ask the user a question and wait for the answer, however long it takes. Use it when you need a decision or a "
        "fact that only the user has."
    ),
    parameters=_ASK_USER,
    validate=_checked_question,
)


def _durable_wait(max_wait: timedelta) -> BuiltInTool:
    longest = max_wait // timedelta(seconds=1)
    parameters = _object(
        {
            "duration_seconds": {"type": "number", "minimum": 1, "maximum": longest},
            "reason": {
                "type": "string",
                "maxLength": MAX_REASON_CHARACTERS,
                "description": "What you wait for, in a few words; the user sees it.",
            },
        },
        "duration_seconds",
    )

    def validate(raw: Mapping[str, Any]) -> JsonObject:
        given = _given(raw, parameters)
        seconds = given["duration_seconds"]
        if type(seconds) not in (int, float):
            raise ValueError("duration_seconds: must be a number")
        if not 1 <= seconds <= longest:
            raise ValueError(f"duration_seconds: must be from 1 to {longest}")
        if Decimal(repr(seconds)) * 1000 % 1:
            raise ValueError("duration_seconds: must be whole milliseconds")
        if "reason" in given:
            _check_text("reason", given["reason"], MAX_REASON_CHARACTERS, may_be_blank=True)
        return given

    return BuiltInTool(
        name="durable_wait",
        description=(
            "Suspend your work for a time, from a second to months, and go on when it is over. Nothing runs meanwhile. "
            "Use it to look at something again later."
        ),
        parameters=parameters,
        validate=validate,
    )


_READ_OUTPUT = _object(
    {
        "tool_call_id": {"type": "string", "description": "Of the call whose output is read, as its note names it."},
        "offset": {
            "type": "integer",
            "minimum": 0,
            "default": 0,
            "description": "Where to begin, in characters from the start of the output.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_READ_CHARACTERS,
            "description": "Characters to read; as many as there may be if it is left out.",
        },
        "search": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_SEARCH_CHARACTERS,
            "description": "Look for this text, upper and lower case alike, and get the places where it stands.",
        },
    },
    "tool_call_id",
)


def _checked_reading(raw: Mapping[str, Any]) -> JsonObject:
    given = _given(raw, _READ_OUTPUT)
    _check_text("tool_call_id", given["tool_call_id"], _LONGEST_CALL_ID)
    for name, least, most in (("offset", 0, MAX_TOOL_OUTPUT_BYTES), ("limit", 1, MAX_READ_CHARACTERS)):
        value = given.get(name, least)
        if type(value) is not int:
            raise ValueError(f"{name}: must be a whole number")
        if not least <= value <= most:
            raise ValueError(f"{name}: must be from {least} to {most}")
    if "search" in given:
        _check_text("search", given["search"], MAX_SEARCH_CHARACTERS)
    return given


_READ_OUTPUT_TOOL = BuiltInTool(
    name=READER,
    description=(
        "Read or search the whole output of an earlier tool call of this conversation that was too long to be shown. "
        "Use it instead of making the same call again."
    ),
    parameters=_READ_OUTPUT,
    validate=_checked_reading,
    in_core=False,
)

_DURATION = {
    "type": "object",
    "properties": {unit: {"type": "integer"} for unit in ("weeks", "days", "hours", "minutes", "seconds")},
    "additionalProperties": False,
}
_SET_SCHEDULE = _object(
    {
        "text": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_SCHEDULED_CHARACTERS,
            "description": "The message that you will get then, as if the user had sent it.",
        },
        "at": {"type": "string", "description": "A time such as 2027-01-31T09:00:00+01:00."},
        "after": _DURATION | {"description": "From now; the units add up."},
        "every": {
            "anyOf": [{"type": "string"}, _DURATION],
            "description": "A cron expression such as '0 9 * * mon-fri', or an interval. Needs time_zone.",
        },
        "time_zone": {"type": "string", "description": "IANA name, such as Europe/Berlin."},
        "schedule_id": {
            "type": "string",
            "maxLength": MAX_SCHEDULE_ID,
            "description": "A name by which to change or cancel it.",
        },
    },
    "text",
)
_CANCEL_SCHEDULE = _object({"schedule_id": {"type": "string", "maxLength": MAX_SCHEDULE_ID}}, "schedule_id")


def _checked_schedule(raw: Mapping[str, Any]) -> JsonObject:
    given = _given(raw, _SET_SCHEDULE)
    _check_text("text", given["text"], MAX_SCHEDULED_CHARACTERS)
    if sum(name in given for name in ("at", "after", "every")) != 1:
        raise ValueError("give exactly one of at, after and every")
    for name in ("at", "time_zone", "schedule_id"):
        if name in given:
            _check_text(name, given[name], MAX_SCHEDULE_ID)
    if type(given.get("after", {})) is not dict or type(given.get("every", "")) not in (str, dict):
        raise ValueError("after and every: a duration is an object of units")
    return given


def _checked_cancelling(raw: Mapping[str, Any]) -> JsonObject:
    given = _given(raw, _CANCEL_SCHEDULE)
    _check_text("schedule_id", given["schedule_id"], MAX_SCHEDULE_ID)
    return given


_SCHEDULE_TOOLS = (
    BuiltInTool(
        name="set_schedule",
        description=(
            "Get a message at a time, after a while, or every so often, also long after this conversation has gone "
            "quiet. Setting the same one again changes nothing; another one under the same schedule_id replaces it."
        ),
        parameters=_SET_SCHEDULE,
        validate=_checked_schedule,
        in_core=False,
        effect="idempotent_write",
    ),
    BuiltInTool(
        name="list_schedules",
        description="List the messages that are scheduled, with their ids and when they come next.",
        parameters=_object({}),
        validate=lambda raw: _given(raw, _object({})),
        in_core=False,
    ),
    BuiltInTool(
        name="cancel_schedule",
        description="Cancel a scheduled message by its schedule_id.",
        parameters=_CANCEL_SCHEDULE,
        validate=_checked_cancelling,
        in_core=False,
        effect="idempotent_write",
    ),
)

BUILT_IN_TOOLS: Mapping[str, BuiltInTool] = MappingProxyType(
    {tool.name: tool for tool in (_ASK_USER_TOOL, _durable_wait(DEFAULT_MAX_WAIT), _READ_OUTPUT_TOOL, *_SCHEDULE_TOOLS)}
)
"""Every built-in tool by its name, in the order in which models are offered them (spec CLIENT-13)."""
