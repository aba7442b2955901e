"""How long a call waits for its provider: a silence limit and the attempt's deadline, on the event loop's timers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from perdure.errors import ModelCallError

AFTER_FINISH_SECONDS = 5.0
"""Longest wait for the usage behind a complete answer, in seconds. Our own choice: it comes with the next packet."""


AFTER_END_SECONDS = 0.2
"""Longest wait for the end of the body behind `[DONE]`, in seconds: only a body read to its end leaves its connection
to the next call. Our own choice: about the handshakes that are saved."""


class Progress(Protocol):
    """What is known of an answer that is on its way."""

    @property
    def complete(self) -> bool:
        """Whether nothing is missing but the usage."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing is missing at all."""
        ...

    @property
    def text(self) -> str:
        """The text so far."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The limits of one call. Both are in seconds; `ends_at` is on the event loop's clock, infinite without one."""

    silence: float
    ends_at: float

    @classmethod
    def until(cls, deadline: datetime | None, *, now: datetime, silence: timedelta) -> Patience:
        """Return the limits of a call that begins now. Needs a running event loop."""
        left = math.inf if deadline is None else (deadline - now).total_seconds()
        return cls(silence=silence.total_seconds(), ends_at=asyncio.get_running_loop().time() + left)

    @asynccontextmanager
    async def waiting(self, answer: Progress) -> AsyncIterator[None]:
        """Hold one wait for the provider to the limits.

        Raises:
            ModelCallError: `timeout`, retryable: the silence was too long, or the deadline has come.
        """
        now = asyncio.get_running_loop().time()
        silence = AFTER_FINISH_SECONDS if answer.complete else self.silence
        until = min(now + (AFTER_END_SECONDS if answer.ended else silence), self.ends_at)
        if now >= self.ends_at:
            raise self._over(answer, until)
        try:
            async with asyncio.timeout_at(until):
                yield
        except TimeoutError as error:
            raise self._over(answer, until) from error

    def _over(self, answer: Progress, until: float) -> ModelCallError:
        what = (
            "the deadline of the attempt came before the provider had answered"
            if until >= self.ends_at
            else f"the provider sent nothing for {self.silence:g} seconds"
        )
        return ModelCallError(
            f"{what}: the same request may succeed later", kind="timeout", retryable=True, partial_text=answer.text
        )
