"""The one thread that writes: what waits together is committed in one transaction and shares its sync."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from perdure.embedded.failures import database_error
from perdure.errors import PerdureError, StoreUnavailableError

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

MAX_BATCH = 256
"""Works of one transaction. It bounds what one failing work makes the others do again; our own choice."""


@dataclass(slots=True)
class _Job:
    work: Work[Any]
    durable: bool
    published: Callable[[Any], None] | None
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    result: Any = None
    error: Exception | None = None


class Writer:
    """Runs works one after another on one connection, as many as are waiting in one transaction.

    There is no artificial wait: while one transaction is being synced, the next works gather. A work that raises a
    `PerdureError` fails alone and must not have written anything by then. Any other failure rolls the transaction
    back, and each of its works then gets a transaction of its own, so that only the guilty one fails. A transaction
    that can't begin fails all of its works at once: none of them is guilty, and each would wait as long once more.
    """

    def __init__(
        self, connection: sqlite3.Connection, name: str, *, check: Callable[[bool], None] = lambda _: None
    ) -> None:
        """Take over a connection that nobody else uses.

        Args:
            name: Says in messages which database it is.
            check: Called before each transaction, on the writer's thread, with whether it is durable; raises a
                `PerdureError` to refuse it.
        """
        self._connection = connection
        self._name = name
        self._check = check
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._door = threading.Lock()
        self._synced = True
        self._suspect = False
        self._thread = threading.Thread(target=self._run, name="perdure-writer", daemon=True)
        self._thread.start()

    async def run(self, work: Work[T], *, durable: bool, published: Callable[[T], None] | None = None) -> T:
        """Run a work in the next transaction and return what it returned, once that is committed.

        Args:
            work: Reads and writes; may run again after a rollback. Runs to its end even if the caller is cancelled.
            durable: Whether the commit waits for the disk. Without it, the commit survives the death of this process
                but not of the machine.
            published: Called with the result on the writer's thread, right after the commit and before any later work.

        Raises:
            StoreUnavailableError: The disk is full, an input or output error, or this database was closed; or it was
                committed and could not be published.
            DatabaseUnusableError: The file is damaged or may not be written.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._door:  # behind the last one, nothing would ever be answered
            if self._closed:
                raise StoreUnavailableError(f"database {self._name} was closed: open it again")
            self._jobs.put(_Job(work, durable, cast("Callable[[Any], None] | None", published), future, loop))
        return cast("T", await future)

    def close(self) -> None:
        """Finish what is waiting, then close the connection. Closing again does nothing."""
        with self._door:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        more = True
        while more:
            batch = [self._jobs.get()]
            try:
                while len(batch) < MAX_BATCH and batch[-1] is not None:
                    batch.append(self._jobs.get_nowait())
            except queue.Empty:
                pass
            more = batch[-1] is not None
            jobs = [job for job in batch if job is not None]
            self._execute(jobs)
            for job in jobs:
                self._publish(job)
            _answer(jobs)
        self._connection.close()

    def _execute(self, jobs: list[_Job]) -> None:
        if not jobs:
            return
        try:
            self._begin(durable=any(job.durable for job in jobs))
        except Exception as error:  # noqa: BLE001 - the thread must live on, and the callers get the error
            self._roll_back(error)
            for job in jobs:
                job.error = self._translated(error)
            return
        try:
            self._work_and_commit(jobs)
        except Exception as error:  # noqa: BLE001 - as above
            self._roll_back(error)
            if len(jobs) == 1:
                jobs[0].error = self._translated(error)
                return
            for job in jobs:
                self._execute([job])

    def _begin(self, *, durable: bool) -> None:
        self._check(durable)
        if self._suspect:
            self._start_a_new_log()
        self._sync_commits(durable)
        self._connection.execute("BEGIN IMMEDIATE")

    def _work_and_commit(self, jobs: list[_Job]) -> None:
        for job in jobs:
            try:
                job.error = None
                job.result = job.work(self._connection)
            except PerdureError as error:
                job.error = error
        self._connection.execute("COMMIT")

    def _publish(self, job: _Job) -> None:
        if job.published is None or job.error is not None:
            return
        try:
            job.published(job.result)
        except Exception as error:  # noqa: BLE001 - the thread must live on, and the caller asks what became of it
            job.error = StoreUnavailableError(f"database {self._name} committed, and did not get to say so: ask again")
            job.error.__cause__ = error

    def _sync_commits(self, wanted: bool) -> None:
        if wanted != self._synced:  # in WAL mode NORMAL leaves out the sync of a commit and nothing else
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")
            self._synced = wanted

    def _start_a_new_log(self) -> None:
        """After a failed write or sync, parts of the log may be lost that the next commits would build on.

        Linux reports a failed write-back once and then forgets the pages, so a later sync that succeeds proves
        nothing about them. Moving the whole log into the database first makes the next commit stand on its own.
        """
        self._sync_commits(True)
        busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreUnavailableError(f"database {self._name} is recovering from a failed write: try again")
        self._suspect = False

    def _roll_back(self, error: Exception) -> None:
        if "IOERR" in getattr(error, "sqlite_errorname", ""):
            self._suspect = True
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._suspect = True

    def _translated(self, error: Exception) -> Exception:
        return database_error(error, self._name) if isinstance(error, sqlite3.Error) else error


def _answer(jobs: list[_Job]) -> None:
    """Hand the results over, with one call for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, its_jobs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, its_jobs)
        except RuntimeError:  # the loop was closed: nobody is waiting any more
            continue


def _resolve(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
