"""The traces of weaker rules that reach the store (X1-X4, X10, X11)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.core.head import Head
from perdure.errors import StaleSessionError
from perdure.ports import Loaded
from perdure.testing.conformance.adapter import Adapter
from perdure.testing.conformance.builders import (
    A_SESSION,
    a_claim,
    a_message,
    a_session_with,
    a_tombstone,
    a_turn,
    answer,
    decided,
    deleted_before,
    entry_of,
    send,
)

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("later_commits", [0, 1, 5])
async def test_x1_a_key_admitted_and_settled_by_another_worker_is_found_after_the_conflict(
    adapter: Adapter, later_commits: int
) -> None:
    slow, fast, tidy = adapter.store, adapter.another_store(), adapter.another_store()
    key_hash = a_claim("m-1").key_hash
    before = await slow.load(A_SESSION, [key_hash])
    await send(fast, text="hello", idempotency_key="m-1")
    for _ in range(later_commits):
        await tidy.settle(A_SESSION)
        await send(tidy, text="later")
    await tidy.settle(A_SESSION)

    with pytest.raises(StaleSessionError):
        await slow.commit(A_SESSION, before, decided(before.head, a_message("hello", key="m-1")))

    after = await slow.load(A_SESSION, [key_hash])
    assert after.head.version == 1 + later_commits
    assert after.receipts[key_hash].content_hash == a_claim("m-1", "hello").content_hash


@pytest.mark.parametrize("later_commits", [0, 1, 5])
async def test_x2_a_commit_whose_answer_was_lost_counts_as_done_when_it_is_sent_again(
    adapter: Adapter, later_commits: int
) -> None:
    sender, tidy = adapter.store, adapter.another_store()
    loaded = await sender.load(A_SESSION)
    decision = decided(loaded.head, a_message("hello", key="m-1"))
    await sender.commit(A_SESSION, loaded, decision)  # and its answer never came
    for _ in range(later_commits):
        await tidy.settle(A_SESSION)
        await send(tidy, text="later")
    await tidy.settle(A_SESSION)

    await sender.commit(A_SESSION, loaded, decision)

    entry = entry_of(decision)
    log = await adapter.another_store().read(A_SESSION)
    assert await sender.find_commit(A_SESSION, entry.commit_id, [entry.version]) == entry
    assert [e.version for e in log.entries] == list(range(1, 2 + later_commits))
    assert [e.commit_id for e in log.entries].count(entry.commit_id) == 1


async def test_x2_a_command_decided_again_on_a_newer_head_finds_its_own_commit_first(adapter: Adapter) -> None:
    loaded = await adapter.store.load(A_SESSION)
    decision = decided(loaded.head, a_message("hello"))
    await adapter.store.commit(A_SESSION, loaded, decision)  # and its answer never came
    await a_turn_behind(adapter)

    found = await adapter.another_store().find_commit(A_SESSION, entry_of(decision).commit_id, [1])

    assert found == entry_of(decision)


async def a_turn_behind(adapter: Adapter) -> None:
    await answer(adapter.another_store())
    await adapter.another_store().settle(A_SESSION)
    await a_turn(adapter.another_store())
    await adapter.another_store().settle(A_SESSION)


async def test_x3_settling_beside_commits_of_other_workers_loses_no_entry(adapter: Adapter) -> None:
    stop = asyncio.Event()

    async def settle() -> None:
        store = adapter.another_store()
        while not stop.is_set():
            await store.settle(A_SESSION)
            await asyncio.sleep(0)

    async def write() -> None:
        for _ in range(6):
            await a_turn(adapter.store)
            await asyncio.sleep(0)
        stop.set()

    await asyncio.gather(write(), settle(), settle())

    log = await adapter.another_store().read(A_SESSION)
    assert [entry.version for entry in log.entries] == list(range(1, 25))


async def test_x4_a_reader_beside_writers_never_misses_an_entry(adapter: Adapter) -> None:
    done = asyncio.Event()
    seen: list[int] = []

    async def write() -> None:
        for _ in range(6):
            await a_turn(adapter.store)
            await adapter.store.settle(A_SESSION)
            await asyncio.sleep(0)  # a store in memory may never wait by itself
        done.set()

    async def read() -> None:
        store = adapter.another_store()
        while not done.is_set():
            log = await store.read(A_SESSION)
            assert [entry.version for entry in log.entries] == list(range(1, log.head.version + 1))
            newest = await store.read(A_SESSION, limit=3, newest=True)
            assert [e.version for e in newest.entries] == list(range(1, newest.head.version + 1))[-3:]
            seen.append(log.head.version)
            await asyncio.sleep(0)

    await asyncio.gather(write(), read(), read())

    assert seen
    assert (await adapter.another_store().read(A_SESSION)).head.version == 24


async def test_x10_a_worker_that_slept_does_not_bring_back_what_retention_deleted(adapter: Adapter) -> None:
    sleeper, others = adapter.store, adapter.another_store()
    await a_turn(sleeper)
    loaded = await sleeper.load(A_SESSION)
    late = decided(loaded.head, a_message("late"))
    await others.settle(A_SESSION)
    await a_session_with(others, 2)
    await deleted_before(others, A_SESSION, 5)
    await others.settle(A_SESSION)
    await a_turn(others)
    await adapter.erase(A_SESSION, 5, False)

    await sleeper.settle(A_SESSION)
    with pytest.raises(StaleSessionError):
        await sleeper.commit(A_SESSION, loaded, late)
    await sleeper.settle(A_SESSION)
    await send(sleeper)

    log = await adapter.another_store().read(A_SESSION)
    assert [entry.version for entry in log.entries] == list(range(5, log.head.version + 1))


async def test_x10_receipts_outlive_the_entries_that_retention_deleted(adapter: Adapter) -> None:
    await send(adapter.store, text="hello", idempotency_key="m-1")
    await answer(adapter.store)
    await a_session_with(adapter.store, 2)
    await deleted_before(adapter.store, A_SESSION, 5)
    await adapter.store.settle(A_SESSION)
    await a_turn(adapter.store)
    await adapter.erase(A_SESSION, 5, False)

    loaded = await adapter.another_store().load(A_SESSION, [a_claim("m-1").key_hash])

    assert loaded.receipts[a_claim("m-1").key_hash].content_hash == a_claim("m-1", "hello").content_hash


@pytest.mark.parametrize(
    ("wanted", "versions"),
    [
        ({}, [5, 6, 7, 8, 9]),
        ({"limit": 2}, [5, 6]),
        ({"first": 3, "limit": 3}, [5, 6, 7]),
        ({"limit": 2, "newest": True}, [8, 9]),
        ({"last": 4}, []),
    ],
    ids=str,
)
async def test_a_range_over_deleted_entries_holds_those_that_are_left(
    adapter: Adapter, wanted: dict[str, Any], versions: list[int]
) -> None:
    await a_session_with(adapter.store, 2)
    await deleted_before(adapter.store, A_SESSION, 5)
    await adapter.store.settle(A_SESSION)
    await adapter.erase(A_SESSION, 5, False)

    for store in (adapter.store, adapter.another_store()):
        assert [entry.version for entry in (await store.read(A_SESSION, **wanted)).entries] == versions


async def test_x11_a_worker_of_a_purged_life_can_not_write_into_the_next_one(adapter: Adapter) -> None:
    old_worker, others = adapter.store, adapter.another_store()
    await send(old_worker, text="old life", idempotency_key="m-1")
    loaded = await old_worker.load(A_SESSION)
    late = decided(loaded.head, a_message("late"))
    purged = await a_tombstone(others, A_SESSION)
    await adapter.erase(A_SESSION, purged.head.version, True)
    new_life = await send(others, text="new life")

    with pytest.raises(StaleSessionError):
        await old_worker.commit(A_SESSION, loaded, late)

    log = await adapter.another_store().read(A_SESSION)
    assert log.head == new_life.head
    assert [i.text for entry in log.entries for i in entry.inputs] == ["new life"]


async def test_x11_a_purged_session_reads_as_never_written_and_keeps_its_version(adapter: Adapter) -> None:
    await a_session_with(adapter.store, 2)
    purged = await a_tombstone(adapter.store, A_SESSION)
    await adapter.erase(A_SESSION, purged.head.version, True)

    loaded = await adapter.another_store().load(A_SESSION)

    assert not loaded.head.exists
    assert loaded.head.version == purged.head.version == 9
    assert loaded.head.message_sequence > 0
    with pytest.raises(StaleSessionError):
        await adapter.another_store().commit(A_SESSION, Loaded(head=Head()), decided(Head(), a_message("as if new")))
