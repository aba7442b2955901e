"""The deployment in one process with invocations that overlap, on an event loop that charges for every AWS call.

`LambdaHarness` runs one invocation after the other, which tells what happens but not how long it takes. Here the
handlers are the same, but each one's work becomes a task on one loop: its container hands the work over instead of
running it to its end.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from perdure.aws.bootstrap import Runtime
from perdure.aws.tickets import TicketHolder
from perdure.core.cursor import Cursor
from perdure.core.entries import Actor
from perdure.ports import SessionKey
from perdure.streams.delivery import Attachment
from perdure.testing.gateway import ISSUER, Connection
from perdure.testing.lambda_harness import TIMEOUTS, Context, JsonObject, LambdaHarness
from perdure.testing.latency import LatencyLoop, LatencyModel
from perdure.testing.virtual_queues import Message

T = TypeVar("T")

CONTAINERS = 8
"""Warm containers of each function. An invocation gets any idle one: most have not seen the session's last commits."""


class _HandedOver(BaseException):
    """Carries an invocation's work past the end of its handler, which nothing may take for a failure."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        super().__init__()
        self.work = work


class _Container(Runtime):
    def run(self, work: Coroutine[Any, Any, T]) -> NoReturn:
        raise _HandedOver(self.whole(work))


@dataclass(frozen=True, slots=True)
class TimedInvocation:
    """One invocation. Times in virtual seconds."""

    function: str
    began: float
    ended: float


@dataclass
class OverlappingHarness(LambdaHarness):
    """One deployment whose functions run at the same time.

    Attributes:
        latency: What calls take; attach the clients that are to be charged for.
        timed: All invocations so far, in the order in which they ended.
        prepare: Called with each new container; it may set what a deployment could set.
    """

    latency: LatencyModel = field(default_factory=LatencyModel)
    timed: list[TimedInvocation] = field(default_factory=list)
    prepare: Callable[[Runtime], None] = lambda _container: None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.loop = LatencyLoop(self.clock, self.latency, self._deliver_what_was_sent)
        self._running: set[asyncio.Task[Any]] = set()
        self._picks = random.Random(0)  # noqa: S311 - a simulation, no secret

    def run(self, function: str, event: JsonObject) -> Any:
        """Run a function and everything that follows from it, until nothing happens any more. Returns its result.

        Raises:
            AssertionError: An invocation failed, which here is never meant.
        """
        first = self._begin(function, event)
        while self._running:
            self.loop.run_until_complete(asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED))
        return first.result()

    def send(self, session_id: str, text: str, *, key: str) -> None:
        """Send a message as `ann` of `acme`, and let everything happen that follows from it."""
        event = self.gateway.request("POST", f"/v1/sessions/{session_id}/inputs", {"text": text}, key=key)
        response = self.run("api", event)
        assert response.status == 202, response.body

    def watch(self, session_id: str) -> Connection:
        """Return a new connection that is sent a session's events, from the first on."""
        connection = Connection(f"connection{len(self.gateway.connections) + 1}=", authorizer={})
        self.gateway.connections[connection.connection_id] = connection
        attachment = Attachment(session_id, Cursor().encode(session_id))
        adding = self._idle("socket").subscriptions.add(
            SessionKey("acme", session_id),
            connection.connection_id,
            TicketHolder(tenant="acme", actor=Actor(issuer=ISSUER, subject="ann")),
            state=attachment.state(),
        )
        self.loop.run_until_complete(adding)
        return connection

    def close(self) -> None:
        """Close the loop."""
        self.loop.close()

    def _begin(self, function: str, event: JsonObject) -> asyncio.Task[Any]:
        container = self._idle(function)
        context = Context(function, self.clock.now() + timedelta(seconds=TIMEOUTS[function]), self.clock)
        token = self._current.set(container)
        try:
            self._handler(function)(event, context)
        except _HandedOver as handed:  # the task keeps this context, and so its container
            return self._follow(self._work(function, container, handed.work))
        finally:
            self._current.reset(token)
        raise AssertionError(f"{function} ended without work")

    def _follow(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self.loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        task.result()

    async def _work(self, function: str, container: Runtime, work: Coroutine[Any, Any, T]) -> T:
        began = self.loop.time()
        result = await work
        self.timed.append(TimedInvocation(function, began, self.loop.time()))
        self._warm[function].append(container)
        return result

    def _idle(self, function: str) -> Runtime:
        idle = self._warm.setdefault(function, [])
        while len(idle) < CONTAINERS:
            idle.append(self._new_container(function))
        return idle.pop(self._picks.randrange(len(idle)))

    def _new_container(self, function: str = "") -> Runtime:
        container = _Container(
            self._settings,
            clients=self.aws.clients,
            clock=self._clock_of(function),
            new_id=self._new_id,
            agents=self.agents,
        )
        self.prepare(container)
        return container

    def _deliver_what_was_sent(self) -> None:
        self.queues.collect()
        while (message := self.queues.next_message()) is not None:
            self.queues.messages.remove(message)
            self._follow(self._hand_over(message))

    async def _hand_over(self, message: Message) -> None:
        """Invoke the queue's function when the message has made its way there."""
        queue = self.queues.queues[message.queue]
        waits = max((message.visible_at - self.clock.now()).total_seconds(), 0.0)
        await asyncio.sleep(self.latency.hop(queue.function, self.loop.time(), waits))
        message.receives += 1
        done = await self._begin(queue.function, self.queues.event(message))
        assert all(done), f"{queue.function} could not process {message.body}"
        self.aws.clients.sqs.delete_message(QueueUrl=queue.url, ReceiptHandle=message.receipt)
