"""The live channel: who is told, what a lost viewer costs, and progress that expires."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from perdure.aws.limits import (
    MAX_FRAME_BYTES,
    MAX_PROGRESS_ITEM_BYTES,
    MAX_UNSENT_BATCHES,
    PROGRESS_TTL,
    SUBSCRIPTION_TTL,
)
from perdure.aws.live import POST_ATTEMPTS, ApiGatewayLive, frame_of
from perdure.aws.progress import ProgressLog
from perdure.aws.subscriptions import Subscriptions
from perdure.aws.table import Table
from perdure.core.head import ModelStep, Turn
from perdure.errors import StoreUnavailableError
from perdure.ports import PROGRESS_GAP, LiveEvent, SessionKey
from perdure.testing.moto import AwsInProcess
from tests.contracts.dynamodb import a_store
from tests.unit.aws.builders import KEY, NOON, LostAnswers, SteppingClock, a_head, calls_of, committed

STEP = "model-1-0"


class Connections:
    """The connections' management API, with what moto lacks: connections that are gone, and too many requests.

    Args:
        answers: Statuses that a connection answers with, one after the other; then 200.
    """

    def __init__(self, **answers: list[int]) -> None:
        self.frames: list[tuple[str, dict[str, Any]]] = []
        self.posts: Counter[str] = Counter()
        self._answers = answers

    def post_to_connection(self, *, ConnectionId: str, Data: bytes) -> None:  # noqa: N803 - boto3's names
        self.posts[ConnectionId] += 1
        left = self._answers.get(ConnectionId, [])
        status = left.pop(0) if left else 200
        if status == 0:
            raise ReadTimeoutError(endpoint_url="https://socket.example")
        if status != 200:
            code = {410: "GoneException", 429: "LimitExceededException"}.get(status, "InternalServerError")
            answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(answer, "PostToConnection")
        self.frames.append((ConnectionId, json.loads(Data)))

    @property
    def told(self) -> list[str]:
        return sorted(connection for connection, _ in self.frames)


@pytest.fixture
def subscriptions(table: Table, clock: SteppingClock) -> Subscriptions:
    return Subscriptions(table, clock)


@pytest.fixture
def progress(table: Table, clock: SteppingClock) -> ProgressLog:
    return ProgressLog(table, clock)


def a_live(
    aws: AwsInProcess, table: Table, clock: SteppingClock, connections: Connections | None = None
) -> ApiGatewayLive:
    told = connections or Connections()
    return ApiGatewayLive(a_store(aws), ProgressLog(table, clock), Subscriptions(table, clock), lambda: told, clock)


def deltas(*texts: str) -> list[LiveEvent]:
    return [LiveEvent(type="text_delta", at=NOON, payload={"text": text}) for text in texts]


# --- who is told -------------------------------------------------------------------------------------------------


async def test_every_viewer_is_told_the_session_and_its_version(
    aws: AwsInProcess, table: Table, clock: SteppingClock, subscriptions: Subscriptions
) -> None:
    connections = Connections()
    for name in ("c1", "c2"):
        await subscriptions.add(KEY, name)
    await subscriptions.add(SessionKey(tenant="other", session_id="s-1"), "c3")

    await a_live(aws, table, clock, connections).changed(KEY, a_head(7))

    frame = {"type": "changed", "session_id": "s-1", "version": 7}
    assert sorted(connections.frames, key=lambda sent: sent[0]) == [("c1", frame), ("c2", frame)]


async def test_x13_subscriptions_are_read_strongly_and_only_when_the_change_is_told(
    aws: AwsInProcess, table: Table, clock: SteppingClock, subscriptions: Subscriptions
) -> None:
    connections = Connections()
    live = a_live(aws, table, clock, connections)
    asked: list[bool] = []
    calls_of(aws.clients.dynamodb, "Query", lambda params: asked.append(params["ConsistentRead"]))
    await live.changed(KEY, a_head(1))

    await subscriptions.add(KEY, "came-after-the-first-commit")
    await live.changed(KEY, a_head(2))

    assert asked == [True, True]
    assert [(name, frame["version"]) for name, frame in connections.frames] == [("came-after-the-first-commit", 2)]


async def test_a_gone_connection_is_forgotten_and_one_that_is_busy_is_told_later(
    aws: AwsInProcess, table: Table, clock: SteppingClock, subscriptions: Subscriptions
) -> None:
    connections = Connections(c2=[410], c3=[429])
    live = a_live(aws, table, clock, connections)
    for name in ("c1", "c2", "c3"):
        await subscriptions.add(KEY, name)

    await live.changed(KEY, a_head(1))
    await live.changed(KEY, a_head(2))

    assert connections.told == ["c1", "c1", "c3", "c3"]
    assert connections.posts == {"c1": 2, "c2": 1, "c3": 3}
    assert [left.connection_id for left in await subscriptions.of_session(KEY, strong=True)] == ["c1", "c3"]


async def test_a_connection_that_stays_busy_is_given_up_after_a_few_posts(
    aws: AwsInProcess, table: Table, clock: SteppingClock, subscriptions: Subscriptions
) -> None:
    connections = Connections(c1=[429] * 100)
    await subscriptions.add(KEY, "c1")

    await a_live(aws, table, clock, connections).changed(KEY, a_head(1))

    assert connections.posts == {"c1": POST_ATTEMPTS}
    assert len(await subscriptions.of_session(KEY, strong=True)) == 1


@pytest.mark.parametrize("status", [0, 403, 500])
async def test_no_trouble_with_a_viewer_reaches_the_step(
    aws: AwsInProcess, table: Table, clock: SteppingClock, subscriptions: Subscriptions, status: int
) -> None:
    connections = Connections(c1=[status])
    for name in ("c1", "c2"):
        await subscriptions.add(KEY, name)

    await a_live(aws, table, clock, connections).changed(KEY, a_head(1))

    assert connections.told == ["c2"]


async def test_a_table_that_keeps_silent_does_not_reach_the_step(
    aws: AwsInProcess, table: Table, clock: SteppingClock
) -> None:
    live = a_live(aws, table, clock)
    LostAnswers(aws.clients.dynamodb, "Query", silently=False, times=2)
    LostAnswers(aws.clients.dynamodb, "PutItem", silently=False)

    await live.changed(KEY, a_head(1))
    await live.publish(KEY, "turn-1", STEP, 1, deltas("a"))

    assert len(await live.progress(KEY, STEP, 1)) == 1  # the answer was lost, the write was not


async def test_a_gone_connection_does_not_take_a_newer_subscription_with_it(
    subscriptions: Subscriptions, clock: SteppingClock
) -> None:
    await subscriptions.add(KEY, "c1")
    (old,) = await subscriptions.of_session(KEY, strong=True)
    clock.advance(timedelta(seconds=1))
    await subscriptions.add(KEY, "c1")

    await subscriptions.forget(KEY, old)

    assert len(await subscriptions.of_session(KEY, strong=True)) == 1


async def test_a_subscription_ends_with_its_token_or_after_three_hours(
    subscriptions: Subscriptions, clock: SteppingClock
) -> None:
    await subscriptions.add(KEY, "c1", until=NOON + timedelta(minutes=5))
    await subscriptions.add(KEY, "c2", until=NOON + timedelta(days=1))
    counts = []

    for moment in (timedelta(minutes=5) - timedelta(seconds=1), timedelta(minutes=5), SUBSCRIPTION_TTL):
        clock.advance(NOON + moment - clock.now())
        counts.append(len(await subscriptions.of_session(KEY, strong=True)))

    assert counts == [2, 1, 0]


async def test_a_closed_connection_takes_all_its_subscriptions_with_it(
    aws: AwsInProcess, subscriptions: Subscriptions
) -> None:
    other = SessionKey(tenant="acme", session_id="s-2")
    for key in (KEY, other):
        await subscriptions.add(key, "c1")
    await subscriptions.add(KEY, "c2")
    await subscriptions.remove(KEY, "c2")

    await subscriptions.drop_connection("c1")

    assert aws.clients.dynamodb.scan(TableName=aws.table)["Items"] == []


def test_a_frame_is_measured_in_bytes() -> None:
    room = MAX_FRAME_BYTES - len(frame_of({"type": ""}))

    assert len(frame_of({"type": "x" * room})) == MAX_FRAME_BYTES
    with pytest.raises(ValueError, match="32769 bytes"):
        frame_of({"type": "x" * (room + 1)})
    with pytest.raises(ValueError, match="is over"):
        frame_of({"type": "\x00" * 6_000})


# --- progress ----------------------------------------------------------------------------------------------------


async def test_progress_is_read_from_any_place_in_order(progress: ProgressLog) -> None:
    await progress.append(KEY, STEP, 1, deltas("a", "b", "c"))
    await progress.append(KEY, STEP, 1, deltas("d"))
    await progress.append(KEY, STEP, 1, deltas("e", "f"))
    await progress.append(KEY, STEP, 2, deltas("other attempt"))

    read = [await progress.read(KEY, STEP, 1, after) for after in range(7)]

    assert ["".join(event.payload["text"] for event in events) for events in read] == [
        *("abcdef", "bcdef", "cdef", "def", "ef", "f", ""),
    ]
    assert await progress.count(KEY, STEP, 1) == 6
    assert await progress.count(KEY, "model-9-0", 1) == 0


async def test_progress_past_its_ttl_counts_as_absent_though_it_is_still_there(
    progress: ProgressLog, clock: SteppingClock
) -> None:
    await progress.append(KEY, STEP, 1, deltas("a"))
    clock.advance(PROGRESS_TTL)

    assert await progress.read(KEY, STEP, 1, 0) == []
    assert await progress.count(KEY, STEP, 1) == 0


async def test_a_batch_larger_than_an_item_becomes_several(aws: AwsInProcess, progress: ProgressLog) -> None:
    third = "ü" * (MAX_PROGRESS_ITEM_BYTES // 6)

    await progress.append(KEY, STEP, 1, deltas(third, third, third, "end"))

    items = aws.clients.dynamodb.scan(TableName=aws.table)["Items"]
    assert len(items) == 2
    assert all(len(item["events"]["S"].encode()) <= MAX_PROGRESS_ITEM_BYTES for item in items)
    assert [event.payload["text"] for event in await progress.read(KEY, STEP, 1, 0)] == [third, third, third, "end"]


async def test_progress_that_could_not_be_written_is_written_with_the_next(
    aws: AwsInProcess, clock: SteppingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = ProgressLog(Table(aws.clients.dynamodb, aws.table), clock)
    failing: list[str] = []
    put = Table.put

    async def sometimes(self: Table, item: Any) -> None:
        if failing and failing.pop() == "landed":
            await put(self, item)
            raise StoreUnavailableError("no answer came")
        await put(self, item)

    monkeypatch.setattr(Table, "put", sometimes)
    await progress.append(KEY, STEP, 1, deltas("a"))
    failing.append("landed")
    await progress.append(KEY, STEP, 1, deltas("b", "c"))
    await progress.append(KEY, STEP, 1, deltas("d"))

    assert [event.payload["text"] for event in await progress.read(KEY, STEP, 1, 0)] == ["a", "b", "c", "d"]


async def test_progress_that_can_not_be_written_for_long_ends_with_a_gap(
    progress: ProgressLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Table.put

    async def never(_: Table, __: Any) -> None:
        raise StoreUnavailableError("no answer came")

    monkeypatch.setattr(Table, "put", never)
    for number in range(MAX_UNSENT_BATCHES + 2):
        await progress.append(KEY, STEP, 1, deltas(str(number)))
    monkeypatch.setattr(Table, "put", put)
    await progress.append(KEY, STEP, 1, deltas("late"))

    kept = await progress.read(KEY, STEP, 1, 0)
    assert [event.payload.get("text") for event in kept[:-1]] == [str(n) for n in range(MAX_UNSENT_BATCHES)]
    assert kept[-1].type == PROGRESS_GAP


# --- waiting -----------------------------------------------------------------------------------------------------


async def test_a_wait_ends_with_its_time_when_nothing_happens(
    aws: AwsInProcess, table: Table, clock: SteppingClock
) -> None:
    await committed(a_store(aws), "commit-1")

    await a_live(aws, table, clock).wait(KEY, version=1, seen=0, timeout_seconds=3.2)

    assert clock.now() == NOON + timedelta(seconds=3.2)


async def test_a_wait_ends_with_the_next_commit(aws: AwsInProcess, table: Table, clock: SteppingClock) -> None:
    await committed(a_store(aws), "commit-1")

    await a_live(aws, table, clock).wait(KEY, version=0, seen=0, timeout_seconds=20)

    assert clock.now() == NOON


async def test_a_wait_ends_with_progress_of_an_open_step(
    aws: AwsInProcess, table: Table, clock: SteppingClock, progress: ProgressLog
) -> None:
    step = ModelStep(step_id=STEP, attempt=2, ready_at=NOON, first_attempt_at=NOON)
    turn = Turn(turn_id="turn-1", opened_version=1, first_sequence=1, message_id="m", started_at=NOON, step=step)
    await committed(a_store(aws), "commit-1", turn=turn)
    await progress.append(KEY, STEP, 2, deltas("a", "b"))
    live = a_live(aws, table, clock)

    await live.wait(KEY, version=1, seen=1, timeout_seconds=20)
    assert clock.now() == NOON
    await live.wait(KEY, version=1, seen=2, timeout_seconds=20)
    assert clock.now() == NOON + timedelta(seconds=20)
