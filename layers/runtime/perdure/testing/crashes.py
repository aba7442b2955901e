"""Kill an invocation at any of its writes: before the write, or after it and before the answer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from perdure.testing.lambda_harness import Crash, LambdaHarness

WRITES = (
    "dynamodb.PutItem",
    "dynamodb.UpdateItem",
    "dynamodb.DeleteItem",
    "sqs.SendMessage",
    "scheduler.CreateSchedule",
    "scheduler.DeleteSchedule",
    "apigatewaymanagementapi.PostToConnection",
)
"""Calls that change something outside the process."""


@dataclass
class CrashPoint:
    """The write at which a function dies.

    Attributes:
        at_write: Which of the writes of all functions but `spared`, from 1. 0: none, they are only counted.
        landed: Whether the write takes effect.
        writes: Writes so far.
        crashed: What the write was; None: it has not happened yet.
        firsts: Those of the writes so far that were the first of their invocation.
    """

    at_write: int = 0
    landed: bool = False
    spared: tuple[str, ...] = ("api", "socket", "authorize")
    writes: int = 0
    crashed: str | None = None
    firsts: list[int] = field(default_factory=list)

    @contextlib.contextmanager
    def of(self, harness: LambdaHarness) -> Iterator[CrashPoint]:
        """Hold for as long as the block runs. Calls are made one after another, so that a number names one write."""
        self._begin("", None)
        others, harness.before_invocation = harness.before_invocation, self._begin
        pool, harness.threads = harness.threads, ThreadPoolExecutor(1, thread_name_prefix="perdure-aws")
        harness.cold_start()
        hooks = [(f"before-call.{name}", self._before) for name in WRITES]
        hooks += [(f"after-call.{name}", self._after) for name in WRITES]
        every = harness.aws.clients
        for client in (every.dynamodb, every.sqs, every.scheduler, every.connections):
            for name, hook in hooks:
                client.meta.events.register(name, hook)
        try:
            yield self
        finally:
            for client in (every.dynamodb, every.sqs, every.scheduler, every.connections):
                for name, hook in hooks:
                    client.meta.events.unregister(name, hook)
            harness.before_invocation = others
            harness.cold_start()
            harness.threads.shutdown()
            harness.threads = pool

    def _begin(self, function: str, _event: Any) -> None:
        self._function = function
        self._dead = False
        self._wrote = False

    def _before(self, model: Any, **_: Any) -> None:
        if self._dead:
            raise Crash
        if not self._function or self._function in self.spared:
            return
        self.writes += 1
        if not self._wrote:
            self._wrote = True
            self.firsts.append(self.writes)
        if self.writes == self.at_write and not self.landed:
            self._die(model.name)

    def _after(self, model: Any, **_: Any) -> None:
        if self._function in self.spared:
            return
        if self.writes == self.at_write and self.landed and self.crashed is None:
            self._die(model.name)

    def _die(self, operation: str) -> None:
        self.crashed = f"{operation} of {self._function}"
        self._dead = True
        raise Crash
