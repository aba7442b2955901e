"""Large entries: where they go, measured in encoded bytes (field case F092), and that nothing half is left behind."""

from __future__ import annotations

import pytest

from perdure.aws.items import StoredEntry, byte_size, record_of, tail_text
from perdure.aws.limits import (
    MAX_BODY_ITEM_BYTES,
    MAX_INLINE_ENTRY_BYTES,
    MAX_ITEM_BYTES,
    MAX_OBJECT_BYTES,
    MAX_TAIL_BYTES,
)
from perdure.aws.store import DynamoDBSessionStore
from perdure.core.decision import Decision
from perdure.errors import ConfigurationError, ItemTooLargeError, StaleSessionError, StoreUnavailableError
from perdure.ports import Loaded
from perdure.testing.counting import item_size
from perdure.testing.moto import AwsInProcess
from tests.contracts.dynamodb import a_store
from tests.unit.aws.builders import KEY, CutBodies, a_decision, committed, texts


def a_decision_of(loaded: Loaded, size: int, letter: str = "x") -> Decision:
    """Return a decision whose encoded entry has exactly this many bytes."""
    entry = a_decision(loaded, "commit-big", "").entry
    assert entry is not None
    room = size - byte_size(StoredEntry.whole(entry).text)
    letters, rest = divmod(room, byte_size(letter))
    decision = a_decision(loaded, "commit-big", letter * letters + "x" * rest)
    assert decision.entry is not None
    assert byte_size(StoredEntry.whole(decision.entry).text) == size
    return decision


def sort_keys(aws: AwsInProcess) -> set[str]:
    items = aws.clients.dynamodb.scan(TableName=aws.table)["Items"]
    return {item["sk"]["S"].split("#")[0] for item in items}


def objects(aws: AwsInProcess) -> list[str]:
    return [row["Key"] for row in aws.clients.s3.list_objects_v2(Bucket=aws.bucket).get("Contents", [])]


@pytest.mark.parametrize("letter", ["x", "ü", "🌍"])
@pytest.mark.parametrize(
    ("size", "in_table", "in_bucket"),
    [
        (MAX_INLINE_ENTRY_BYTES, {"HEAD"}, 0),
        (MAX_INLINE_ENTRY_BYTES + 1, {"HEAD", "BODY"}, 0),
        (MAX_BODY_ITEM_BYTES, {"HEAD", "BODY"}, 0),
        (MAX_BODY_ITEM_BYTES + 1, {"HEAD"}, 1),
    ],
)
async def test_an_entry_goes_where_its_encoded_bytes_fit_and_reads_back_the_same(
    aws: AwsInProcess, size: int, in_table: set[str], in_bucket: int, letter: str
) -> None:
    store = a_store(aws)
    loaded = await store.load(KEY)
    decision = a_decision_of(loaded, size, letter)

    await store.commit(KEY, loaded, decision)

    assert sort_keys(aws) == in_table
    assert len(objects(aws)) == in_bucket
    assert (await a_store(aws).read(KEY)).entries == (decision.entry,)


async def test_a_large_entry_reads_back_after_it_has_left_the_tail(aws: AwsInProcess) -> None:
    store = a_store(aws)
    await committed(store, "commit-1", "ü" * 10_000)
    await committed(store, "commit-2", "ü" * 200_000)
    await store.settle(KEY)
    await committed(store, "commit-3")

    assert [len(text) for text in texts((await a_store(aws).read(KEY)).entries)] == [10_000, 200_000, 5]


@pytest.mark.parametrize(("cut", "whole"), [(2, True), (3, False)])
async def test_a_body_whose_reading_is_cut_is_asked_for_again(aws: AwsInProcess, cut: int, whole: bool) -> None:
    loaded = await a_store(aws).load(KEY)
    decision = a_decision_of(loaded, MAX_BODY_ITEM_BYTES + 1)
    await a_store(aws).commit(KEY, loaded, decision)
    answers = CutBodies(aws.clients.s3, times=cut)

    if whole:
        assert (await a_store(aws).read(KEY)).entries == (decision.entry,)
    else:
        with pytest.raises(StoreUnavailableError):
            await a_store(aws).read(KEY)
    assert answers.calls == 3


async def test_no_item_ever_comes_near_the_limit(aws: AwsInProcess) -> None:
    store = a_store(aws)
    for number, size in enumerate([3_900, 3_900, 3_900, MAX_BODY_ITEM_BYTES, 3_900]):
        loaded = await store.load(KEY)
        entry = a_decision_of(loaded, size, "🌍")
        await store.commit(KEY, loaded, entry)

        sizes = [item_size(item) for item in aws.clients.dynamodb.scan(TableName=aws.table)["Items"]]
        assert max(sizes) < MAX_ITEM_BYTES, number


