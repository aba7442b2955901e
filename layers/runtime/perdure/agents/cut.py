"""Work that is cut off when something else comes first, without a task of its own: it runs once for each model call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class CutOff(Exception):  # noqa: N818  no error: the way out of work that was cut off
    """Something else came first. The work has ended by then, however it did."""


async def unless(comes: Callable[[], Awaitable[object]], work: Coroutine[Any, Any, T]) -> T:
    """Run work in the current task until it ends, or until what `comes` waits for is there; then cancel it.

    A cancellation from outside goes to the work and comes out as what it is, whatever else came.

    Raises:
        CutOff: Something else came first. What the work made of its cancellation is dropped.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    came = False

    async def watch() -> None:
        nonlocal came
        await comes()
        came = True
        task.cancel()

    watching = asyncio.create_task(watch())
    cause: BaseException | None = None
    try:
        result = await work
    except BaseException as error:
        if not came:
            raise
        cause = error
    finally:
        watching.cancel()
    if not came:
        return result
    if task.uncancel() > before:
        raise asyncio.CancelledError from cause
    raise CutOff from cause
