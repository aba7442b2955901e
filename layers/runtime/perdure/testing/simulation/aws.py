"""The deployment in a simulation: the Lambda harness on one thread, and a fault point at every boto3 call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, TypeVar

from perdure.aws.bootstrap import Runtime
from perdure.ports import Ports
from perdure.testing import lambda_harness
from perdure.testing.lambda_harness import Crash, Invocation, LambdaHarness
from perdure.testing.simulation import faults
from perdure.testing.simulation.faults import Kind, Plan
from perdure.testing.simulation.inline import InlineLoop
from perdure.testing.simulation.wire import LONG_WAY, shorten

T = TypeVar("T")
JsonObject = dict[str, Any]

KINDS: dict[str, Kind] = {
    "GetItem": "read",
    "BatchGetItem": "read",
    "Query": "read",
    "GetObject": "read",
    "PutItem": "write",
    "UpdateItem": "write",
    "DeleteItem": "write",
    "PutObject": "write",
    "SendMessage": "send",
    "CreateSchedule": "write",
    "UpdateSchedule": "write",
    "DeleteSchedule": "write",
    "PostToConnection": "word",
}
"""Operations that are fault points. The harness's own calls, which stand for the services, are not."""

SETTLE_OVER = 1024
"""Bytes of a tail from which on a step settles it: few, so that each scenario has steps of both kinds."""

SPARED = ("authorize", "socket")
"""Functions of viewers who come and go; they change no session."""

AFTER_DUPLICATE = timedelta(seconds=5)
"""After a duplicate everything that follows from it within this time happens, too, before the first one goes on."""

_FAULT = "perdure_fault"
_OF_HEAD = "perdure_head"


@dataclass
class _Frame:
    """One invocation that is running."""

    function: str
    event: JsonObject
    dead: bool = False


class SimulatedDeployment(LambdaHarness):
    """A Lambda harness whose functions meet the faults of a plan. Everything runs on the caller's thread.

    Attributes:
        plan: Set after it was made.
        committed: Called after every write of a HEAD item.
    """

    plan: Plan
    committed: Callable[[], None]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._frames: list[_Frame] = []
        every = self.aws.clients
        for client in (every.dynamodb, every.sqs, every.scheduler, every.s3, every.connections):
            events, service = client.meta.events, client.meta.service_model.service_name
            for operation in KINDS:  # by their whole names, or the order against other hooks would be another
                events.register_first(f"before-call.{service}.{operation}", self._before)
                events.register_last(f"after-call.{service}.{operation}", self._after)
                events.register_first(f"needs-retry.{service}.{operation}", self._repeat)
        shorten(every.dynamodb)
        shorten(every.sqs)

    def _new_loop(self) -> InlineLoop:
        return InlineLoop(self.clock)

    def _new_container(self, function: str = "") -> Runtime:
        container = super()._new_container(function)
        container.settle_over = SETTLE_OVER
        return container

    def invoke(self, function: str, event: JsonObject) -> Invocation:
        """See `LambdaHarness.invoke`. An invocation that crashed has no answer, whatever it made of it."""
        frame = _Frame(function, event)
        self._frames.append(frame)
        try:
            done = super().invoke(function, event)
        finally:
            self._frames.pop()
        if not frame.dead:
            return done
        self.cold_start()  # nobody works on in the memory of one that died
        return Invocation(function, event, done.took, error=Crash())

    def settle_until(self, limit: Callable[[], datetime]) -> None:
        """Let everything happen that happens by itself up to a moment, which may become another one meanwhile."""
        while (moment := self._next_moment()) is not None and moment <= limit():
            self.clock.advance_to(moment)
            self._do_next()

    def do(self, work: Callable[[Ports], Coroutine[Any, Any, T]]) -> T:
        """Do something with ports of its own, which no fault strikes."""
        container = self._new_container()
        try:
            return container.run(work(container.ports))
        finally:
            container.loop.close()
            self.queues.collect()

    async def point(self, name: str) -> None:
        """Be a point in the body of a model or a tool."""
        frame = self._frames[-1]
        self._check_alive(frame)
        self._meet(frame, self.plan.passes(f"body.{name}", "body"))

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Let something else happen while an invocation stands still in the middle of its event loop."""
        loop, running = asyncio._get_running_loop(), self.running
        asyncio._set_running_loop(None)
        self.running = None
        try:
            yield
        finally:
            self.running = running
            asyncio._set_running_loop(loop)

    def _meet(self, frame: _Frame, fault: str | None) -> None:
        """Do what a fault does before a call."""
        if fault == faults.CRASH_BEFORE:
            raise self._die(frame)
        if fault == faults.SLOW:
            longest = lambda_harness.TIMEOUTS[frame.function] - 1
            with self.aside():
                self.advance(timedelta(seconds=min(faults.SLOW_SECONDS, longest)))
        if fault == faults.DUPLICATE:
            with self.aside():
                self.invoke(frame.function, frame.event)
                self.advance(AFTER_DUPLICATE)

    def _die(self, frame: _Frame) -> Crash:
        frame.dead = True
        return Crash()

    def _check_alive(self, frame: _Frame) -> None:
        if frame.dead:
            raise Crash

    def _before(self, model: Any, params: JsonObject, context: JsonObject, **_: Any) -> Any:
        if self.running is None or model.name not in KINDS or self.running in SPARED:
            return None
        frame = self._frames[-1]
        self._check_alive(frame)
        body = params.get("body")
        context[_OF_HEAD] = model.name == "UpdateItem" and isinstance(body, bytes) and b'"HEAD"' in body
        fault = self.plan.passes(f"{model.service_model.service_name}.{model.name} of {frame.function}", _kind(model))
        context[_FAULT] = (fault, frame)
        context[LONG_WAY] = fault == faults.REPEAT  # it is the SDK that repeats
        self._meet(frame, fault)
        if fault == faults.ERROR:
            from botocore.exceptions import ReadTimeoutError

            raise ReadTimeoutError(endpoint_url="simulated")
        if fault == faults.THROTTLE:
            return SimpleNamespace(status_code=400), _throttled()
        return None

    def _repeat(self, request_dict: JsonObject, **_: Any) -> float | None:
        """Have the SDK send a call again, as it does by itself when an answer was lost."""
        context = request_dict["context"]
        fault, frame = context.get(_FAULT, (None, None))
        if fault != faults.REPEAT:
            return None
        context[_FAULT] = (None, frame)
        return 0

    def _after(self, parsed: JsonObject, context: JsonObject, **_: Any) -> None:
        fault, frame = context.get(_FAULT, (None, None))
        if context.get(_OF_HEAD):
            self.committed()
        if fault == faults.CRASH_AFTER:
            raise self._die(frame)
        if fault == faults.LOST_ANSWER:
            from botocore.exceptions import ReadTimeoutError

            raise ReadTimeoutError(endpoint_url="simulated")
        if fault in (faults.LATE, faults.REORDER) and "MessageId" in parsed:
            seconds = faults.LATE_SECONDS if fault == faults.LATE else faults.REORDER_SECONDS
            self.queues.delay(parsed["MessageId"], timedelta(seconds=seconds))


def _kind(model: Any) -> Kind:
    return KINDS[model.name]


def _throttled() -> JsonObject:
    return {
        "Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"},
        "ResponseMetadata": {"HTTPStatusCode": 400, "RetryAttempts": 2},
    }
