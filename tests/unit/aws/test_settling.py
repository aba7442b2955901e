"""When a tail is settled, and that nothing is paid for twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from perdure.aws.items import head_changes, record_of
from perdure.aws.limits import SETTLE_TAIL_BYTES
from perdure.aws.table import wire
from perdure.core.head import Call, Turn
from perdure.core.limits import MAX_CALLS_PER_RESPONSE
from perdure.testing.counting import AwsCounter, item_size
from perdure.testing.moto import AwsInProcess
from tests.contracts.dynamodb import a_store
from tests.unit.aws.builders import KEY, NOON, a_decision, a_head, committed
from tests.unit.aws.test_bodies import a_decision_of


@pytest.mark.parametrize("over", [0, 1])
async def test_it_is_time_to_settle_when_the_tail_is_over_four_kilobytes(aws: AwsInProcess, over: int) -> None:
    store = a_store(aws)
    loaded = await store.load(KEY)
    for size in (2_000, SETTLE_TAIL_BYTES - 2_000 - len("[,]") + over):
        assert not loaded.to_settle
        loaded = await store.commit(KEY, loaded, a_decision_of(loaded, size))

    assert loaded.to_settle == bool(over)
    assert (await a_store(aws).load(KEY)).to_settle == bool(over)
    await store.settle(KEY)
    assert not (await store.commit(KEY, loaded, a_decision(loaded, "the next"))).to_settle


async def test_two_that_settle_at_once_put_each_entry_once(aws: AwsInProcess) -> None:
    store = a_store(aws)
    for number in range(3):
        await committed(store, f"c-{number}")
    counter = AwsCounter()
    counter.attach(aws.clients.dynamodb)

    await asyncio.gather(store.settle(KEY), store.settle(KEY))

    assert counter.take().calls == {"dynamodb.PutItem": 3}


@pytest.mark.parametrize(("calls", "most"), [(1, 1024), (MAX_CALLS_PER_RESPONSE, 2048)])
def test_a_head_takes_few_write_units_even_with_all_the_calls_that_a_response_may_have(calls: int, most: int) -> None:
    """Each commit of a turn pays for all of it, those that lose a race included."""
    open_calls = tuple(
        Call(
            call_id=f"call-2-{number}",
            tool_name="look_up_order",
            effect="read",
            status="approved",
            ready_at=NOON,
            first_attempt_at=NOON,
        )
        for number in range(calls)
    )
    turn = Turn(
        turn_id="turn-1",
        opened_version=1,
        first_sequence=1,
        message_id="message-1-0",
        started_at=NOON,
        calls=open_calls,
    )
    head = replace(a_head(3), turn=turn, created_at=NOON, preview="p" * 120)

    changes, _ = head_changes(KEY, head, ())

    item = {name: wire(value) for name, value in (changes | {"pk": "acme#s-1", "sk": "HEAD"}).items()}
    assert item_size(item) <= most
    assert record_of(item).head == head
