"""The pump of a subscription: in order, one at a time, and what gone, busy, slow and dead viewers cost."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from perdure.aws.delivery import POST_ATTEMPTS, PUMP_TIME
from perdure.aws.limits import SUBSCRIPTION_TTL
from perdure.aws.subscriptions import PUMP_LEASE, Subscription
from perdure.aws.tickets import TicketHolder
from perdure.core.cursor import advance_sequence
from perdure.ports import SessionKey
from perdure.streams.parts import MAX_FRAME_BYTES
from tests.unit.aws.builders import KEY, NOON, OWNER, LostAnswers, SteppingClock, a_head, calls_of
from tests.unit.aws.viewers import START, Connections, World

# --- who is sent what --------------------------------------------------------------------------------------------


async def test_every_viewer_gets_every_event_in_order_and_nobody_elses(world: World) -> None:
    for name in ("c1", "c2"):
        await world.watch(name)
    await world.watch("c3", key=SessionKey(tenant="other", session_id="s-1"))

    for text in ("one", "two", "three"):
        await world.commit(text, text.upper())

    assert world.connections.sequences("c1") == world.connections.sequences("c2") == [1, 2, 3, 4, 5, 6]
    assert world.connections.posts["c3"] == 0


async def test_the_backlog_comes_before_what_is_new(world: World) -> None:
    for number in range(5):
        await world.commit(f"event {number}", tell=False)

    await world.pump.deliver(await world.watch("c1"))
    await world.commit("new")

    frames = [frame for _, frame in world.connections.frames]
    assert frames[0] == {"type": "attached", "session_id": KEY.session_id, "cursor": START}
    assert world.connections.sequences("c1") == [1, 2, 3, 4, 5, 6]


async def test_x13_subscriptions_are_read_strongly_and_only_when_the_change_is_told(world: World) -> None:
    asked: list[bool] = []

    def look(params: dict[str, Any]) -> None:
        if params["ExpressionAttributeValues"].get(":prefix") == {"S": "SUB#"}:
            asked.append(params["ConsistentRead"])

    calls_of(world.aws.clients.dynamodb, "Query", look)
    await world.commit("one")
    await world.watch("came-after-the-first-commit")
    await world.commit("two")

    assert asked == [True, True]
    assert world.connections.sequences("came-after-the-first-commit") == [1, 2]


async def test_a_pump_does_not_believe_a_read_that_is_older_than_the_word_it_was_woken_by(world: World) -> None:
    """Viewers read eventually consistent; the commit that nobody else tells of must not be overlooked."""
    subscription = await world.watch("c1")
    version = await world.commit("one", tell=False)
    old = a_head(0)
    reads = [0]
    real = world.pump._follower.feed

    async def late(key: Any, **more: Any) -> Any:
        from dataclasses import replace

        feed = await real(key, **more)
        reads[0] += 1
        return replace(feed, items=(), head=old, cursor=START) if reads[0] < 3 else feed

    world.pump._follower.feed = late  # type: ignore[method-assign]
    await world.pump.deliver(subscription, version)

    assert world.connections.sequences("c1") == [1]


@pytest.mark.parametrize("text", ["x" * 200 * 1024, "\x01" * 40_000, 'ü"\\' * 20_000])
async def test_f112_what_is_larger_than_a_frame_comes_in_parts_that_fit_exactly(world: World, text: str) -> None:
    await world.watch("c1")
    await world.commit(text, "small")

    parts = [frame for _, frame in world.connections.frames if frame["type"] == "part"]
    whole = json.loads("".join(part["data"] for part in parts))
    assert [part["index"] for part in parts] == list(range(parts[0]["count"]))
    assert whole["events"][0]["payload"]["text"] == text
    assert world.connections.sequences("c1")[-1] == 2
    assert world.connections.largest <= MAX_FRAME_BYTES


# --- trouble with viewers ----------------------------------------------------------------------------------------


async def test_f111_a_gone_connection_is_forgotten_and_one_that_is_busy_is_sent_to_later(
    world: World, connections: Connections
) -> None:
    connections._answers = {"c2": [410], "c3": [429]}
    for name in ("c1", "c2", "c3"):
        await world.watch(name)

    await world.commit("one")
    await world.commit("two")

    assert connections.sequences("c1") == connections.sequences("c3") == [1, 2]
    assert connections.posts["c2"] == 1
    assert await world.watching() == ["c1", "c3"]


async def test_a_connection_that_stays_busy_gets_all_of_it_with_a_later_change(
    world: World, connections: Connections
) -> None:
    connections._answers = {"c1": [429] * POST_ATTEMPTS}
    await world.watch("c1")

    await world.commit("one")
    in_vain = connections.posts["c1"]
    await world.commit("two")

    assert in_vain == POST_ATTEMPTS
    assert connections.sequences("c1") == [1, 2]


@pytest.mark.parametrize("status", [0, 403, 500])
async def test_no_trouble_with_a_viewer_reaches_the_step_and_the_next_change_makes_up_for_it(
    world: World, connections: Connections, status: int
) -> None:
    connections._answers = {"c1": [200, status]}
    for name in ("c1", "c2"):
        await world.watch(name)

    await world.commit("one")
    missed = connections.sequences("c1")
    await world.commit("two")

    assert missed == []
    assert connections.sequences("c1") == connections.sequences("c2") == [1, 2]


async def test_a_slow_viewer_is_left_after_a_while_and_goes_on_where_it_was(
    world: World, connections: Connections, clock: SteppingClock
) -> None:
    for number in range(9):
        await world.commit(*(["x" * 20_000] * 12), tell=False)
        assert number < 9
    subscription = await world.watch("c1")
    connections.meanwhile = lambda _: clock.advance(PUMP_TIME / 20)

    began = clock.now()
    await world.pump.deliver(subscription)
    took = clock.now() - began
    some = connections.sequences("c1")
    connections.meanwhile = lambda _: None
    await world.commit("the last")

    assert took < PUMP_LEASE
    assert 0 < len(some) < 108
    assert connections.sequences("c1") == list(range(1, 110))


# --- one at a time -----------------------------------------------------------------------------------------------


async def test_a_word_that_comes_while_a_pump_ends_is_not_lost(world: World) -> None:
    """The second committer finds the first one's pump at work just before it gives its place up."""
    await world.watch("c1")
    release = world.subscriptions.release
    seen: list[str] = []

    async def meanwhile(subscription: Subscription, owner: str, state: Any, **more: Any) -> Any:
        if not seen:
            seen.append(owner)
            await world.commit("two")
        return await release(subscription, owner, state, **more)

    world.subscriptions.release = meanwhile  # type: ignore[method-assign]
    await world.commit("one")

    assert len(seen) == 1
    assert world.connections.sequences("c1") == [1, 2]


