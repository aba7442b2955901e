"""What an agent says of its inbox (spec INBOX-02, INBOX-10, U-6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from perdure.core.commands import InboxPolicy
from perdure.core.inbox import DELIVERIES
from perdure.errors import ConfigurationError

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawInput:
    """A message as it came, before it is accepted. `source` says who wrote it: `person` or trusted code."""

    session_id: str
    text: str
    metadata: JsonObject | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxSettings:
    """How messages reach an agent that may be at work.

    Attributes:
        delivery: How a message is delivered that does not say: a mode, or a pure function of the message.
        coalesce: `pending`: all messages that wait share the next turn. `off`: each has its own.
        on_turn_failure: `hold`: later messages wait until the failed turn is retried or dismissed. `continue`: they do
            not. `auto`: they wait if a person wrote what failed.
        answers: A person's message that says no delivery answers the open question, if there is one that takes any
            text; other questions it replaces, as a steer. False: it is delivered as any other.
        late_answers: What becomes of an answer that comes when its question's time is over. `refuse`: it is refused.
            `queue`: it becomes a message that waits for its turn.

    Raises:
        ConfigurationError: A word is none of these.
    """

    delivery: str | Callable[[RawInput], str] = "queue"
    coalesce: Literal["off", "pending"] = "off"
    on_turn_failure: Literal["auto", "hold", "continue"] = "auto"
    answers: bool = True
    late_answers: Literal["refuse", "queue"] = "refuse"

    def __post_init__(self) -> None:
        if isinstance(self.delivery, str):
            _check("delivery", self.delivery, DELIVERIES)
        _check("coalesce", self.coalesce, ("off", "pending"))
        _check("on_turn_failure", self.on_turn_failure, ("auto", "hold", "continue"))
        _check("late_answers", self.late_answers, ("refuse", "queue"))

    def policy_for(self, message: RawInput) -> InboxPolicy:
        """Return what holds for one message.

        Raises:
            ConfigurationError: The function returned no delivery mode.
        """
        delivery = self.delivery if isinstance(self.delivery, str) else self.delivery(message)
        _check("the result of delivery", delivery, DELIVERIES)
        return InboxPolicy(
            delivery=delivery,
            coalesce=self.coalesce == "pending",
            on_turn_failure=self.on_turn_failure,
            answers=self.answers,
        )


def _check(name: str, word: str, words: tuple[str, ...]) -> None:
    if word not in words:
        raise ConfigurationError(f"{name} of an agent's inbox is {word!r}: use one of {', '.join(words)}")
