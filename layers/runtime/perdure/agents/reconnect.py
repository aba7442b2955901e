"""When a provider call that failed is sent again (spec RETRY-01, RETRY-07, U-7)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from perdure.errors import ConfigurationError, ModelCallError

LONGEST_ASKED_WAIT = timedelta(minutes=5)
"""Longest `retry-after` that is honoured; a provider that asks for more fails the turn. Our own choice."""

NEVER_AGAIN = frozenset({"auth", "credits", "unavailable", "context_overflow", "invalid", "aborted"})
"""Kinds of failures that the same request meets again however long it waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectPolicy:
    """How often, and after what wait, a provider is called again. One budget for the whole turn.

    Attributes:
        max_reconnects: Calls of one turn that may be sent again.
        first_delay: The wait before the first one; it doubles with each.
        ceiling: The longest wait that we choose ourselves.
        every_failure: Send also calls again that failed for no known reason; else only those that look transient.
        partial: What the next call is told of an answer that was cut: `echo` repeats it, `drop` does not, for agents
            with structured output (spec RETRY-04).
        delay: A function of the reconnect's number, from 1, and the failure that replaces the ladder; None: no more.

    Raises:
        ConfigurationError: A number is below zero.
    """

    max_reconnects: int = 5
    first_delay: timedelta = timedelta(milliseconds=250)
    ceiling: timedelta = timedelta(seconds=30)
    every_failure: bool = False
    partial: Literal["echo", "drop"] = "echo"
    delay: Callable[[int, ModelCallError], timedelta | None] | None = None

    def __post_init__(self) -> None:
        if self.max_reconnects < 0 or min(self.first_delay, self.ceiling) < timedelta(0):
            raise ConfigurationError("the numbers of a ReconnectPolicy must not be below zero")

    def delay_before(self, number: int, error: ModelCallError) -> timedelta | None:
        """Return the wait before a reconnect, or None when the failure stands.

        Args:
            number: Which reconnect of the turn it would be, from 1.
            error: Why the call failed. A provider that asks for a wait gets at least that, up to five minutes.
        """
        if number > self.max_reconnects or not (error.retryable or self._is_unknown(error)):
            return None
        if self.delay is not None:
            return self.delay(number, error)
        ours = min(self.first_delay, self.ceiling)
        for _ in range(number - 1):  # step by step: a power of two soon is more than any time
            ours = min(ours * 2, self.ceiling)
        asked = error.retry_after_seconds
        if asked is None or math.isnan(asked):
            return ours
        if asked > LONGEST_ASKED_WAIT.total_seconds():
            return None
        return max(ours, timedelta(seconds=max(asked, 0)))

    def _is_unknown(self, error: ModelCallError) -> bool:
        return self.every_failure and error.kind not in NEVER_AGAIN


QUICK = ReconnectPolicy()
"""Five within about 8 seconds: for a person who watches."""

PATIENT = ReconnectPolicy(first_delay=timedelta(seconds=2), every_failure=True)
"""Five within about a minute (2, 4, 8, 16, 30 s), after every failure that may pass: for work that nobody watches."""
