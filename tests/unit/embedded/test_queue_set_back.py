"""Steps that wait for their time while the machine's clock is set back."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from perdure.core.expected import Dispatch
from perdure.embedded.queue import EmbeddedQueue
from perdure.ports import SessionKey
from tests.unit.embedded.clocks import NOON, VirtualClock, settled

ANNA = SessionKey("acme", "anna")


class SetBackClock(VirtualClock):
    """A clock whose time of day can be set while its sleepers go on."""

    set_back = timedelta(0)

    def now(self) -> datetime:
        return super().now() - self.set_back


async def _waits(set_back: timedelta) -> bool:
    """Set the clock back while a step waits for two seconds; return whether it still does after those."""
    clock = SetBackClock()
    queue = EmbeddedQueue(clock)
    again = Dispatch(kind="call_tool", step_id="call-2-0", attempt=2, not_before=NOON + timedelta(seconds=2))
    await queue.send(ANNA, again)
    waiting = asyncio.create_task(queue.next())
    await clock.advance(1)

    clock.set_back = set_back
    await clock.advance(1)
    await settled()

    waits = not waiting.done()
    waiting.cancel()
    queue.close()
    return waits


async def test_a_retry_does_not_wait_an_hour_longer_because_the_clock_was_set_back_by_one() -> None:
    assert not await _waits(timedelta(hours=1))


async def test_a_clock_that_is_kept_right_makes_nothing_early() -> None:
    assert await _waits(timedelta(milliseconds=200))
