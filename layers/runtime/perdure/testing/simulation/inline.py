"""No threads: the embedded writer and the pool of boto3 calls, run right where they are asked."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar, cast

from perdure.embedded import database
from perdure.embedded.database import Database
from perdure.embedded.writer import Work, Writer, _Job

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
