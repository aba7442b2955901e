"""How much room a prompt has, figure by figure, each with where it comes from (spec MODEL-20, MODEL-21).

Pure. A figure that nobody knows stays unknown, and so does what would follow from it: nothing here takes it for zero.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from perdure.core.history import HistoryItem, ModelItem, UserItem

Provenance = Literal["reported", "declared", "computed", "estimated", "unavailable"]
"""`reported` by a provider, `declared` by the deployment, `computed` from such figures, or `estimated` from a text."""

Decision = Literal["fits", "compact", "oversized", "unavailable"]

BYTES_PER_TOKEN = 4
"""UTF-8 bytes that are counted as one token. Rule of thumb for English text; other scripts have fewer, so an estimate
errs towards too many tokens."""

MESSAGE_TOKENS = 4
"""Tokens that a message costs beside its text: its role and its borders. Estimate; chat formats use three to five."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of tokens and where it comes from. `value` is None if and only if it is `unavailable`."""

    value: int | None
    provenance: Provenance

    def __post_init__(self) -> None:
        if (self.value is None) != (self.provenance == "unavailable"):
            raise ValueError("a figure has either a value or the provenance `unavailable`")


UNAVAILABLE = Figure(None, "unavailable")
NOTHING = Figure(0, "computed")


def declared(value: int | None) -> Figure:
    """Return a figure that the deployment gave, or did not."""
    return UNAVAILABLE if value is None else Figure(value, "declared")


def reported(value: int | None) -> Figure:
    """Return a figure that a provider gave, or did not."""
    return UNAVAILABLE if value is None else Figure(value, "reported")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFill:
    """How large the prompt of the last completed step was, beside the window. Both may be unavailable; no percentage.

    Attributes:
        prompt: Unavailable before the first step, and when the provider did not tell.
        window: Of the model that is asked now.
    """

    prompt: Figure = UNAVAILABLE
    window: Figure = UNAVAILABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBudget:
    """What a prompt has to hold beside the conversation. All figures are tokens."""

    window: Figure
    instructions: Figure
    reserved_output: Figure
    schemas: Figure = NOTHING
    attachments: Figure = NOTHING
    overhead: Figure = NOTHING

    @property
    def remaining(self) -> Figure:
        """What is left for the conversation. Negative: the reservations alone are more than the window."""
        reservations = (self.instructions, self.reserved_output, self.schemas, self.attachments, self.overhead)
        left = self.window.value
        for figure in reservations:
            if left is None or figure.value is None:
                return UNAVAILABLE
            left -= figure.value
        if left is None:
            return UNAVAILABLE
        guessed = any(figure.provenance == "estimated" for figure in (self.window, *reservations))
        return Figure(left, "estimated" if guessed else "computed")

    def decide(self, conversation: Figure) -> Decision:
        """Say whether a conversation fits.

        `compact`: it is too long, and a shorter one could fit. `oversized`: none could, so compacting would not help.
        """
        left = self.remaining.value
        if left is None:
            return "unavailable"
        if left < 0:
            return "oversized"
        if conversation.value is None:
            return "unavailable"
        return "fits" if conversation.value <= left else "compact"


def estimated_tokens(*texts: str) -> Figure:
    """Return about how many tokens texts take: their bytes in UTF-8, divided by four and rounded up."""
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    return Figure(-(-size // BYTES_PER_TOKEN), "estimated")


def estimated_conversation(items: Iterable[HistoryItem]) -> Figure:
    """Return about how many tokens a conversation takes."""
    messages = list(items)
    texts = estimated_tokens(*(text for item in messages for text in _texts(item)))
    return Figure((texts.value or 0) + MESSAGE_TOKENS * len(messages), "estimated")


def estimated_json(value: Any) -> Figure:
    """Return about how many tokens a JSON value takes, such as the tools that are offered."""
    return estimated_tokens(json.dumps(value, ensure_ascii=False))


def _texts(item: HistoryItem) -> Iterable[str]:
    if isinstance(item, UserItem):
        yield item.text
    elif isinstance(item, ModelItem):
        yield item.text
        for call in item.calls:
            yield call.tool_name
            yield json.dumps(call.arguments or {}, ensure_ascii=False)
    else:
        yield item.output
