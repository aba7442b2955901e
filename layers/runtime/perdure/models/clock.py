"""The clock of model clients that were given none."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime


class SystemClock:
    """The time of this machine."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Return after this many seconds."""
        await asyncio.sleep(seconds)
