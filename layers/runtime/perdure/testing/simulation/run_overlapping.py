"""One run on the AWS adapters in which invocations overlap. Nothing fails, but whatever may happen at once does.

Each AWS call takes effect when it is made, and its answer comes a while later, by the latency model and a seed: so
invocations interleave call by call, each in a container of its own. Messages come twice, side by side, as SQS may send
them, and sweeps run beside living workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import random
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any, TypeVar

from perdure.agents.definition import AgentRegistry
from perdure.aws.bootstrap import Runtime
from perdure.core.expected import expected_dispatches
from perdure.ports import Ports
from perdure.testing.lambda_harness import JsonObject
from perdure.testing.latency import LatencyModel
from perdure.testing.moto import AwsInProcess, aws_in_process
from perdure.testing.overlapping import OverlappingHarness
from perdure.testing.simulation.deadlines import postpone_deadlines, result_of
from perdure.testing.simulation.ending import Ending, pending, waits
from perdure.testing.simulation.invariants import ViolationError, check, check_told
from perdure.testing.simulation.observer import Observer
from perdure.testing.simulation.run_aws import CALLS, FUNCTIONS, KEY, LONGEST_SETTLING, PATH, SESSION, request_of
from perdure.testing.simulation.scenario import Scenario
from perdure.testing.simulation.wire import shorten
from perdure.testing.simulation.world import Told, World
from perdure.testing.virtual_queues import Message
from perdure.testing.virtual_time import LoopClock

T = TypeVar("T")

TWICE = 0.4
"""Share of the messages that are delivered twice."""

LONGEST_GAP_SECONDS = 0.1
"""Longest time between the two deliveries of a message, and longest time that a body takes by itself."""

SWEEP_SECONDS = (0.05, 60.0)
"""Shortest and longest time between two sweeps while something goes on: far more of them than there will ever be, and
at any moment. While nothing does, each waits twice as long as the one before, until something begins or is due."""


@dataclass
class _Deployment(OverlappingHarness):
    """Functions that overlap, each message in up to two of them.

    Attributes:
        failures: What invocations raised, which here is always a finding.
        at_work: How many invocations run now.
        stirred: Set when one begins that is no sweep.
    """

    chance: random.Random = field(default_factory=random.Random)
    failures: list[BaseException] = field(default_factory=list)
    at_work: int = 0
    stirred: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, event: JsonObject) -> Any:
        """Invoke `api` and return its response."""
        return await self._begin("api", event)

    def ports(self) -> Ports:
        """Return ports of a container of its own."""
        return self._new_container().ports

    async def tick(self) -> None:
        """Fire what is scheduled for by now, and sweep."""
        for at, name in list(self.schedules.pending()):
            if at <= self.clock.now():
                self.schedules.fire(name, self.queues)
                self._deliver_what_was_sent()
        await self._begin("sweep", {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}})

    def due_in(self) -> float:
        """Return in how many seconds the next schedule fires; infinity: there is none."""
        times = [(at - self.clock.now()).total_seconds() for at, _ in self.schedules.pending()]
        return max(min(times, default=math.inf), 0.0)

    async def finished(self) -> None:
        """Return when nothing is under way any more."""
        while self._running:
            await asyncio.wait(set(self._running))

    async def _work(self, function: str, container: Runtime, work: Coroutine[Any, Any, T]) -> T:
        self.at_work += 1
        if function != "sweep":
            self.stirred.set()
        try:
            return await super()._work(function, container, work)
        finally:
            self.at_work -= 1

    async def _hand_over(self, message: Message) -> None:
        if self.chance.random() < TWICE:
            self._follow(self._hand_over_again(message))
        await super()._hand_over(message)

    async def _hand_over_again(self, message: Message) -> None:
        queue = self.queues.queues[message.queue]
        waits = max((message.visible_at - self.clock.now()).total_seconds(), 0.0)
        await asyncio.sleep(waits + self.chance.random() * LONGEST_GAP_SECONDS)
        await self._begin(queue.function, self.queues.event(message))

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(error)


class OverlappingRun:
    """One scenario under one seed."""

    def __init__(self, scenario: Scenario, seed: int, aws: AwsInProcess) -> None:
        self.scenario = scenario
        self._chance = random.Random(seed)  # noqa: S311
        clock = LoopClock()
        self.world = World(clock, self._point, self._reach)
        latency = LatencyModel(seed)
        every = aws.clients
        shorten(every.dynamodb)
        shorten(every.sqs)
        for client in (every.dynamodb, every.sqs, every.scheduler, every.s3, every.connections):
            latency.attach(client)
        self.deployment = _Deployment(
            aws=aws,
            agents=AgentRegistry([scenario.agent(self.world)]),
            functions=FUNCTIONS,
            clock=clock,
            latency=latency,
            chance=self._chance,
        )
        if scenario.given_up:
            self.deployment.queues.gives_up = CALLS
        self._observer = Observer(aws, KEY)
        every.dynamodb.meta.events.register_last("after-call.dynamodb.UpdateItem", self._written)
        self._viewer = self.deployment.watch(SESSION) if scenario.viewer else None
        self._keys = count(1)
        self._reached: dict[str, asyncio.Event] = {}

    def run(self) -> Ending:
        """Run it to its end.

        Raises:
            ViolationError: Something does not hold, or the session is stuck.
        """
        try:
            self.deployment.loop.run_until_complete(self._run())
        finally:
            self.deployment.close()
        for failure in self.deployment.failures:
            raise ViolationError(f"an invocation failed: {type(failure).__name__}: {failure}") from failure
        ending, head = self._observer.ending(self.world, calm=not self.scenario.given_up)
        if self._viewer is not None:
            check_told(self._viewer.sequences, head)
        return ending

    async def _run(self) -> None:
        sweeping = asyncio.create_task(self._sweep())
        try:
            await self.scenario.script(self)
            await self.settled()
            await self.deployment.finished()
        finally:
            sweeping.cancel()
            await asyncio.wait({sweeping})

    async def _sweep(self) -> None:
        deployment, calm = self.deployment, 0.0
        while True:
            gap = self._chance.uniform(*SWEEP_SECONDS)
            calm = 0.0 if deployment.stirred.is_set() or deployment.at_work else 2 * calm + gap
            deployment.stirred.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(calm, deployment.due_in())):
                    await deployment.stirred.wait()
            await asyncio.sleep(gap)
            await deployment.tick()

    def _written(self, **_: Any) -> None:
        self._observer.committed()

    async def _point(self, _: str) -> None:
        await asyncio.sleep(self._chance.random() * LONGEST_GAP_SECONDS)

    async def _reach(self, moment: str) -> None:
        self._reached.setdefault(moment, asyncio.Event()).set()

    # --- the user --------------------------------------------------------------------------------------------------

    async def send(self, text: str, *, key: str | None = None, **more: str) -> str:
        reply = await self._ask("POST", f"{PATH}/inputs", {"text": text, **more}, key)
        return reply if isinstance(reply, str) else "duplicate" if reply["duplicate"] else "accepted"

    async def approve(self, approved: bool = True) -> str:
        return await self._decide("approval", approved=approved)

    async def answer(self, text: str) -> str:
        return await self._decide("question", answer=text)

    async def _decide(self, kind: str, **decision: Any) -> str:
        answer = "nothing"
        for interrupt in pending(self._observer.head(), kind):
            path = f"{PATH}/interrupts/{interrupt}"
            reply = await self._ask("POST", path, decision, None)
            answer = reply if isinstance(reply, str) else reply["result"]
        return answer

    async def stop(self) -> str:
        reply = await self._ask("POST", f"{PATH}/stop", {}, None)
        return reply if isinstance(reply, str) else str(reply["result"])

    async def stop_as_shown(self) -> str:
        shown = await self._ask("GET", f"{PATH}/events", None, None)
        return await self.do("stop", frontier=shown["cursor"])

    async def do(self, operation: str, **arguments: Any) -> str:
        method, path, body = request_of(operation, arguments)
        reply = await self._ask(method, f"{PATH}{path}", body, None)
        return reply if isinstance(reply, str) else str(reply.get("result", reply.get("delivered_as")))

    async def waits(self) -> tuple[str, ...]:
        return waits(self._observer.head())

    def now(self) -> datetime:
        return self.deployment.clock.now()

    async def tell(self, command: Told) -> str:
        told = command(self._observer.head())
        return await result_of(KEY, told, self.deployment.ports()) if told is not None else "nothing"

    async def inbox(self) -> tuple[str, ...]:
        return tuple(message.message_id for message in self._observer.head().inbox)

    async def _ask(self, method: str, path: str, body: Any, key: str | None) -> Any:
        event = self.deployment.gateway.request(method, path, body, key=key or f"key-{next(self._keys)}")
        response = await self.deployment.ask(event)
        answer = json.loads(response.body)
        check(response.status < 500, f"{path} was answered by {response.status}: {answer}")
        return answer if response.status < 300 else answer["error"]["code"]

    async def postpone_deadlines(self, by: timedelta) -> bool:
        return await postpone_deadlines(self.deployment.ports(), KEY, by)

    async def when(self, moment: str) -> None:
        reached = self._reached.setdefault(moment, asyncio.Event())
        waiting = {asyncio.ensure_future(reached.wait()), asyncio.ensure_future(self.settled())}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()

    async def settled(self) -> None:
        clock = self.deployment.clock
        give_up_at = clock.now() + LONGEST_SETTLING
        while True:
            await asyncio.sleep(0.5)
            expected = expected_dispatches(self._observer.head())
            if not expected and not self.deployment.at_work:
                return
            if clock.now() > give_up_at:
                raise ViolationError(f"nobody will ever run {[(d.step_id, d.attempt) for d in expected]}")

    async def wait(self, time: timedelta) -> None:
        await asyncio.sleep(time.total_seconds())


def run_overlapping(scenario: Scenario, seed: int) -> Ending:
    """Run a scenario on the AWS adapters with invocations that overlap; see `OverlappingRun.run`."""
    with aws_in_process() as aws:
        return OverlappingRun(scenario, seed, aws).run()
