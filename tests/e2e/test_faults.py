"""The same conversation while calls to AWS fail, every kind of call in every way that the network knows.

A tour goes through all calls that functions make: it refunds after an approval with a far deadline (a schedule is made
and removed), stores and reads a body too large for the table, lists sessions, and is watched over the WebSocket.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from perdure.errors import StoreUnavailableError
from perdure.session import Session
from perdure.testing.assertions import run_of
from perdure.testing.processes import poll_until
from tests.e2e.people import ANSWERS, Socket, User, Viewer, answered, asked, ended
from tests.e2e.test_conversations import FAR, REFUND, refunds, schedules
from tests.e2e.world import World

JsonObject = dict[str, Any]

CALLS = {
    "dynamodb": ("GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem", "DeleteItem"),
    "s3": ("GetObject", "PutObject"),
    "sqs": ("SendMessage",),
    "scheduler": ("CreateSchedule", "DeleteSchedule"),
    "secretsmanager": ("GetSecretValue",),
    "apigatewaymanagementapi": ("unknown",),  # PostToConnection; the injector does not know it by name
}

THROTTLED = {
    "dynamodb": {"code": "ProvisionedThroughputExceededException", "status": 400},
    "s3": {"code": "SlowDown", "status": 503},
    "sqs": {"code": "ServiceUnavailable", "status": 503},  # the injector prefixes codes, and the SDK knows 503
    "scheduler": {"code": "ThrottlingException", "status": 429},
    "secretsmanager": {"code": "ThrottlingException", "status": 400},
    "apigatewaymanagementapi": {"code": "LimitExceededException", "status": 429},
}

HELD_MILLISECONDS = 2500
"""Longer than a function waits for an answer (`perdure.aws.clients.TIMEOUT_SECONDS`); S3's waits get a 504."""

FAULTS: dict[str, Callable[[str], JsonObject]] = {
    "throttled": lambda service: {"error": THROTTLED[service]},
    "reset": lambda _: {"reset": True},
    "held": lambda _: {"timeout_ms": HELD_MILLISECONDS},
    "unanswered": lambda _: {"response": {"abort_bytes": 0}},  # the call is carried out, and its answer lost
}

MINUTES = 60

ANSWER_SECONDS = 15
"""How long a viewer waits for the answer to a frame before it sends it again."""

_cents = itertools.count(101)


def rules(kind: str, times: int) -> list[JsonObject]:
    """Return rules by which each call fails so often."""
    found = []
    for service, operations in CALLS.items():
        for operation in operations:
            rule = {"service": service, "times": times} | FAULTS[kind](service)
            found.append(rule if operation == "unknown" else rule | {"operation": operation})
    return found


@pytest.mark.parametrize(
    "times",
    [
        pytest.param(1, id="once"),  # the SDK asks again
        pytest.param(3, id="thrice", marks=pytest.mark.slow),  # the SDK gives up, and our code has to see to it
    ],
)
@pytest.mark.parametrize("kind", list(FAULTS))
async def test_a_conversation_ends_well_though_every_call_fails(world: World, kind: str, times: int) -> None:
    tour = Tour(world, f"{kind}-{times}")
    world.emulator.kill_handlers(world.stack.ids["RunModelFunction"])  # a new one reads the provider's key
    before = Counter(world.emulator.counted())
    world.emulator.inject(*rules(kind, times))
    try:
        await tour.go()
    finally:
        world.emulator.inject()
    after = Counter(world.emulator.counted()) - before

    met = {(service, operation) for service, operation, what in after if what != "match"}
    assert met == {(service, operation) for service, operations in CALLS.items() for operation in operations}
    await tour.check()


class Tour:
    """One tour. Its users ask again when no answer comes, with the same keys."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._amount = next(_cents) / 100
        self.viewer = Viewer(f"{name}-far")

    async def go(self) -> None:
        user = self._world.user()
        async with user.client() as client:
            far = client.session(f"{self._name}-far", agent="patient")
            large = client.session(f"{self._name}-large")
            await answered(lambda: far.send(REFUND % (6, self._amount), idempotency_key="ask"))
            interrupt = await asked(far, timeout_seconds=4 * MINUTES)
            async with contextlib.AsyncExitStack() as stack:
                socket = await connected(user, stack)
                await patiently(socket, type="attach", session_id=far.session_id, after=self.viewer.cursor)
                await answered(lambda: far.resolve(interrupt, approved=True, idempotency_key="yes"))
                self.far = await ended(far, timeout_seconds=6 * MINUTES)
                await self._see_the_end(socket)
                await answered(lambda: large.send('call read_archive {"kilobytes": 600}', idempotency_key="ask"))
                self.large = await ended(large, timeout_seconds=6 * MINUTES)
                self.listed = await answered(lambda: client.sessions(limit=200))
                await patiently(socket, type="detach", session_id=far.session_id)

    async def _see_the_end(self, socket: Socket) -> None:
        """Ping until all has come that was not sent: as a client does, but sooner."""
        async with asyncio.timeout(3 * MINUTES):
            while not any(event["type"] == "turn_completed" for event in self.viewer.events):
                await patiently(socket, type="ping")
                for frame in socket.heard("events"):
                    self.viewer.take(frame)

    async def check(self) -> None:
        """Everything is as it is without faults."""
        async with self._world.user().client() as client:
            far, large = (client.session(f"{self._name}-{part}") for part in ("far", "large"))
            for session, tool in ((far, "refund_order"), (large, "read_archive")):
                run = await run_of(session)
                run.completed()
                run.succeeded(tool, times=1)
                recorded = await no_gap(session)
                if session is far:
                    assert unrepeated(self.viewer.durable) == recorded, "the viewer has missed nothing"
        assert refunds(self._world, "6").count(self._amount) == 1
        assert {f"{self._name}-far", f"{self._name}-large"} <= {s["session_id"] for s in self.listed["sessions"]}
        left = 1 if FAR in self._world.begun else 0
        # One that was made only after it was removed fires at its time, does nothing, and is gone.
        await poll_until(lambda: len(schedules(self._world)) <= left, timeout_seconds=4 * MINUTES, interval_seconds=0.5)


async def no_gap(session: Session) -> list[JsonObject]:
    page = await session.event_page()
    recorded = [event for event in page["events"] if "sequence" in event]
    assert [event["sequence"] for event in recorded] == list(range(1, len(recorded) + 1))
    return recorded


def unrepeated(events: list[JsonObject]) -> list[JsonObject]:
    """Leave out what came twice: a pump whose answer was lost does not know what has been sent."""
    taken: list[JsonObject] = []
    for event in events:
        if event["sequence"] > len(taken):
            taken.append(event)
    return taken


async def connected(user: User, stack: contextlib.AsyncExitStack) -> Socket:
    """Return a connection, with a new ticket for every try."""

    async def connect() -> Socket:
        try:
            return await stack.enter_async_context(user.socket())
        except InvalidStatus as error:
            if error.response.status_code < 500:
                raise
            raise StoreUnavailableError("the authorizer gave no answer") from error

    return await answered(connect)


async def patiently(socket: Socket, **frame: Any) -> None:
    """Ask until the answer is the one that was asked for; one that does not come was lost on its way."""
    (good,) = ANSWERS[frame["type"]]
    async with asyncio.timeout(2 * MINUTES):
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    reply = await socket.ask(**frame)
                    if reply["type"] == good:
                        return
                    assert reply["code"] == "store_unavailable", reply
