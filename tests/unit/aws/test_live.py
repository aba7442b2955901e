"""The live channel: progress that expires, and waiting. Who is sent what is in `test_delivery.py`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.aws.limits import (
    MAX_PROGRESS_ITEM_BYTES,
    MAX_UNSENT_BATCHES,
    PROGRESS_TTL,
)
from perdure.aws.live import ApiGatewayLive
from perdure.aws.progress import ProgressLog
from perdure.aws.subscriptions import Subscriptions
from perdure.aws.table import Table
from perdure.core.head import ModelStep, Turn
from perdure.errors import StoreUnavailableError
from perdure.ports import PROGRESS_GAP, LiveEvent
from perdure.testing.moto import AwsInProcess
from tests.contracts.dynamodb import a_store
from tests.unit.aws.builders import KEY, NOON, LostAnswers, SteppingClock, a_head, committed

STEP = "model-1-0"


@pytest.fixture
def progress(table: Table, clock: SteppingClock) -> ProgressLog:
    return ProgressLog(table, clock)


def a_live(aws: AwsInProcess, table: Table, clock: SteppingClock) -> ApiGatewayLive:
    def nobody() -> Any:
        raise AssertionError("nobody watches")

    return ApiGatewayLive(a_store(aws), ProgressLog(table, clock), Subscriptions(table, clock), nobody, clock)


def deltas(*texts: str) -> list[LiveEvent]:
    return [LiveEvent(type="text_delta", at=NOON, payload={"text": text}) for text in texts]


async def test_a_table_that_keeps_silent_does_not_reach_the_step(
    aws: AwsInProcess, table: Table, clock: SteppingClock
) -> None:
    live = a_live(aws, table, clock)
    LostAnswers(aws.clients.dynamodb, "Query", silently=False, times=2)
    LostAnswers(aws.clients.dynamodb, "PutItem", silently=False)

    await live.changed(KEY, a_head(1))
    await live.publish(KEY, "turn-1", STEP, 1, deltas("a"))

    assert len(await live.progress(KEY, STEP, 1)) == 1  # the answer was lost, the write was not


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
