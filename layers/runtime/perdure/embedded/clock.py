"""The time of day and new ids: the only module of this adapter set that reads either."""

from __future__ import annotations

import asyncio
import secrets
import time
from datetime import datetime

from perdure.core.codec import from_millis


class SystemClock:
    """The machine's clock, in whole milliseconds, so that a moment reads back from the store as it was."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        return from_millis(time.time_ns() // 1_000_000)

    async def sleep(self, seconds: float) -> None:
        """Return after this many seconds; at once for zero and less."""
        await asyncio.sleep(seconds)


def new_id() -> str:
    """Return 32 random hex characters (128 bits)."""
    return secrets.token_hex(16)
