"""Reads that are tried again while no answer comes: reading twice harms nobody, commands are another matter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from perdure.errors import StoreUnavailableError

READ_RETRY_DELAYS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Waits in seconds before a failed read is tried again; about 16 s in all, a server's restart."""

ResultT = TypeVar("ResultT")


async def patiently(read: Callable[[], Awaitable[ResultT]], sleep: Callable[[float], Awaitable[None]]) -> ResultT:
    """Return what a read gives, or what a command gives that carries a key and so may be sent again.

    Raises:
        StoreUnavailableError: No answer came, the last time either.
    """
    for delay in READ_RETRY_DELAYS:
        try:
            return await read()
        except StoreUnavailableError:
            await sleep(delay)
    return await read()