@pytest.mark.parametrize("operation", ["UpdateItem"])
@pytest.mark.parametrize("silently", [True, False])
@pytest.mark.parametrize("which", range(1, 6))
async def test_a_lost_answer_of_the_table_costs_no_event_and_no_order(
    world: World, operation: str, silently: bool, which: int
) -> None:
    await world.watch("c1")
    lost = LostAnswers(world.aws.clients.dynamodb, operation, silently=silently, times=0)
    updates = [0]

    def nth(params: dict[str, Any]) -> None:
        if "SUB#" in params["Key"]["sk"]["S"]:
            updates[0] += 1
            lost._left = 1 if updates[0] == which else 0

    calls_of(world.aws.clients.dynamodb, operation, nth)
    for text in ("one", "two"):
        await world.commit(text)
    world.clock.advance(PUMP_LEASE + timedelta(seconds=1))
    await world.commit("three")

    last = 0
    for sequence in world.connections.sequences("c1"):
        told = advance_sequence(last, sequence)
        assert told != "gap"
        last = sequence if told == "accepted" else last
    assert last == 3


async def test_a_pump_that_died_blocks_until_its_lease_ends_and_then_nothing_is_missing(world: World) -> None:
    subscription = await world.watch("c1")
    assert await world.subscriptions.take(subscription, "dies") is not None

    await world.commit("one")
    blocked = world.connections.sequences("c1")
    world.clock.advance(PUMP_LEASE + timedelta(seconds=1))
    await world.commit("two")

    assert blocked == []
    assert world.connections.sequences("c1") == [1, 2]


# --- the end of it -----------------------------------------------------------------------------------------------


async def test_f114_nothing_is_sent_after_the_token_has_ended_but_that_it_has(world: World) -> None:
    until = NOON + timedelta(minutes=5)
    await world.watch("c1", holder=TicketHolder(tenant=KEY.tenant, actor=OWNER, until=until))
    await world.watch("c2")
    await world.commit("one")
    world.clock.advance(until - world.clock.now())
    await world.commit("two")

    denied = [frame for name, frame in world.connections.frames if name == "c1" and frame["type"] == "access_denied"]
    assert world.connections.sequences("c1") == [1]
    assert world.connections.sequences("c2") == [1, 2]
    assert [frame["code"] for frame in denied] == ["unauthorized"]
    assert world.connections.closed == ["c1"]
    assert await world.watching() == ["c2"]


async def test_a_subscription_ends_after_three_hours(world: World) -> None:
    await world.watch("c1")
    world.clock.advance(SUBSCRIPTION_TTL)

    await world.commit("one")

    assert world.connections.sequences("c1") == []
    assert await world.watching() == []


async def test_who_may_read_no_more_is_told_so_at_the_next_change(world: World) -> None:
    await world.watch("c1")
    await world.commit("one")
    world.authorize = lambda _who, _operation, _facts: False
    await world.commit("two")

    denied = [frame for _, frame in world.connections.frames if frame["type"] == "access_denied"]
    assert world.connections.sequences("c1") == [1]
    assert [frame["code"] for frame in denied] == ["session_not_found"]
    assert await world.watching() == []
    assert world.connections.closed == [], "its other sessions go on"


async def test_a_gone_connection_does_not_take_a_newer_subscription_with_it(world: World) -> None:
    await world.watch("c1")
    (old,) = await world.subscriptions.of_session(KEY, strong=True)
    world.clock.advance(timedelta(seconds=1))
    await world.watch("c1")

    await world.subscriptions.forget(old)

    assert await world.watching() == ["c1"]


async def test_a_closed_connection_takes_all_its_subscriptions_with_it(world: World) -> None:
    for key in (KEY, SessionKey(tenant="acme", session_id="s-2")):
        await world.watch("c1", key=key)
    await world.watch("c2")
    await world.subscriptions.remove(KEY, "c2")

    await world.subscriptions.drop_connection("c1")

    assert world.aws.clients.dynamodb.scan(TableName=world.aws.table)["Items"] == []
