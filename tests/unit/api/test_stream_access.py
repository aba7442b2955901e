"""A stream shows nothing to whom it may not: after the token's end, after a revocation, of somebody else's session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.access import Operation, Principal, SessionFacts
from perdure.api import sse
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.errors import NotFoundError, UnauthorizedError
from perdure.service import Caller, Service
from tests.unit.api.builders import Api, Desk, a_caller
from tests.unit.api.test_sse import parsed
from tests.unit.embedded.clocks import NOON, VirtualClock

EVENTS = "/v1/sessions/s-1/events"


class Hook:
    """Allows readers what it is told to."""

    def __init__(self) -> None:
        self.readers: set[str] = set()
        self.asked = 0

    def __call__(self, who: Principal, operation: Operation, session: SessionFacts) -> bool | None:
        self.asked += 1
        return True if operation == "read" and who.actor.subject in self.readers else None


@pytest.fixture
def hook() -> Hook:
    return Hook()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def service(tmp_path: Path, desk: Desk, hook: Hook, clock: VirtualClock) -> AsyncIterator[Service]:
    async with EmbeddedRuntime(tmp_path / "sessions.db", desk.agents(), clock=clock, grace_seconds=0) as runtime:
        yield Service(runtime.service._deps, authorize=hook)
        desk.gate.set()


FOR_TEN_SECONDS = replace(a_caller("ann"), until=NOON + timedelta(seconds=10))


async def waiting(clock: VirtualClock, seconds: float) -> None:
    """Let a reader get to where it waits for so long: its reads run in a thread, which no clock knows of."""
    until = clock.now() + timedelta(seconds=seconds)
    while all(due != until for due, *_ in clock._sleepers):  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def stream_of(service: Service, caller: Caller, after: str | None = None) -> AsyncIterator[bytes]:
    place = f"?after={after}" if after else ""
    headers = {"accept": sse.MEDIA_TYPE}
    response = await Api(service, caller).send("GET", EVENTS + place, headers=headers, can_stream=True)
    assert response.stream is not None, response.body
    return response.stream


async def all_of(stream: AsyncIterator[bytes]) -> list[bytes]:
    return [piece async for piece in stream]


async def test_f114_a_stream_ends_with_the_token_and_says_so(service: Service, clock: VirtualClock) -> None:
    stream = await stream_of(service, FOR_TEN_SECONDS)
    reading = asyncio.create_task(all_of(stream))
    await waiting(clock, 10)

    await clock.advance(9)
    assert not reading.done()
    await clock.advance(1)
    pieces = await reading

    assert pieces[0] == sse.OPEN
    (last,) = parsed(pieces[-1])
    assert last["event"] == "access_denied"
    assert "id" not in last
    assert json.loads(last["data"])["code"] == "unauthorized"


@pytest.mark.parametrize("session_id", ["s-1", "never-written"])
@pytest.mark.parametrize("read", [Service.events, Service.feed])
async def test_f114_nothing_is_told_after_the_token_has_ended(
    service: Service, clock: VirtualClock, read: Any, session_id: str
) -> None:
    api = Api(service, FOR_TEN_SECONDS)
    await api.post("/v1/sessions/s-1/inputs", {"text": "hi"})
    await api.until("s-1", "turn_completed")
    seen = (await service.events(FOR_TEN_SECONDS, session_id))["cursor"]
    reading = asyncio.create_task(read(service, FOR_TEN_SECONDS, session_id, after=seen, wait_seconds=20))
    await waiting(clock, 10)

    await clock.advance(10)

    with pytest.raises(UnauthorizedError, match="has ended"):
        await reading
    for late in (service.events, service.feed, service.snapshot, service.messages, service.inbox):
        with pytest.raises(UnauthorizedError, match="has ended"):
            await late(FOR_TEN_SECONDS, "s-1")


async def test_a_revoked_reader_hears_so_at_the_next_look_and_no_more(
    service: Service, hook: Hook, clock: VirtualClock
) -> None:
    owner = Api(service, a_caller("ann"))
    await owner.post("/v1/sessions/s-1/inputs", {"text": "hi"})
    await owner.until("s-1", "turn_completed")
    hook.readers.add("bob")
    cursor = (await service.events(a_caller("bob"), "s-1"))["cursor"]
    stream = await stream_of(service, a_caller("bob"), after=cursor)
    reading = asyncio.create_task(all_of(stream))
    await waiting(clock, sse.KEEP_ALIVE_SECONDS)

    hook.readers.clear()
    await clock.advance(sse.KEEP_ALIVE_SECONDS)
    (last,) = parsed((await reading)[-1])

    assert (last["event"], json.loads(last["data"])["code"]) == ("access_denied", "session_not_found")


def test_a_stream_asks_again_within_a_minute() -> None:
    assert sse.KEEP_ALIVE_SECONDS <= 60


async def test_who_waits_for_a_session_is_told_nothing_when_somebody_else_begins_it(
    service: Service, clock: VirtualClock
) -> None:
    reading = asyncio.create_task(service.feed(a_caller("bob"), "s-1", wait_seconds=20))
    await waiting(clock, 20)

    await Api(service, a_caller("ann")).post("/v1/sessions/s-1/inputs", {"text": "a secret"})

    with pytest.raises(NotFoundError):
        await reading
