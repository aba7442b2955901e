"""The time of day and new ids: the only module of this adapter set that reads either."""

from __future__ import annotations

import asyncio
import secrets
from datetime import UTC, datetime


class SystemClock:
    """The container's clock, in whole milliseconds, so that a moment reads back from the store as it was."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        moment = datetime.now(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    async def sleep(self, seconds: float) -> None:
        """Return after this many seconds; at once for zero and less."""
        await asyncio.sleep(seconds)


def new_id() -> str:
    """Return 32 random hex characters (128 bits from the operating system, safe after a SnapStart restore)."""
    return secrets.token_hex(16)
