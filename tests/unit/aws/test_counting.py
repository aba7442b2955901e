"""The counter counts by DynamoDB's rules, and a turn stays within its budget (design §9)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.aws.leases import DynamoDBLeases
from perdure.aws.table import ConditionNotMetError, Table, Value
from perdure.testing.conformance import builders as sessions
from perdure.testing.counting import AwsCounter, item_size
from perdure.testing.moto import AwsInProcess
from tests.contracts.dynamodb import a_store
from tests.unit.aws.builders import NOON, SteppingClock


@pytest.fixture
def counter(aws: AwsInProcess) -> AwsCounter:
    counter = AwsCounter()
    counter.attach(aws.clients.dynamodb)
    return counter


def test_an_item_is_as_large_as_its_names_and_values() -> None:
    item = {"pk": {"S": "ü"}, "n": {"N": "12345"}, "yes": {"BOOL": True}}

    assert item_size(item) == (2 + 2) + (1 + 3 + 1) + (3 + 1)


@pytest.mark.parametrize(("size", "units"), [(1024, 1), (1025, 2), (3000, 3)])
async def test_a_write_costs_a_unit_for_each_started_kilobyte(
    table: Table, counter: AwsCounter, size: int, units: int
) -> None:
    text = "x" * (size - len("pk" + "a" + "sk" + "b" + "text"))

    await table.put({"pk": "a", "sk": "b", "text": text})

    usage = counter.take()
    assert (usage.write_units, usage.index_write_units) == (units, 0)
    assert usage.bytes_sent > size


async def test_a_write_costs_the_larger_of_before_and_after(table: Table, counter: AwsCounter) -> None:
    await table.put({"pk": "a", "sk": "b", "text": "x" * 3000})
    counter.take()

    await table.update("a", "b", put={"text": "x"}, condition="attribute_exists(#pk)")
    with pytest.raises(ConditionNotMetError):
        await table.update("a", "b", put={"text": "x"}, condition="attribute_not_exists(#pk)")
    await table.delete("a", "b")

    assert counter.take().write_units == 3 + 1 + 1


async def test_an_index_costs_for_what_appears_moves_and_goes(table: Table, counter: AwsCounter) -> None:
    due: dict[str, Value] = {"due_bucket": "due#1", "due_at": 1}
    writes: list[tuple[dict[str, Value], tuple[str, ...]]] = [
        (due, ()),
        (due, ()),
        (due | {"due_at": 2}, ()),
        ({"x": 1}, tuple(due)),
        ({"x": 2}, ()),
    ]
    costs = []
    for put, remove in writes:
        await table.update("a", "b", put=put, remove=remove, condition="attribute_not_exists(#never)")
        costs.append(counter.take().index_write_units)

    assert costs == [1, 0, 2, 1, 0]


async def test_a_read_costs_half_when_it_may_be_old(table: Table, counter: AwsCounter) -> None:
    await table.put({"pk": "a", "sk": "b", "text": "x" * 5000})
    counter.take()
    costs = []
    for strong in (True, False):
        await table.get("a", "b", strong=strong)
        await table.query("#pk = :pk", {"pk": "a"}, strong=strong)
        await table.batch_get([("a", "b"), ("a", "c")], strong=strong)
        costs.append(counter.take().read_units)

    assert costs == [6, 3]


async def test_a_turn_costs_the_same_at_the_fortieth_as_at_the_tenth(
    aws: AwsInProcess, table: Table, clock: SteppingClock, counter: AwsCounter
) -> None:
    leases = DynamoDBLeases(table, clock)
    costs = {}
    for number in range(1, 41):
        counter.take()
        await a_turn_by_four_containers(aws, leases, f"question {number:05d}")
        costs[number] = counter.take()

    tenth, fortieth = costs[10], costs[40]
    assert tenth.calls["dynamodb.UpdateItem"] == 4
    assert tenth.all_write_units == fortieth.all_write_units
    assert tenth.all_write_units <= 30
    assert (tenth.calls, tenth.read_units) == (fortieth.calls, fortieth.read_units)


async def a_turn_by_four_containers(aws: AwsInProcess, leases: DynamoDBLeases, text: str) -> None:
    """A message, a model step, a read tool and the answer, each in a container of its own that knows nothing yet."""
    now = NOON
    asked = await sessions.send(a_store(aws), text=text, now=now)
    for request in (sessions.a_request_for, sessions.a_result, sessions.an_answer):
        now += timedelta(seconds=2)
        store = a_store(aws)
        loaded = await store.load(sessions.A_SESSION)
        await leases.claim(sessions.A_SESSION, _step_of(loaded.head), 1, "owner", now + timedelta(seconds=120))
        await store.settle(sessions.A_SESSION)
        command = request(loaded.head, "look_up_order") if request is sessions.a_request_for else request(loaded.head)
        asked = sessions.decided(loaded.head, command, now=now)
        await store.commit(sessions.A_SESSION, loaded, asked)


def _step_of(head) -> str:
    turn = head.turn
    return turn.step.step_id if turn.step is not None else turn.open_calls[0].call_id
