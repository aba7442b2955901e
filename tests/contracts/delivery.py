"""The two adapter sets of `StepQueue` and `Timers`, and what comes out of them."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from perdure.aws.bootstrap import Runtime
from perdure.aws.handlers import step_handler, timer_handler
from perdure.aws.settings import Settings
from perdure.embedded.queue import EmbeddedQueue, EmbeddedTimers
from perdure.ports import SessionKey
from perdure.steps.base import StepDeps, StepMessage
from perdure.testing.conformance.delivery import Came, Delivery
from perdure.testing.moto import AwsInProcess, aws_in_process

LATENESS = timedelta(seconds=30)
"""How late a schedule fires here; the service says within the minute."""


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


@asynccontextmanager
async def open_embedded() -> AsyncIterator[Delivery]:
    """Open the queue and the timers of one process."""
    embedded = EmbeddedDelivery()
    yield embedded
    await embedded.close()


@asynccontextmanager
async def open_aws() -> AsyncIterator[Delivery]:
    """Open an account with our queues and no schedules."""
    with aws_in_process() as aws:
        yield AwsDelivery(aws)


DELIVERIES = {"embedded": open_embedded, "aws": open_aws}
