"""What the suites of `StepQueue` and `Timers` look through: what came out, on a clock moved by hand."""

from __future__ import annotations

import asyncio
import heapq
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from perdure.aws.bootstrap import Runtime
from perdure.aws.handlers import step_handler, timer_handler
from perdure.aws.settings import Settings
from perdure.embedded.queue import EmbeddedQueue, EmbeddedTimers
from perdure.ports import SessionKey, StepQueue, Timers
from perdure.steps.base import StepDeps, StepMessage
from perdure.testing.moto import AwsInProcess, aws_in_process
from tests.contracts.builders import NOON

LATENESS = timedelta(seconds=30)
"""How late a schedule fires here; the service says within the minute."""


class HandClock:
    """A clock that moves only by `advance_to`, and wakes those who sleep on the way in their order."""

    def __init__(self) -> None:
        self._now = NOON
        self._sleepers: list[tuple[datetime, int, asyncio.Future[None]]] = []
        self._order = count()

    def now(self) -> datetime:
        return self._now

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + timedelta(seconds=seconds), next(self._order), woken))
        await woken

    def jump_to(self, moment: datetime) -> None:
        self._now = max(self._now, moment)

    async def advance_to(self, moment: datetime) -> None:
        await _let_others_run()
        while self._sleepers and self._sleepers[0][0] <= moment:
            wakes_at, _, sleeper = heapq.heappop(self._sleepers)
            self.jump_to(wakes_at)
            if not sleeper.done():
                sleeper.set_result(None)
            await _let_others_run()
        self.jump_to(moment)


@dataclass(frozen=True, slots=True)
class Came:
    """A step or a timer that came out: when, of which session, and its ids."""

    at: datetime
    key: SessionKey
    name: str
    number: int
    kind: str = ""


class Delivery(ABC):
    """One adapter set's queue and timers, and what came out of them."""

    queue: StepQueue
    timers: Timers

    def __init__(self) -> None:
        self.clock = HandClock()
        self.steps: list[Came] = []
        self.fired: list[Came] = []

    @abstractmethod
    async def until(self, moment: datetime) -> None:
        """Let time pass, and have what is due come out."""

    async def after(self, delay: timedelta) -> None:
        await self.until(self.clock.now() + delay)


class EmbeddedDelivery(Delivery):
    """The embedded queue and timers, with one taker each."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: EmbeddedQueue = EmbeddedQueue(self.clock)
        self.timers: EmbeddedTimers = EmbeddedTimers(self.clock)
        self._takers = [asyncio.create_task(self._take_steps()), asyncio.create_task(self._take_timers())]

    async def until(self, moment: datetime) -> None:
        await self.clock.advance_to(moment)

    async def close(self) -> None:
        self.queue.close()
        self.timers.close()
        for taker in self._takers:
            taker.cancel()
        await asyncio.gather(*self._takers, return_exceptions=True)

    async def _take_steps(self) -> None:
        while True:
            key, dispatch = await self.queue.next()
            self.steps.append(Came(self.clock.now(), key, dispatch.step_id, dispatch.attempt, dispatch.kind))

    async def _take_timers(self) -> None:
        while True:
            key, timer = await self.timers.next()
            self.fired.append(Came(self.clock.now(), key, timer.timer_id, timer.fence))


class AwsDelivery(Delivery):
    """The handlers of the queues, fed with what went through SQS and Scheduler when its time has come.

    moto checks every request, but delays by the machine's clock and never fires a schedule; both are done here.
    """

    def __init__(self, aws: AwsInProcess) -> None:
        super().__init__()
        self._scheduler = aws.clients.scheduler
        self._timers_queue = aws.queue_urls["timers"]
        self._in_flight: list[tuple[datetime, int, str, str]] = []
        self._order = count()
        aws.clients.sqs.meta.events.register("provide-client-params.sqs.SendMessage", self._sent)
        runtime = Runtime(Settings.from_environment(aws.environment()), clients=aws.clients, clock=self.clock)
        runtime.deps = StepDeps(ports=runtime.ports, agents=None)  # type: ignore[arg-type]  # nothing here asks for one
        self.queue = runtime.queue
        self.timers = runtime.timers
        self._on_step = step_handler(self._step, lambda: runtime)
        self._on_timer = timer_handler(self._timer, lambda: runtime)

    async def until(self, moment: datetime) -> None:
        while True:
            self._collect_schedules(moment)
            if not self._in_flight or self._in_flight[0][0] > moment:
                break
            at, _, queue_url, body = heapq.heappop(self._in_flight)
            self.clock.jump_to(at)
            handler = self._on_timer if queue_url == self._timers_queue else self._on_step
            event = {"Records": [{"messageId": "m-1", "body": body}]}
            answer = await asyncio.to_thread(handler, event, None)
            assert answer == {"batchItemFailures": []}
        self.clock.jump_to(moment)

    def _sent(self, params: dict[str, Any], **_: Any) -> None:
        at = self.clock.now() + timedelta(seconds=params.get("DelaySeconds", 0))
        heapq.heappush(self._in_flight, (at, next(self._order), params["QueueUrl"], params["MessageBody"]))

    def _collect_schedules(self, moment: datetime) -> None:
        """Fire the schedules that come before everything else; until then they can be cancelled."""
        for row in self._scheduler.list_schedules()["Schedules"]:
            name = {"Name": row["Name"], "GroupName": row["GroupName"]}
            schedule = self._scheduler.get_schedule(**name)
            at = datetime.strptime(schedule["ScheduleExpression"], "at(%Y-%m-%dT%H:%M:%S)").replace(tzinfo=UTC)
            if at <= min([moment, *(sent[0] for sent in self._in_flight)]):
                body = schedule["Target"]["Input"]
                heapq.heappush(self._in_flight, (at + LATENESS, next(self._order), self._timers_queue, body))
                self._scheduler.delete_schedule(**name)

    async def _step(self, deps: StepDeps, message: StepMessage, *, deadline: datetime | None) -> None:
        self.steps.append(Came(self.clock.now(), message.key, message.step_id, message.attempt, message.kind))

    async def _timer(self, deps: StepDeps, key: SessionKey, timer_id: str, fence: int) -> None:
        self.fired.append(Came(self.clock.now(), key, timer_id, fence))


DELIVERIES = ("embedded", "aws")


@asynccontextmanager
async def open_delivery(name: str) -> AsyncIterator[Delivery]:
    """Open an empty queue and no timers."""
    if name == "embedded":
        embedded = EmbeddedDelivery()
        yield embedded
        await embedded.close()
        return
    with aws_in_process() as aws:
        yield AwsDelivery(aws)


async def _let_others_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
