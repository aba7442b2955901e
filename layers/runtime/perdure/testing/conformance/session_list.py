"""What `SessionStore` promises of lists and of the sweep."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from perdure.core.expected import sweep_due_at
from perdure.core.limits import START_LEASE
from perdure.errors import InvalidRequestError
from perdure.ports import SessionKey, SessionStore
from perdure.testing.conformance.adapter import Adapter
from perdure.testing.conformance.builders import (
    A_SESSION,
    ANNA,
    BERT,
    NOON,
    a_tombstone,
    a_turn,
    answer,
    send,
)

pytestmark = pytest.mark.asyncio

HOUR = timedelta(hours=1)
LATER = NOON + 24 * HOUR
DUE = NOON + START_LEASE


def a_key(number: int) -> SessionKey:
    return SessionKey("acme", f"s-{number}")


async def listed(store: SessionStore, *, limit: int = 50, tenant: str = "acme") -> list[str]:
    """Return the ids of all of Anna's sessions, read page by page."""
    ids: list[str] = []
    cursor = None
    while True:
        page = await store.list_sessions(tenant, ANNA, cursor=cursor, limit=limit)
        assert len(page.sessions) <= limit
        ids += [summary.session_id for summary in page.sessions]
        cursor = page.next_cursor
        if cursor is None:
            return ids


async def test_an_owner_without_sessions_has_an_empty_list(store: SessionStore) -> None:
    page = await store.list_sessions("acme", ANNA)

    assert (page.sessions, page.next_cursor) == ((), None)


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 50])
async def test_sessions_come_newest_activity_first_through_any_number_of_pages(store: SessionStore, limit: int) -> None:
    for number, hours in enumerate([3, 1, 5, 0, 2, 4]):
        await send(store, a_key(number), now=NOON + hours * HOUR)

    assert await listed(store, limit=limit) == ["s-2", "s-5", "s-0", "s-4", "s-1", "s-3"]


