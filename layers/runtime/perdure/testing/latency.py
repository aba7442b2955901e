"""How long AWS takes: a log-normal for each call and hop, and an event loop on which every call takes that long.

The figures are for a caller in the same region on warm connections. Of each operation its median, its 99th percentile
and the longest time are given, in milliseconds; between them a log-normal is assumed. Where no measurement was found
the source says so, and the figure is our own guess.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.testing.virtual_time import LoopClock, VirtualLoop

JsonObject = dict[str, Any]

HOP = "hop"

_Z99 = 2.3263478740408408
"""The 99th percentile of the standard normal distribution."""

_SAME_MOMENT = 1e-7
"""Two moments on the virtual clock that differ by less are one; in seconds."""

_MEASURED_DYNAMODB = "A. DeBrie, dynamodb-performance-testing, 2020: from Lambda, 400 runs"
_MEASURED_QUEUE = "Bite-Sized Serverless, 2022-09: eu-west-1, 1,024 runs"
_ASSUMED = "assumed: no measurement found"


@dataclass(frozen=True, slots=True)
class Figure:
    """One operation's time, in ms. `source` says where the figures come from."""

    p50: float
    p99: float
    longest: float
    source: str

    def sample(self, draws: random.Random) -> float:
        """Return one time, in seconds."""
        spread = math.log(self.p99 / self.p50) / _Z99
        return min(draws.lognormvariate(math.log(self.p50), spread), self.longest) / 1000


WRITE = Figure(7.5, 16.2, 29, f"{_MEASURED_DYNAMODB}; a conditional write costs the same")
READ = Figure(5, 14, 30, f"{_ASSUMED}; a bit under a write")
TRANSACTION = Figure(25.3, 92.5, 218, f"{_MEASURED_DYNAMODB}, 5 items; a failed condition costs the same")
SEND = Figure(8, 40, 150, _ASSUMED)
POST = Figure(12, 80, 500, _ASSUMED)
SCHEDULE = Figure(8, 40, 150, f"{_ASSUMED}; as a send")
OBJECT_PUT = Figure(30, 150, 1000, _ASSUMED)
OBJECT_GET = Figure(20, 120, 1000, _ASSUMED)
QUEUE_HOP = Figure(16.2, 105, 1000, f"{_MEASURED_QUEUE}; standard queue, no batch window, warm, the send included")
INVOKE = Figure(3, 25, 200, f"{_ASSUMED}; vendor and blogs say a few ms")
HTTP_API = Figure(10, 50, 300, _ASSUMED)

CALLS = {
    "dynamodb.PutItem": WRITE,
    "dynamodb.UpdateItem": WRITE,
    "dynamodb.DeleteItem": WRITE,
    "dynamodb.GetItem": READ,
    "dynamodb.BatchGetItem": READ,
    "dynamodb.Query": READ,
    "dynamodb.TransactWriteItems": TRANSACTION,
    "sqs.SendMessage": SEND,
    "scheduler.CreateSchedule": SCHEDULE,
    "scheduler.DeleteSchedule": SCHEDULE,
    "apigatewaymanagementapi.PostToConnection": POST,
    "s3.PutObject": OBJECT_PUT,
    "s3.GetObject": OBJECT_GET,
}
"""What each call takes. An operation that is not here is an error, so that nothing is free by oversight."""


@dataclass(frozen=True, slots=True)
class TimedCall:
    """One call, or one hop from a queue to a handler. Times in virtual seconds.

    Attributes:
        operation: `service.Operation`, or `hop`.
        kind: Of an item `HEAD`, `LOG`, …; of a hop the function.
    """

    operation: str
    kind: str
    began: float
    ended: float
    failed: bool


