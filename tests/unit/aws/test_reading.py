"""Reading: what is read how often, and how a hole in what was read closes."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.aws.cache import EntryCache
from perdure.errors import StoreUnavailableError
from perdure.testing.counting import AwsCounter
from perdure.testing.moto import AwsInProcess
from tests.contracts.dynamodb import a_store
from tests.unit.aws.builders import KEY, NOON, a_decision, calls_of, committed, texts


async def a_settled_session(aws: AwsInProcess, entries: int) -> None:
    store = a_store(aws)
    for number in range(entries):
        await committed(store, f"commit-{number}", f"text {number}")
        await store.settle(KEY)


async def test_a_container_reads_history_once(aws: AwsInProcess) -> None:
    await a_settled_session(aws, 20)
    store, counter = a_store(aws), AwsCounter()
    await store.read(KEY)
    counter.attach(aws.clients.dynamodb)

    again = await store.read(KEY)
    reread = counter.take()
    await committed(store, "commit-20", "text 20")
    counter.take()
    newer = await store.read(KEY)

    assert len(again.entries) == 20
    assert dict(reread.calls) == {"dynamodb.GetItem": 1}
    assert texts(newer.entries) == [f"text {number}" for number in range(21)]
    assert dict(counter.take().calls) == {"dynamodb.GetItem": 1}


async def test_a_container_with_a_tiny_cache_reads_the_same(aws: AwsInProcess) -> None:
    await a_settled_session(aws, 6)
    store = a_store(aws)
    store._log._cache = EntryCache(capacity_bytes=1000)

    reads = [texts((await store.read(KEY)).entries) for _ in range(3)]

    assert reads == [[f"text {number}" for number in range(6)]] * 3


async def test_x4_a_hole_in_an_eventually_consistent_read_is_read_again_strongly(aws: AwsInProcess) -> None:
    await a_settled_session(aws, 3)
    store = a_store(aws)
    await committed(store, "commit-3", "text 3")
    asked: list[bool] = []
    calls_of(aws.clients.dynamodb, "Query", lambda params: asked.append(params["ConsistentRead"]))
    hidden = {"LOG#000000000002"}

    def hide_until_strong(parsed: dict[str, Any], **_: Any) -> None:
        if not asked[-1]:
            parsed["Items"] = [item for item in parsed["Items"] if item["sk"]["S"] not in hidden]

    aws.clients.dynamodb.meta.events.register("after-call.dynamodb.Query", hide_until_strong)

    log = await a_store(aws).read(KEY)

    assert texts(log.entries) == [f"text {number}" for number in range(4)]
    assert asked == [False, True]


async def test_a_reader_is_never_behind_what_its_container_has_committed(aws: AwsInProcess) -> None:
    store = a_store(aws)
    await committed(store, "commit-1")
    old = aws.clients.dynamodb.get_item(TableName=aws.table, Key={"pk": {"S": "acme#s-1"}, "sk": {"S": "HEAD"}})
    await committed(store, "commit-2")
    asked: list[bool] = []
    calls_of(aws.clients.dynamodb, "GetItem", lambda params: asked.append(params["ConsistentRead"]))

    def answer_with_the_old_head(parsed: dict[str, Any], **_: Any) -> None:
        if not asked[-1]:
            parsed["Item"] = old["Item"]

    aws.clients.dynamodb.meta.events.register("after-call.dynamodb.GetItem", answer_with_the_old_head)

    log = await store.read(KEY)
    elsewhere = await a_store(aws).read(KEY, last=2)

    assert log.head.version == 2
    assert [entry.version for entry in elsewhere.entries] == [1, 2]


async def test_a_hole_that_does_not_close_is_an_error_and_never_a_shorter_log(aws: AwsInProcess) -> None:
    await a_settled_session(aws, 3)
    await committed(a_store(aws), "commit-3")
    name = {"pk": {"S": "acme#s-1"}, "sk": {"S": "LOG#000000000002"}}
    aws.clients.dynamodb.delete_item(TableName=aws.table, Key=name)

    with pytest.raises(StoreUnavailableError, match="versions 2 to 2"):
        await a_store(aws).read(KEY)


async def test_entries_that_retention_deleted_are_left_out_and_those_that_head_points_at_are_read(
    aws: AwsInProcess,
) -> None:
    await a_settled_session(aws, 4)
    store = a_store(aws)
    await committed(store, "retention", "text 4", deleted_before=4)
    await store.settle(KEY)
    for version in (1, 3):
        name = {"pk": {"S": "acme#s-1"}, "sk": {"S": f"LOG#{version:012d}"}}
        aws.clients.dynamodb.delete_item(TableName=aws.table, Key=name)

    everything = await a_store(aws).read(KEY)
    pointed_at = await a_store(aws).read(KEY, first=2, last=2)

    assert [entry.version for entry in everything.entries] == [4, 5]
    assert [entry.version for entry in pointed_at.entries] == [2]


async def test_a_head_read_for_viewers_is_eventually_consistent_and_one_for_decisions_is_not(
    aws: AwsInProcess,
) -> None:
    store = a_store(aws)
    await committed(store, "commit-1")
    asked: list[bool] = []
    calls_of(aws.clients.dynamodb, "GetItem", lambda params: asked.append(params["ConsistentRead"]))

    await store.peek(KEY)
    await store.load(KEY)
    await store.load(KEY, ["k" * 64])

    assert asked == [False, True, True, True]


async def test_a_postponed_session_that_awaits_only_a_person_stays_out_of_the_sweep(aws: AwsInProcess) -> None:
    store = a_store(aws)
    loaded = await store.load(KEY)
    await store.commit(KEY, loaded, a_decision(loaded, "commit-1"))

    await store.postpone(KEY, 1, NOON)

    assert list(await store.sessions_due(NOON)) == []
