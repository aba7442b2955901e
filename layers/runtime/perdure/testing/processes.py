"""Real processes that are really killed: a worker in a process group of its own, and patience that ends.

async with WorkerProcess("my_agents:agents", tmp_path / "sessions.db", cwd=tmp_path) as worker:
    session = worker.session("s-1")
    await session.send("Refund order 7")
    await worker.kill()
    await worker.start()
    await finished(session)
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from perdure import errors
from perdure.errors import PerdureError, RequestConflictError, StoreUnavailableError
from perdure.session import Session, SessionApi

T = TypeVar("T")
JsonObject = dict[str, Any]

READY_SECONDS = 60.0
"""How long a process may take to start on a slow machine."""

STOP_SECONDS = 25.0
"""How long a process may take to finish what runs: 10 s, 5 s more for what will not be cut off, and a slow machine."""


class PatienceError(AssertionError):
    """Something did not happen in time."""


async def poll_until(
    condition: Callable[[], T | Awaitable[T]], *, timeout_seconds: float = 15.0, interval_seconds: float = 0.02
) -> T:
    """Ask again and again until the answer is true, and return it.

    Args:
        condition: A function, sync or async. What it raises comes out.

    Raises:
        PatienceError: It was not true in time; the last answer is in the message.
    """
    give_up = time.monotonic() + timeout_seconds
    while True:
        answer = condition()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return cast("T", answer)
        if time.monotonic() > give_up:
            raise PatienceError(f"not true after {timeout_seconds} s: {condition!r} says {answer!r}")
        await asyncio.sleep(interval_seconds)


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ChildProcess:
    """A process in a group of its own that may be killed with all that it started, and started again."""

    def __init__(self, *command: str, cwd: Path, environment: Mapping[str, str] | None = None) -> None:
        self.command = command
        self.cwd = cwd
        self.environment = dict(environment or {})
        self._process: asyncio.subprocess.Process | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def running(self) -> asyncio.subprocess.Process:
        """The process; it has been started."""
        assert self._process is not None, "this process is not running: start it first"
        return self._process

    async def start(self, ready: str = "ready") -> str:
        """Start it, and return the first line of its output that begins with `ready`, as it does."""
        assert self._process is None, "this process is running already"
        with self._errors().open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                cwd=self.cwd,
                env={**os.environ, **self.environment},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                limit=64 * 1024 * 1024,
            )
        assert self._process.stdout is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READY_SECONDS):
                async for line in self._process.stdout:
                    if line.decode().startswith(ready):
                        return line.decode().rstrip("\n")
        raise PatienceError(f"{self.command} did not become ready:\n{self.stderr()}")

    async def kill(self) -> None:
        """End it and everything it started, as a power cut would: SIGKILL to the group. Nothing is cleaned up."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """Ask it to finish what runs and leave (SIGTERM), and wait until it has."""
        await self._end(signal.SIGTERM)

    def stderr(self) -> str:
        """Return what all runs of it wrote to standard error so far."""
        return self._errors().read_text(errors="replace")

    def _errors(self) -> Path:
        return self.cwd / "stderr.log"

    async def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise PatienceError(f"{self.command} did not end in {STOP_SECONDS} s:\n{self.stderr()}") from None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()


class WorkerProcess(ChildProcess):
    """A process that runs agents on a database file; its sessions are used from here."""

    def __init__(self, agents: str, database: Path, *, cwd: Path, environment: Mapping[str, str] | None = None) -> None:
        """Describe the process; `start` it, or enter it as a context.

        Args:
            agents: `MODULE:NAME`; the module is looked for in `cwd` as well.
            environment: Added to that of this process.
        """
        command = (sys.executable, "-m", "perdure.testing.worker", agents, str(database))
        path = os.pathsep.join(filter(None, [str(cwd), os.environ.get("PYTHONPATH", "")]))
        super().__init__(*command, cwd=cwd, environment={"PYTHONPATH": path, **(environment or {})})
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[JsonObject]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def start(self, ready: str = "ready") -> str:
        """Start it, and return when it works."""
        line = await super().start(ready)
        self._reading = asyncio.create_task(self._read(self.running))
        return line

    def session(self, session_id: str) -> Session:
        """Return a session of this database. It outlives the process: after a restart it goes on as it is."""
        return Session(cast("SessionApi", _Remote(self)), session_id)

    async def ask(self, method: str, session_id: str, arguments: JsonObject) -> JsonObject:
        """Call a method of `SessionApi` in the process.

        Raises:
            StoreUnavailableError: The process is dead, or died before it answered.
            PerdureError: What the method raised there, as the same class.
        """
        number = next(self._ids)
        answer: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        request = {"id": number, "session": session_id, "method": method, "arguments": arguments}
        try:
            if self._process is None or self._process.stdin is None:
                raise StoreUnavailableError("the process is not running")
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            await self._process.stdin.drain()
            reply = await answer
        except (BrokenPipeError, ConnectionResetError) as error:
            raise StoreUnavailableError("the process is dead") from error
        finally:
            self._waiting.pop(number, None)
        if "error" in reply:
            raise _error(reply)
        return cast("JsonObject", reply["reply"])

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            if not line.endswith(b"\n"):
                break  # it was killed in the middle of a word
            reply = json.loads(line)
            waiting = self._waiting.get(reply["id"])
            if waiting is not None and not waiting.done():
                waiting.set_result(reply)

    async def _end(self, how: signal.Signals) -> None:
        await super()._end(how)
        reading, self._reading = self._reading, None
        if reading is not None:
            await reading
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(StoreUnavailableError("the process died before it answered"))


class _Remote:
    """A `SessionApi` whose methods are called in a worker process."""

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker

    def __getattr__(self, method: str) -> Callable[..., Awaitable[JsonObject]]:
        async def call(session_id: str, *positional: str, **arguments: Any) -> JsonObject:
            if positional:  # `resolve_interrupt` has one more
                arguments["interrupt_id"] = positional[0]
            return await self._worker.ask(method, session_id, arguments)

        return call


def _error(reply: JsonObject) -> PerdureError:
    kind = getattr(errors, reply["error"], PerdureError)
    return cast("PerdureError", kind(reply["message"], code=reply["code"]))


async def again_until_answered(command: Callable[[], Awaitable[T]], *, timeout_seconds: float = 15.0) -> T:
    """Repeat a command while its process is dead. The command has to carry an idempotency key, or be a read."""
    give_up = time.monotonic() + timeout_seconds
    while True:
        try:
            return await command()
        except StoreUnavailableError:
            if time.monotonic() > give_up:
                raise
            await asyncio.sleep(0.02)


async def pending(session: Session, *, timeout_seconds: float = 15.0) -> list[JsonObject]:
    """Wait until the session waits for a person, and return for what."""

    async def look() -> list[JsonObject]:
        snapshot = await again_until_answered(session.snapshot)
        return cast("list[JsonObject]", snapshot["pending_interrupts"])

    return await poll_until(look, timeout_seconds=timeout_seconds)


async def decide(session: Session, *, approved: bool = True, timeout_seconds: float = 15.0) -> None:
    """Wait for the approvals that are asked for and give them; a decision that was taken meanwhile is fine."""
    for interrupt in await pending(session, timeout_seconds=timeout_seconds):
        interrupt_id = interrupt["interrupt_id"]

        async def resolve(interrupt_id: str = interrupt_id) -> None:
            key = f"decide-{interrupt_id}"
            await session.resolve(interrupt_id, approved=approved, idempotency_key=key)

        with contextlib.suppress(RequestConflictError):
            await again_until_answered(resolve, timeout_seconds=timeout_seconds)


async def finished(session: Session, *, turns: int = 1, timeout_seconds: float = 15.0) -> JsonObject:
    """Wait until so many turns have ended and none runs; return the snapshot."""

    async def look() -> JsonObject | None:
        snapshot = await again_until_answered(session.snapshot)
        state = snapshot["state"]
        done = state is not None and "turn_id" not in state and state["turn_count"] >= turns
        return snapshot if done else None

    return cast("JsonObject", await poll_until(look, timeout_seconds=timeout_seconds))
