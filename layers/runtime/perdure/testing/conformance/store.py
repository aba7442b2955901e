"""What `SessionStore` promises of commits, logs and receipts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.core.decide import decide
from perdure.core.entries import Entry
from perdure.core.head import Head
from perdure.errors import StaleSessionError
from perdure.ports import SessionKey, SessionStore
from perdure.testing.conformance.adapter import Adapter
from perdure.testing.conformance.builders import (
    A_SESSION,
    NOON,
    a_claim,
    a_commit_id,
    a_message,
    a_request_for,
    a_session_with,
    a_start,
    a_turn,
    an_answer,
    answer,
    commit,
    decided,
    entry_of,
    send,
)

pytestmark = pytest.mark.asyncio


async def test_a_session_that_was_never_written_loads_as_an_empty_head(store: SessionStore) -> None:
    loaded = await store.load(A_SESSION, ["0" * 64])

    assert loaded.head == Head()
    assert loaded.receipts == {}
    assert await store.peek(A_SESSION) == Head()


async def test_reading_a_session_that_was_never_written_finds_no_entries_and_makes_none(store: SessionStore) -> None:
    log = await store.read(A_SESSION)

    assert (log.head, log.entries) == (Head(), ())
    await send(store)
    assert [entry.version for entry in (await store.read(A_SESSION)).entries] == [1]


async def test_a_commit_stores_head_and_entry_as_they_were_decided(adapter: Adapter) -> None:
    decision = await send(adapter.store, text="Where is my order?", idempotency_key="k")

    other = adapter.another_store()
    assert (await other.load(A_SESSION)).head == decision.head
    assert await other.peek(A_SESSION) == decision.head
    assert (await other.read(A_SESSION)).entries == (entry_of(decision),)


async def test_a_commit_returns_the_session_that_the_next_one_is_decided_on(adapter: Adapter) -> None:
    loaded = await adapter.store.load(A_SESSION)
    asked = decided(loaded.head, a_message())

    made = await adapter.store.commit(A_SESSION, loaded, asked)
    answered = decided(made.head, an_answer(made.head))
    made_next = await adapter.store.commit(A_SESSION, made, answered)

    assert (made.head, made_next.head) == (asked.head, answered.head)
    assert (await adapter.another_store().read(A_SESSION)).entries == (entry_of(asked), entry_of(answered))


async def test_a_whole_turn_reads_back_as_it_was_committed(adapter: Adapter) -> None:
    decisions = await a_turn(adapter.store)

    log = await adapter.another_store().read(A_SESSION)
    assert log.head == decisions[-1].head
    assert log.entries == tuple(entry_of(decision) for decision in decisions)


async def test_of_two_commits_on_one_version_the_second_is_stale(store: SessionStore) -> None:
    loaded = await store.load(A_SESSION)
    first = decided(loaded.head, a_message("first"))
    await store.commit(A_SESSION, loaded, first)

    with pytest.raises(StaleSessionError):
        await store.commit(A_SESSION, loaded, decided(loaded.head, a_message("second")))

    assert (await store.read(A_SESSION)).entries == (entry_of(first),)


async def test_a_stale_commit_writes_nothing(adapter: Adapter) -> None:
    store = adapter.store
    await send(store)
    loaded = await store.load(A_SESSION)
    winner = await answer(store)
    loser = decided(loaded.head, a_message("too late", key="late"))

    with pytest.raises(StaleSessionError):
        await store.commit(A_SESSION, loaded, loser)

    await store.settle(A_SESSION)
    other = adapter.another_store()
    reloaded = await other.load(A_SESSION, [a_claim("late").key_hash])
    log = await other.read(A_SESSION)
    assert reloaded.head == winner.head
    assert reloaded.receipts == {}
    assert log.head == winner.head
    assert log.entries[1:] == (entry_of(winner),)
    assert await other.find_commit(A_SESSION, entry_of(loser).commit_id, [entry_of(loser).version]) is None


async def test_a_commit_on_a_session_that_was_never_written_is_stale_once_it_was(store: SessionStore) -> None:
    never_written = await store.load(A_SESSION)
    await a_session_with(store, 2)

    with pytest.raises(StaleSessionError):
        await store.commit(A_SESSION, never_written, decided(Head(), a_message()))

    assert (await store.load(A_SESSION)).head.version == 8


async def test_of_twenty_writers_exactly_one_wins_each_version(adapter: Adapter) -> None:
    won: list[Entry] = []

    async def write(name: int) -> None:
        store = adapter.another_store()
        while True:
            loaded = await store.load(A_SESSION)
            decision = decided(loaded.head, a_message(f"from {name}"))
            try:
                await store.commit(A_SESSION, loaded, decision)
            except StaleSessionError:
                continue
            won.append(entry_of(decision))
            return

    await asyncio.gather(*(write(name) for name in range(20)))

    log = await adapter.another_store().read(A_SESSION)
    assert [entry.version for entry in log.entries] == list(range(1, 21))
    assert sorted(won, key=lambda entry: entry.version) == list(log.entries)


async def test_sessions_of_one_id_in_two_tenants_know_nothing_of_each_other(store: SessionStore) -> None:
    theirs = SessionKey("other", A_SESSION.session_id)
    await send(store, A_SESSION, "mine", idempotency_key="m-1")

    assert (await store.load(theirs, [a_claim("m-1").key_hash])).receipts == {}
    assert (await store.load(theirs)).head == Head()
    assert (await store.read(theirs)).entries == ()
    await send(store, theirs, "theirs", idempotency_key="m-1")
    assert (await store.read(A_SESSION)).entries[0].inputs[0].text == "mine"
    assert (await store.read(theirs)).entries[0].inputs[0].text == "theirs"


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (("a", "b"), ("a#b", "c")),
        (("a", "b:c"), ("a:b", "c")),
        (("A", "s"), ("a", "s")),
        (("é", "s"), ("e\u0301", "s")),
    ],
)
async def test_keys_that_look_alike_are_different_sessions(
    store: SessionStore, mine: tuple[str, str], theirs: tuple[str, str]
) -> None:
    await send(store, SessionKey(*mine))

    assert (await store.load(SessionKey(*theirs))).head == Head()


# --- ranges ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "versions"),
    [
        ({}, range(1, 13)),
        ({"first": 5}, range(5, 13)),
        ({"last": 3}, range(1, 4)),
        ({"first": 4, "last": 4}, range(4, 5)),
        ({"first": 12}, range(12, 13)),
        ({"first": 13}, ()),
        ({"first": 7, "last": 6}, ()),
        ({"last": 0}, ()),
        ({"last": 99}, range(1, 13)),
        ({"limit": 5}, range(1, 6)),
        ({"limit": 5, "newest": True}, range(8, 13)),
        ({"first": 3, "limit": 2}, range(3, 5)),
        ({"last": 9, "limit": 2, "newest": True}, range(8, 10)),
        ({"first": 11, "limit": 50, "newest": True}, range(11, 13)),
        ({"first": 2, "last": 4, "limit": 3}, range(2, 5)),
    ],
    ids=str,
)
async def test_a_range_is_read_oldest_first_and_without_gaps(
    adapter: Adapter, wanted: dict[str, Any], versions: range
) -> None:
    entries = await a_session_with(adapter.store, 3)

    for store in (adapter.store, adapter.another_store()):
        log = await store.read(A_SESSION, **wanted)
        assert [entry.version for entry in log.entries] == list(versions)
        assert log.entries == tuple(entries[version - 1] for version in versions)
        assert log.head.version == 12


async def test_a_long_log_reads_whole_and_in_pieces(adapter: Adapter) -> None:
    entries = await a_session_with(adapter.store, 40)
    store = adapter.another_store()

    whole = (await store.read(A_SESSION)).entries
    pieces = [await store.read(A_SESSION, first=first, limit=7) for first in range(1, 161, 7)]

    assert whole == tuple(entries)
    assert tuple(entry for piece in pieces for entry in piece.entries) == tuple(entries)


# --- commits and receipts that are looked for ----------------------------------------------------------------------


async def test_a_commit_is_found_by_its_id_at_the_versions_that_it_tried(store: SessionStore) -> None:
    entries = await a_session_with(store, 2)
    wanted = entries[3]

    assert await store.find_commit(A_SESSION, wanted.commit_id, [2, 4, 6]) == wanted
    assert await store.find_commit(A_SESSION, wanted.commit_id, [2, 3]) is None
    assert await store.find_commit(A_SESSION, "never", [1, 2, 3, 4]) is None
    assert await store.find_commit(A_SESSION, wanted.commit_id, []) is None
    assert await store.find_commit(A_SESSION, wanted.commit_id, [99]) is None
    assert await store.find_commit(SessionKey("other", "s-1"), wanted.commit_id, [4]) is None


async def test_a_receipt_is_found_after_any_number_of_later_commits(adapter: Adapter) -> None:
    first = await send(adapter.store, text="hello", idempotency_key="m-1")
    wanted = a_claim("m-1", "hello")

    for _ in range(12):
        await adapter.store.settle(A_SESSION)
        head = (await adapter.store.load(A_SESSION)).head
        await commit(adapter.store, A_SESSION, a_message() if head.turn is None else an_answer(head))

        for store in (adapter.store, adapter.another_store()):
            loaded = await store.load(A_SESSION, [wanted.key_hash, a_claim("m-2").key_hash])
            assert list(loaded.receipts) == [wanted.key_hash]
            receipt = loaded.receipts[wanted.key_hash]
            assert (receipt.content_hash, receipt.reply) == (wanted.content_hash, first.reply)


async def test_a_session_without_receipts_that_were_not_asked_for_loads_none(store: SessionStore) -> None:
    await send(store, idempotency_key="m-1")

    assert (await store.load(A_SESSION)).receipts == {}


async def test_f136_one_key_sent_by_many_workers_at_once_is_admitted_once(adapter: Adapter) -> None:
    async def admit() -> int:
        store = adapter.another_store()
        while True:
            loaded = await store.load(A_SESSION, [a_claim("m-1").key_hash])
            if loaded.receipts:
                return int(loaded.receipts[a_claim("m-1").key_hash].reply["version"])
            decision = decided(loaded.head, a_message("hello", key="m-1"))
            try:
                await store.commit(A_SESSION, loaded, decision)
            except StaleSessionError:
                await store.settle(A_SESSION)
                continue
            return entry_of(decision).version

    answers = await asyncio.gather(*(admit() for _ in range(10)))

    assert answers == [1] * 10
    assert len((await adapter.another_store().read(A_SESSION)).entries) == 1


# --- settling and lost answers --------------------------------------------------------------------------------------


async def test_settling_changes_nothing_that_a_reader_sees(adapter: Adapter) -> None:
    await adapter.store.settle(A_SESSION)
    await a_turn(adapter.store)
    before = await adapter.store.read(A_SESSION)

    await adapter.store.settle(A_SESSION)
    await adapter.store.settle(A_SESSION)

    assert await adapter.store.read(A_SESSION) == before
    assert await adapter.another_store().read(A_SESSION) == before
    await adapter.store.settle(SessionKey("acme", "never-written"))
    assert (await adapter.store.load(SessionKey("acme", "never-written"))).head == Head()


async def test_x8_a_start_whose_answer_was_lost_is_ones_own_and_nobody_elses(adapter: Adapter) -> None:
    asked = await send(adapter.store)
    requested = await commit(
        adapter.store, A_SESSION, a_request_for(asked.head, "refund", effect="non_idempotent_write")
    )
    start = a_start(requested.head, "anna")
    loaded = await adapter.store.load(A_SESSION)
    await adapter.store.commit(A_SESSION, loaded, decided(loaded.head, start))  # and its answer never came

    head = (await adapter.another_store().load(A_SESSION)).head

    again = decide(head, start, now=NOON, commit_id=a_commit_id())
    other = decide(head, a_start(head, "bert"), now=NOON, commit_id=a_commit_id())
    assert (again.entry, again.reply) == (None, {"go": True})
    assert (other.entry, other.reply) == (None, {"go": False})