@pytest.mark.parametrize(("over", "in_table"), [(0, {"HEAD"}), (1, {"HEAD", "LOG"})])
async def test_a_tail_that_would_grow_over_its_limit_is_settled_first(
    aws: AwsInProcess, over: int, in_table: set[str]
) -> None:
    store = a_store(aws)
    brackets_and_commas = len("[,,,,,]")
    for size in (*[3_000] * 5, MAX_TAIL_BYTES - 15_000 - brackets_and_commas + over):
        loaded = await store.load(KEY)
        await store.commit(KEY, loaded, a_decision_of(loaded, size))

    head = aws.clients.dynamodb.get_item(TableName=aws.table, Key={"pk": {"S": "acme#s-1"}, "sk": {"S": "HEAD"}})
    assert sort_keys(aws) == in_table
    assert len(tail_text(record_of(head["Item"]).tail)) <= MAX_TAIL_BYTES
    assert len((await a_store(aws).read(KEY)).entries) == 6


async def test_an_entry_that_fits_nowhere_is_refused_and_nothing_is_written(
    aws: AwsInProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.aws.bodies.MAX_OBJECT_BYTES", 400_000)  # not 64 MiB, to keep the test small
    store = a_store(aws)
    loaded = await store.load(KEY)

    with pytest.raises(ItemTooLargeError, match="adds 400001 bytes, of 400000"):
        await store.commit(KEY, loaded, a_decision_of(loaded, 400_001))
    nothing = (sort_keys(aws), objects(aws))
    await store.commit(KEY, loaded, a_decision_of(loaded, 400_000))

    assert nothing == (set(), [])
    assert len((await store.read(KEY)).entries) == 1
    assert MAX_OBJECT_BYTES == 64 * 1024 * 1024


async def test_a_body_that_can_not_be_written_leaves_the_session_as_it_was(aws: AwsInProcess) -> None:
    store = a_store(aws)
    await committed(store, "commit-1")
    aws.clients.s3.delete_bucket(Bucket=aws.bucket)

    with pytest.raises(ConfigurationError, match="NoSuchBucket"):
        await committed(store, "commit-2", "x" * 400_000)

    assert (await store.load(KEY)).head.version == 1


async def test_without_a_bucket_an_entry_that_needs_one_is_a_configuration_error(aws: AwsInProcess) -> None:
    store = DynamoDBSessionStore(aws.clients.dynamodb, aws.table)

    with pytest.raises(ConfigurationError, match="BUCKET_NAME"):
        await committed(store, "commit-1", "x" * 400_000)


@pytest.mark.parametrize("size", [10_000, 400_000])
async def test_a_command_that_lost_its_race_and_decides_again_points_at_its_new_body(
    aws: AwsInProcess, size: int
) -> None:
    store, other = a_store(aws), a_store(aws)
    loaded = await store.load(KEY)
    await committed(other, "commit-other")
    with pytest.raises(StaleSessionError):
        await store.commit(KEY, loaded, a_decision(loaded, "commit-1", "old " * size))

    await committed(store, "commit-1", "new " * size)

    entries = (await a_store(aws).read(KEY)).entries
    assert [entry.version for entry in entries] == [1, 2]
    assert texts(entries)[1] == "new " * size


@pytest.mark.parametrize("size", [10_000, 400_000])
async def test_a_commit_that_is_repeated_finds_its_body_there(aws: AwsInProcess, size: int) -> None:
    store = a_store(aws)
    loaded = await store.load(KEY)
    decision = a_decision(loaded, "commit-1", "x" * size)

    await store.commit(KEY, loaded, decision)
    await store.commit(KEY, loaded, decision)

    assert (await a_store(aws).read(KEY)).entries == (decision.entry,)


@pytest.mark.parametrize("size", [10_000, 400_000])
async def test_a_body_that_is_not_there_is_no_answer(aws: AwsInProcess, size: int) -> None:
    await committed(a_store(aws), "commit-1", "x" * size)
    for name in objects(aws):
        aws.clients.s3.delete_object(Bucket=aws.bucket, Key=name)
    for item in aws.clients.dynamodb.scan(TableName=aws.table)["Items"]:
        if item["sk"]["S"].startswith("BODY#"):
            aws.clients.dynamodb.delete_item(TableName=aws.table, Key={"pk": item["pk"], "sk": item["sk"]})

    with pytest.raises(StoreUnavailableError, match="is not there"):
        await a_store(aws).read(KEY)
