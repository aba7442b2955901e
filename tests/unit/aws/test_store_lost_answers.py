"""Answers that get lost between us and DynamoDB: a commit is made once, an entry is never lost (races X2, X3)."""

from __future__ import annotations

import pytest

from perdure.aws.items import record_of
from perdure.aws.store import DynamoDBSessionStore
from perdure.core.entries import Receipt
from perdure.errors import StaleSessionError, StoreUnavailableError
from perdure.testing.moto import AwsInProcess
from tests.contracts.dynamodb import a_store
from tests.unit.aws.builders import KEY, LostAnswers, a_decision, committed, texts


async def versions_of(store: DynamoDBSessionStore) -> list[int]:
    return [entry.version for entry in (await store.read(KEY)).entries]


async def test_a_commit_that_the_sdk_repeats_after_a_lost_answer_is_made_once(aws: AwsInProcess) -> None:
    store = a_store(aws)
    lost = LostAnswers(aws.clients.dynamodb, "UpdateItem", silently=True)

    await committed(store, "commit-1")

    assert lost.calls == 2
    assert await versions_of(a_store(aws)) == [1]


async def test_x2_a_repeated_commit_is_recognised_after_its_entry_has_left_the_tail(aws: AwsInProcess) -> None:
    store, other = a_store(aws), a_store(aws)
    loaded = await store.load(KEY)
    decision = a_decision(loaded, "commit-1")
    await store.commit(KEY, loaded, decision)
    await other.load(KEY)
    await other.settle(KEY)
    await committed(other, "commit-2")
    await other.settle(KEY)
    await committed(other, "commit-3")

    await store.commit(KEY, loaded, decision)

    assert await versions_of(a_store(aws)) == [1, 2, 3]


async def test_x2_a_commit_that_another_beat_is_no_success_even_if_the_same_command_landed_elsewhere(
    aws: AwsInProcess,
) -> None:
    store, other = a_store(aws), a_store(aws)
    loaded = await store.load(KEY)
    await committed(other, "commit-other")
    await committed(other, "commit-1")

    with pytest.raises(StaleSessionError, match="version 0 but at 2"):
        await store.commit(KEY, loaded, a_decision(loaded, "commit-1"))

    found = await store.find_commit(KEY, "commit-1", [1, 2])
    assert found is not None
    assert found.version == 2


async def test_a_commit_whose_answer_never_comes_is_unknown_and_can_be_found(aws: AwsInProcess) -> None:
    store = a_store(aws)
    loaded = await store.load(KEY)
    LostAnswers(aws.clients.dynamodb, "UpdateItem", silently=False)

    with pytest.raises(StoreUnavailableError):
        await store.commit(KEY, loaded, a_decision(loaded, "commit-1"))

    found = await store.find_commit(KEY, "commit-1", [1])
    assert found is not None
    assert texts((found,)) == ["hello"]


async def test_x3_an_entry_whose_put_was_not_acknowledged_stays_in_the_tail(aws: AwsInProcess) -> None:
    store = a_store(aws)
    await committed(store, "commit-1")
    await committed(store, "commit-2")
    puts = LostAnswers(aws.clients.dynamodb, "PutItem", silently=False)

    with pytest.raises(StoreUnavailableError):
        await store.settle(KEY)
    await committed(store, "commit-3")

    assert puts.calls == 2
    item = aws.clients.dynamodb.get_item(TableName=aws.table, Key={"pk": {"S": "acme#s-1"}, "sk": {"S": "HEAD"}})
    still_there = {stored.version for stored in record_of(item["Item"]).tail} & {1, 2}
    assert len(still_there) == 1


async def test_x3_an_entry_leaves_the_tail_only_when_its_receipt_was_acknowledged_too(aws: AwsInProcess) -> None:
    store = a_store(aws)
    receipt = Receipt(key_hash="k" * 64, content_hash="c" * 64, reply={"message_id": "m"})
    await committed(store, "commit-1", receipts=(receipt,))
    aws.clients.dynamodb.meta.events.register("provide-client-params.dynamodb.PutItem", refuse_receipts)

    with pytest.raises(ConnectionError):
        await store.settle(KEY)
    await committed(store, "commit-2")

    loaded = await a_store(aws).load(KEY, [receipt.key_hash])
    assert loaded.receipts == {receipt.key_hash: receipt}


def refuse_receipts(params: dict, **_: object) -> None:
    if params["Item"]["sk"]["S"].startswith("KEY#"):
        raise ConnectionError


async def test_x3_a_process_drops_nothing_that_another_process_put(aws: AwsInProcess) -> None:
    store, other = a_store(aws), a_store(aws)
    await committed(store, "commit-1")
    await store.settle(KEY)

    await committed(other, "commit-2")

    item = aws.clients.dynamodb.get_item(TableName=aws.table, Key={"pk": {"S": "acme#s-1"}, "sk": {"S": "HEAD"}})
    assert "commit-1" in {stored.commit_id for stored in record_of(item["Item"]).tail}


async def test_x10_a_late_put_of_a_process_that_slept_changes_no_entry(aws: AwsInProcess) -> None:
    store, sleeper = a_store(aws), a_store(aws)
    await committed(store, "commit-1")
    await sleeper.load(KEY)
    await store.settle(KEY)
    await committed(store, "commit-2")
    name = {"pk": {"S": "acme#s-1"}, "sk": {"S": "LOG#000000000001"}}
    before = aws.clients.dynamodb.get_item(TableName=aws.table, Key=name)["Item"]
    aws.clients.dynamodb.put_item(TableName=aws.table, Item=before | {"mark": {"S": "first"}})

    await sleeper.settle(KEY)

    after = aws.clients.dynamodb.get_item(TableName=aws.table, Key=name)["Item"]
    assert after["mark"] == {"S": "first"}


async def test_x11_a_receipt_that_an_old_life_puts_after_the_purge_is_not_ours(aws: AwsInProcess) -> None:
    store, sleeper = a_store(aws), a_store(aws)
    old = Receipt(key_hash="k" * 64, content_hash="c" * 64, reply={"message_id": "old"})
    new = Receipt(key_hash="k" * 64, content_hash="c" * 64, reply={"message_id": "new"})
    await committed(store, "commit-1", receipts=(old,))
    await sleeper.load(KEY)
    await committed(store, "purge", agent=None, owner=None, deleted_before=2)
    await committed(store, "commit-3")

    await sleeper.settle(KEY)
    assert (await store.load(KEY, ["k" * 64])).receipts == {}
    await committed(store, "commit-4", receipts=(new,))
    await store.settle(KEY)
    await committed(store, "commit-5")

    assert (await a_store(aws).load(KEY, ["k" * 64])).receipts == {"k" * 64: new}
    assert await versions_of(a_store(aws)) == [3, 4, 5]