@dataclass
class LatencyModel:
    """Draws what calls take, always the same for a seed and an order of calls.

    Attributes:
        commits: What a commit takes, that is an update of HEAD; None: what every update takes.
        calls: All calls so far, in the order in which they began.
    """

    seed: int = 0
    commits: Figure | None = None
    calls: list[TimedCall] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._draws = random.Random(self.seed)  # noqa: S311 - a simulation, no secret
        self._open: list[tuple[str, str, bool]] | None = None

    def reseed(self, seed: int) -> None:
        """Begin a new series of draws, and forget the calls."""
        self._draws.seed(seed)
        self.calls.clear()

    def draw(self, figure: Figure) -> float:
        """Return what something else than a call takes, in seconds."""
        return figure.sample(self._draws)

    def hop(self, function: str, began: float, waits: float) -> float:
        """Return what a message's way to its handler takes, in seconds, `waits` being its own delay."""
        took = waits + self.draw(QUEUE_HOP)
        self.calls.append(TimedCall(HOP, function, began, began + took, failed=False))
        return took

    def attach(self, client: Any) -> None:
        """Charge for this client's calls from now on, as far as they are made on a `LatencyLoop`."""
        client.meta.events.register("provide-client-params.*", _keep_kind)
        client.meta.events.register("after-call.*", self._note)

    def _note(self, model: Any, parsed: JsonObject, context: JsonObject, **_: Any) -> None:
        if self._open is not None:
            operation = f"{model.service_model.service_name}.{model.name}"
            self._open.append((operation, context.get("kind_of_item", ""), "Error" in parsed))

    def charge(self, call: Callable[[], Any], began: float) -> tuple[Any, BaseException | None, float]:
        """Make a blocking call. Returns its result or its error, and how long it takes, in seconds."""
        self._open = []
        result, error = None, None
        try:
            result = call()
        except BaseException as raised:  # noqa: BLE001 - handed on to whoever waits for the call
            error = raised
        made, self._open = self._open, None
        seconds = 0.0
        for operation, kind, failed in made:
            took = self.draw(self._figure(operation, kind))
            self.calls.append(TimedCall(operation, kind, began + seconds, began + seconds + took, failed))
            seconds += took
        return result, error, seconds

    def _figure(self, operation: str, kind: str) -> Figure:
        if self.commits is not None and (operation, kind) == ("dynamodb.UpdateItem", "HEAD"):
            return self.commits
        if operation not in CALLS:
            raise LookupError(f"nobody said how long {operation} takes: give it a figure in CALLS")
        return CALLS[operation]


def critical_path(calls: Sequence[TimedCall], last: TimedCall, *, waits: Sequence[float] = ()) -> list[TimedCall]:
    """Return the calls that had to be waited for until `last` ended, the first one first.

    Each began when the one before it ended, because computing takes no time here, or one of the `waits` later. Of
    several that ended together the longest counts.

    Args:
        waits: What else takes time, such as a tool, in seconds.
    """
    path = [last]
    while before := [call for call in calls if _follows(path[0], call, waits)]:
        path.insert(0, min(before, key=lambda call: call.began))
    return path


def _follows(call: TimedCall, earlier: TimedCall, waits: Sequence[float]) -> bool:
    gap = call.began - earlier.ended
    return call is not earlier and any(abs(gap - wait) < _SAME_MOMENT for wait in (0.0, *waits))


def _keep_kind(params: JsonObject, context: JsonObject, **_: Any) -> None:
    key = params.get("Key") or params.get("Item") or {}
    if isinstance(key, dict) and "sk" in key:
        context["kind_of_item"] = key["sk"]["S"].partition("#")[0]


class LatencyLoop(VirtualLoop):
    """An event loop in virtual time on which what runs in a thread takes as long as its AWS calls would.

    A call takes effect when it begins, and its answer comes when its time is over. Calls that are made together run
    together. Computing takes no time.

    Args:
        after_call: Called when a call has taken effect; it may look at what the call sent.
    """

    def __init__(self, clock: LoopClock, model: LatencyModel, after_call: Callable[[], None] = lambda: None) -> None:
        super().__init__(clock)
        self._model = model
        self._after_call = after_call

    def run_in_executor(  # type: ignore[override]
        self,
        executor: Any,  # noqa: ARG002 - everything runs here and now
        func: Callable[..., Any],
        *args: Any,
    ) -> Any:
        future = self.create_future()
        result, error, seconds = self._model.charge(lambda: func(*args), self.time())
        self._after_call()
        self.call_later(seconds, _settle, future, result, error)
        return future


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return  # nobody waits any more; the call has taken effect all the same
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
