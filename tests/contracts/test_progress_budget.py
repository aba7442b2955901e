"""The budget of a session's progress: the same on both adapter sets (spec EVT-06, field case F082)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure.aws.limits import MAX_PROGRESS_BYTES, PROGRESS_SHARE_BYTES
from perdure.aws.live import ApiGatewayLive
from perdure.aws.progress import ProgressLog
from perdure.aws.subscriptions import Subscriptions
from perdure.aws.table import Table
from perdure.core.decision import Decision
from perdure.core.entries import Entry
from perdure.core.head import Call, Head, Turn
from perdure.core.limits import MAX_CALLS_PER_RESPONSE
from perdure.embedded.live import MAX_SESSION_BYTES, EmbeddedLive
from perdure.ports import LiveChannel, LiveEvent, Loaded, SessionKey
from perdure.testing.clock import VirtualClock
from perdure.testing.moto import aws_in_process
from tests.contracts.dynamodb import a_store
from tests.unit.aws.builders import SteppingClock

KEY = SessionKey("acme", "s-1")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
BUDGET = 1000


def running(*numbers: int, version: int = 1) -> Head:
    """Return a head whose turn runs these calls."""
    calls = tuple(
        Call(call_id=f"call-1-{n}", tool_name="look", effect="read", status="approved", ready_at=NOON) for n in numbers
    )
    turn = Turn(turn_id="turn-1", opened_version=1, first_sequence=1, message_id="m-1", started_at=NOON, calls=calls)
    return Head(version=version, agent="support", turn=turn, created_at=NOON)


@dataclass
class Side:
    """One adapter set. `commit` makes a head the current one."""

    live: LiveChannel
    commit: Callable[[Head], Awaitable[None]]

    async def say(self, number: int, text: str, attempt: int = 1) -> None:
        event = LiveEvent(type="tool_progress", at=NOON, payload={"text": text})
        await self.live.publish(KEY, "turn-1", f"call-1-{number}", attempt, [event])

    async def shown(self, number: int) -> list[str]:
        events = await self.live.progress(KEY, f"call-1-{number}", 1)
        return [event.payload.get("text", event.type) for event in events]


def nobody_watches() -> Any:
    raise AssertionError("there is nobody to send to")


@contextmanager
def embedded() -> Iterator[Side]:
    live = EmbeddedLive(VirtualClock(), max_session_bytes=BUDGET)

    async def commit(head: Head) -> None:
        await live.changed(KEY, head)

    yield Side(live, commit)


@contextmanager
def on_aws() -> Iterator[Side]:
    with aws_in_process() as aws:
        clock, store, table = SteppingClock(), a_store(aws), Table(aws.clients.dynamodb, aws.table)
        progress = ProgressLog(table, clock, max_session_bytes=BUDGET, share_bytes=0)
        live = ApiGatewayLive(store, progress, Subscriptions(table, clock), nobody_watches, clock)

        async def commit(head: Head) -> None:
            before = (await store.load(KEY)).head
            entry = Entry(version=head.version, commit_id=f"c-{head.version}", at=NOON, kind="tool_finished")
            await store.commit(KEY, Loaded(head=before), Decision(head=head, entry=entry, reply={}))

        yield Side(live, commit)


@pytest.fixture(params=[embedded, on_aws], ids=["sqlite", "dynamodb"])
async def side(request: pytest.FixtureRequest) -> AsyncIterator[Side]:
    with request.param() as opened:
        yield opened


async def test_what_open_attempts_keep_is_bounded_and_a_gap_is_told(side: Side) -> None:
    await side.commit(running(0, 1))
    await side.say(0, "a" * 400)
    await side.say(1, "b" * 400)

    await side.say(1, "c" * 400)
    await side.say(0, "d" * 400)
    await side.say(1, "small, and still left out")

    assert await side.shown(0) == ["a" * 400, "progress.gap"]
    assert await side.shown(1) == ["b" * 400, "progress.gap"]
    assert MAX_PROGRESS_BYTES == MAX_SESSION_BYTES == 10 * 1024 * 1024
    assert PROGRESS_SHARE_BYTES * MAX_CALLS_PER_RESPONSE == MAX_PROGRESS_BYTES


async def test_one_attempt_alone_may_take_the_whole_budget_and_no_more(side: Side) -> None:
    await side.commit(running(0))
    for text in ("a", "b", "c"):
        await side.say(0, text * 400)

    assert await side.shown(0) == ["a" * 400, "b" * 400, "progress.gap"]


async def test_what_a_step_had_that_is_over_is_free_again(side: Side) -> None:
    await side.commit(running(0, 1))
    await side.say(0, "a" * 800)
    await side.commit(running(1, version=2))

    await side.say(1, "b" * 800)

    assert await side.shown(1) == ["b" * 800]
