"""What the lease contract can't show: lost answers, and items past their TTL."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.aws.leases import DynamoDBLeases
from perdure.aws.limits import LEASE_ITEM_TTL
from perdure.aws.table import Table
from perdure.errors import StoreUnavailableError
from perdure.ports import Lease
from perdure.testing.moto import AwsInProcess
from tests.unit.aws.builders import KEY, NOON, LostAnswers, SteppingClock

STEP = "model-1-0"
SOON = NOON + timedelta(seconds=120)


@pytest.fixture
def leases(table: Table, clock: SteppingClock) -> DynamoDBLeases:
    return DynamoDBLeases(table, clock)


async def test_x8_a_claim_that_the_sdk_repeats_after_a_lost_answer_holds(
    aws: AwsInProcess, leases: DynamoDBLeases
) -> None:
    lost = LostAnswers(aws.clients.dynamodb, "PutItem", silently=True)

    assert await leases.claim(KEY, STEP, 1, "ann", SOON)

    assert lost.calls == 2
    assert not await leases.claim(KEY, STEP, 1, "bob", SOON)


async def test_a_claim_without_any_answer_is_unknown_and_holds_when_it_is_sent_again(
    aws: AwsInProcess, leases: DynamoDBLeases
) -> None:
    LostAnswers(aws.clients.dynamodb, "PutItem", silently=False)

    with pytest.raises(StoreUnavailableError):
        await leases.claim(KEY, STEP, 1, "ann", SOON)

    assert await leases.claim(KEY, STEP, 1, "ann", SOON)


async def test_a_claim_that_was_revoked_meanwhile_does_not_hold_for_its_owner(leases: DynamoDBLeases) -> None:
    await leases.claim(KEY, STEP, 1, "ann", NOON)
    await leases.revoke(KEY, STEP, 1, SOON)

    assert not await leases.claim(KEY, STEP, 1, "ann", SOON)


@pytest.mark.parametrize("operation", ["PutItem", "UpdateItem"])
async def test_a_revocation_that_the_sdk_repeats_gives_the_answer_of_the_first(
    aws: AwsInProcess, leases: DynamoDBLeases, operation: str
) -> None:
    if operation == "UpdateItem":
        await leases.claim(KEY, STEP, 1, "ann", NOON)
    LostAnswers(aws.clients.dynamodb, operation, silently=True)

    answer = await leases.revoke(KEY, STEP, 1, SOON)

    assert answer == ("unclaimed" if operation == "PutItem" else "claimed")


async def test_a_claim_renewed_between_the_two_writes_of_a_revocation_stays_alive(
    aws: AwsInProcess, leases: DynamoDBLeases
) -> None:
    await leases.claim(KEY, STEP, 1, "ann", NOON)
    writes: list[str] = []

    def renew_first(params: dict, **_: object) -> None:
        if not writes and ":expired" in params["ExpressionAttributeValues"]:
            writes.append("renewed")
            aws.clients.dynamodb.update_item(
                TableName=aws.table,
                Key=params["Key"],
                UpdateExpression="SET #expires_at = :later",
                ExpressionAttributeNames={"#expires_at": "expires_at"},
                ExpressionAttributeValues={":later": {"N": "9999999999999"}},
            )

    aws.clients.dynamodb.meta.events.register("provide-client-params.dynamodb.UpdateItem", renew_first)

    assert await leases.revoke(KEY, STEP, 1, SOON) == "alive"
    assert writes == ["renewed"]


async def test_an_attempt_behind_a_later_one_is_never_called_unclaimed(leases: DynamoDBLeases) -> None:
    await leases.claim(KEY, STEP, 2, "bob", SOON)
    await leases.revoke(KEY, "call-2-0", 2, NOON)

    assert await leases.revoke(KEY, STEP, 1, NOON) == "claimed"
    assert await leases.revoke(KEY, "call-2-0", 1, NOON) == "claimed"


async def test_a_lease_past_its_ttl_counts_as_absent_though_it_is_still_there(
    leases: DynamoDBLeases, clock: SteppingClock
) -> None:
    await leases.claim(KEY, STEP, 1, "ann", SOON)

    clock.advance(SOON + LEASE_ITEM_TTL - NOON - timedelta(seconds=1))
    assert await leases.read_lease(KEY, STEP) == Lease(attempt=1, owner="ann", expires_at=SOON)
    assert not await leases.claim(KEY, STEP, 1, "bob", clock.now())

    clock.advance(timedelta(seconds=1))
    assert await leases.read_lease(KEY, STEP) is None
    assert await leases.claim(KEY, STEP, 1, "bob", clock.now() + timedelta(seconds=120))