@pytest.mark.parametrize("limit", [1, 4, 50])
async def test_behind_any_row_of_a_page_its_own_cursor_goes_on(store: SessionStore, limit: int) -> None:
    for number in range(4):
        await send(store, a_key(number), now=NOON + number // 2 * HOUR)
    ids = await listed(store)
    rows = (await store.list_sessions("acme", ANNA)).sessions

    following = [await store.list_sessions("acme", ANNA, cursor=row.cursor, limit=limit) for row in rows]

    assert [[row.session_id for row in page.sessions] for page in following] == [
        ids[place + 1 :][:limit] for place in range(4)
    ]
    assert following[-1].next_cursor is None


async def test_a_session_moves_to_the_front_when_its_turn_ends(store: SessionStore) -> None:
    await send(store, a_key(1), now=NOON)
    await send(store, a_key(2), now=NOON + HOUR)

    await answer(store, a_key(1), now=NOON + 2 * HOUR)

    assert await listed(store) == ["s-1", "s-2"]


async def test_sessions_of_the_same_moment_are_each_listed_once(store: SessionStore) -> None:
    for number in range(7):
        await send(store, a_key(number), now=NOON)

    assert sorted(await listed(store, limit=2)) == [f"s-{number}" for number in range(7)]


async def test_a_summary_holds_the_head_of_its_session(adapter: Adapter) -> None:
    await send(adapter.store, A_SESSION, "Where is my order?")
    decision = await answer(adapter.store)

    page = await adapter.another_store().list_sessions("acme", ANNA)

    assert [summary.session_id for summary in page.sessions] == ["s-1"]
    head = page.sessions[0].head
    assert (head.agent, head.preview, head.status) == ("support", decision.head.preview, decision.head.status)
    assert head.last_activity_at == NOON


async def test_a_list_holds_only_the_owners_sessions_of_the_tenant(store: SessionStore) -> None:
    await send(store, a_key(1), owner=ANNA)
    await send(store, a_key(2), owner=BERT)
    await send(store, SessionKey("other", "s-3"), owner=ANNA)

    assert await listed(store) == ["s-1"]
    assert await listed(store, tenant="other") == ["s-3"]
    assert await listed(store, tenant="nobody") == []


async def test_a_purged_session_is_no_longer_listed_and_no_longer_swept(adapter: Adapter) -> None:
    await send(adapter.store)
    purged = await a_tombstone(adapter.store, A_SESSION)
    await adapter.erase(A_SESSION, purged.head.version, True)

    assert await listed(adapter.another_store()) == []
    assert await adapter.another_store().sessions_due(LATER) == []


@pytest.mark.parametrize("broken", ["", "x", "!!!", "AAAA", "é", "a" * 5000, "bnVsbA"])
async def test_a_broken_list_cursor_is_refused(store: SessionStore, broken: str) -> None:
    await send(store)

    with pytest.raises(InvalidRequestError) as refused:
        await store.list_sessions("acme", ANNA, cursor=broken)

    assert refused.value.code == "invalid_cursor"


async def test_a_list_cursor_of_another_owner_or_tenant_or_with_a_changed_letter_is_refused(
    store: SessionStore,
) -> None:
    for number in range(3):
        await send(store, a_key(number), now=NOON + number * HOUR)
    cursor = (await store.list_sessions("acme", ANNA, limit=1)).next_cursor
    assert cursor is not None
    middle = len(cursor) // 2
    changed = cursor[:middle] + ("A" if cursor[middle] != "A" else "B") + cursor[middle + 1 :]

    for tenant, owner, text in [("acme", BERT, cursor), ("other", ANNA, cursor), ("acme", ANNA, changed)]:
        with pytest.raises(InvalidRequestError):
            await store.list_sessions(tenant, owner, cursor=text, limit=1)


# --- the sweep -----------------------------------------------------------------------------------------------------


async def due(store: SessionStore, now: datetime, limit: int = 1000) -> list[SessionKey]:
    return list(await store.sessions_due(now, limit))


async def test_a_session_is_due_once_its_start_lease_is_over_and_not_before(store: SessionStore) -> None:
    decision = await send(store)

    assert sweep_due_at(decision.head) == DUE
    assert await due(store, DUE - timedelta(minutes=1)) == []
    assert await due(store, DUE + timedelta(minutes=1)) == [A_SESSION]


async def test_a_session_that_waits_for_a_person_is_never_due(store: SessionStore) -> None:
    await a_turn(store)

    assert await due(store, LATER + 365 * 24 * HOUR) == []


async def test_the_longest_overdue_sessions_come_first(store: SessionStore) -> None:
    for number, hours in enumerate([2, 0, 1]):
        await send(store, a_key(number), now=NOON + hours * HOUR)

    assert await due(store, LATER) == [a_key(1), a_key(2), a_key(0)]
    assert await due(store, NOON + HOUR) == [a_key(1)]


async def test_a_postponed_session_is_due_later(store: SessionStore) -> None:
    decision = await send(store)

    await store.postpone(A_SESSION, decision.head.version, NOON + 2 * HOUR)

    assert await due(store, NOON + HOUR) == []
    assert await due(store, NOON + 3 * HOUR) == [A_SESSION]


async def test_a_session_that_moved_on_is_not_postponed(store: SessionStore) -> None:
    decision = await send(store)
    await send(store)

    await store.postpone(A_SESSION, decision.head.version, NOON + 2 * HOUR)
    await store.postpone(SessionKey("acme", "never-written"), 3, NOON)

    assert await due(store, NOON + HOUR) == [A_SESSION]


async def test_a_postponed_session_that_moves_on_is_due_as_its_new_head_says(store: SessionStore) -> None:
    decision = await send(store)
    await store.postpone(A_SESSION, decision.head.version, NOON + 9 * HOUR)

    await send(store)

    assert await due(store, NOON + HOUR) == [A_SESSION]


async def test_postponing_is_no_commit(adapter: Adapter) -> None:
    decision = await send(adapter.store)
    loaded = await adapter.store.load(A_SESSION)

    await adapter.store.postpone(A_SESSION, decision.head.version, NOON + HOUR)

    assert (await adapter.another_store().load(A_SESSION)).head == loaded.head
    await answer(adapter.store)


async def test_no_more_sessions_are_due_than_were_asked_for(store: SessionStore) -> None:
    for number in range(5):
        await send(store, a_key(number))

    assert len(await due(store, LATER, 3)) == 3
