"""Whether what a turn ends with is an answer: checked before the commit that would end it (spec SESS-17)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from perdure.agents.step import answered
from perdure.operator_events import tell

JsonObject = dict[str, Any]
_WORDS = ("text", "reasoning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a turn is about to end with.

    Attributes:
        text: The model's last words; those beside its calls when a stop policy ended the turn.
        parts: All of the answer as it would be stored: text, reasoning, files and what else there is.
        stop_policy: The name of the policy that ended the turn. None: the model did.
        tool_only: That policy says that what the tools did is the output.
    """

    session_id: str
    turn_id: str
    text: str
    parts: tuple[JsonObject, ...]
    settings: JsonObject
    stop_policy: str | None = None
    tool_only: bool = False

    @property
    def has_output(self) -> bool:
        """Whether there is text that is not blank, a file, a structured part, or a stop for the tools' sake."""
        return bool(self.text.strip()) or self.tool_only or any(part["type"] not in _WORDS for part in self.parts)


Check = Callable[[Answer], "bool | str | Awaitable[bool | str | None] | None"]
Acceptance = Literal["allow_empty", "require_output"] | Check


async def complaint_about(acceptance: Acceptance, answer: Answer) -> str | None:
    """Return why an answer is not accepted, as the session's owner will read it; None when it is.

    A callback accepts with True or None, and refuses with False or a text. One that fails refuses: what could not be
    checked is no answer, and asking the provider again would only be paid for again.
    """
    if acceptance == "allow_empty":
        return None
    if acceptance == "require_output":
        return None if answer.has_output else "the model answered with nothing, and this agent requires output"
    try:
        verdict = await answered(acceptance(answer))
    except Exception as error:  # noqa: BLE001 - user code
        tell("fault", "an answer could not be checked", error=error)
        return f"the check of the answer failed with {type(error).__name__}"
    if verdict is None or verdict is True:
        return None
    return verdict if isinstance(verdict, str) and verdict else "the agent's check did not accept the answer"
