"""Work that has a limit on the runtime's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from perdure.ports import Clock

T = TypeVar("T")

LONGEST_GOODBYE = 1.0
"""How long work that was cut off may take to clean up, in seconds of the host. Our own choice."""


async def in_time(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work that ends in time; else it is cut off.

    Work that takes no cancellation is left to itself.

    Raises:
        TimeoutError: It did not end within these seconds.
        RuntimeError: It gave itself up, by a `CancelledError` of its own: nobody else has been cancelled. Or it ended
            with something else that is no `Exception`.
    """
    working = asyncio.ensure_future(work)
    late = asyncio.ensure_future(clock.sleep(max(seconds, 0)))
    try:
        await asyncio.wait({working, late}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise TimeoutError(f"it did not end within {seconds:g} s")
        if working.cancelled():
            raise RuntimeError("it gave itself up")
        try:
            return working.result()
        except Exception:
            raise
        except BaseException as error:  # such as a group with a `KeyboardInterrupt`: it must not end the worker's step
            raise RuntimeError(f"it ended with {type(error).__name__}") from error
    finally:
        working.cancel()
        late.cancel()
        # What takes no cancellation is left alone: whoever waited for it would wait for ever.
        await asyncio.wait({working, late}, timeout=LONGEST_GOODBYE)
