"""Entries that come along with a load, so that a step on a warm container reads nothing more."""

from __future__ import annotations

from perdure.testing.counting import AwsCounter
from perdure.testing.moto import aws_in_process
from tests.contracts.dynamodb import a_store
from tests.unit.aws.builders import KEY, committed


async def test_a_load_brings_the_entries_that_are_in_the_tail() -> None:
    with aws_in_process() as aws:
        store = a_store(aws)
        decisions = [await committed(store, f"c-{number}") for number in range(3)]

        loaded = await a_store(aws).load(KEY)

        assert loaded.recent == tuple(decision.entry for decision in decisions)


async def test_entries_that_left_the_tail_come_from_a_warm_containers_memory() -> None:
    with aws_in_process() as aws:
        store = a_store(aws)
        first = await committed(store, "c-1")
        await store.load(KEY)
        await store.settle(KEY)
        second = await committed(store, "c-2")

        warm, cold = await store.load(KEY), await a_store(aws).load(KEY)

        assert warm.recent == (first.entry, second.entry)
        assert cold.recent == (second.entry,)


async def test_an_entry_whose_body_is_elsewhere_ends_what_comes_along() -> None:
    with aws_in_process() as aws:
        store = a_store(aws)
        await committed(store, "c-1", "x" * 10_000)
        second = await committed(store, "c-2")

        assert (await a_store(aws).load(KEY)).recent == (second.entry,)


async def test_a_load_costs_one_call_with_or_without_them() -> None:
    with aws_in_process() as aws:
        store = a_store(aws)
        await committed(store, "c-1")
        counter = AwsCounter()
        counter.attach(aws.clients.dynamodb)

        await store.load(KEY)

        assert counter.take().calls == {"dynamodb.GetItem": 1}
