"""No threads: the embedded writer and the pool of boto3 calls, run right where they are asked, and a loop for that."""

from __future__ import annotations

import selectors
import sqlite3
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar, cast

from perdure.embedded import database
from perdure.embedded.database import Database
from perdure.embedded.writer import Work, Writer, _Job
from perdure.testing.virtual_time import LoopClock, VirtualLoop

T = TypeVar("T")


class InlineWriter(Writer):
    """The product's writer without its thread: each work has a transaction of its own, at once."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        super().__init__(sqlite3.connect(":memory:", check_same_thread=False), name)
        super().close()  # ends the thread, and with it the connection that it was given
        self._closed = False
        self._connection = connection

    async def run(self, work: Work[T], *, durable: bool, published: Callable[[T], None] | None = None) -> T:
        job = _Job(work, durable, cast("Callable[[Any], None] | None", published), cast(Any, None), cast(Any, None))
        self._execute([job])
        if job.error is not None:
            raise job.error
        if job.published is not None:
            job.published(job.result)
        return cast("T", job.result)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._connection.close()


def open_inline() -> Database:
    """Return a database in memory that uses no thread."""
    connection = sqlite3.connect("file::memory:?cache=private", uri=True, isolation_level=None)
    database._prepare(connection, ":memory:")
    return Database(":memory:", writer=InlineWriter(connection, ":memory:"), reader=None, lock=None)


class InlineExecutor(Executor):
    """Runs what is submitted at once, in the caller's thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  a crash, too, belongs to whoever waits for the result
            future.set_exception(error)
        return future


class InlineLoop(VirtualLoop):
    """A loop in virtual time whose blocking calls run inline. Nobody outside wakes it: it asks the system for nothing.

    That makes it faster, and lets it go on in a copy of its process, which would share what the system keeps for it.
    """

    def __init__(self, clock: LoopClock) -> None:
        super().__init__(clock, InlineExecutor())

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Tell of what nobody waited for, but not of tasks that died with their process.

        Tasks are told of when they are collected, which may be while something is compiled, and CPython 3.11 can't
        write a traceback then ("AST constructor recursion depth mismatch").
        """
        error = context.get("exception")
        if error is None or isinstance(error, Exception):
            super().call_exception_handler(context)

    def _new_selector(self) -> selectors.BaseSelector:
        return _NothingOutside(self._clock)

    def _make_self_pipe(self) -> None:
        pass

    def _close_self_pipe(self) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class _NothingOutside(selectors.SelectSelector):
    """A selector for a loop that watches no file: it only moves the clock."""

    def __init__(self, clock: LoopClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("nothing can ever happen on this loop any more: a task waits for something nobody does")
        self._clock.advance(timeout)
        return []
