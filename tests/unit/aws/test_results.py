"""Outcomes on their way to a common commit, in DynamoDB."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from perdure.aws.limits import RESULT_TTL
from perdure.aws.results import DynamoDBResults
from perdure.aws.table import Table
from perdure.core.commands import ToolFinished
from perdure.ports import SessionKey
from perdure.testing.moto import aws_in_process
from tests.unit.aws.builders import SteppingClock

KEY = SessionKey("acme", "s-1")


def an_outcome(clock: SteppingClock, call_id: str = "call-2-0", turn_id: str = "turn-1") -> ToolFinished:
    return ToolFinished(
        turn_id=turn_id, call_id=call_id, attempt=1, started_at=clock.now(), outcome="succeeded", output="é\x00 ok"
    )


async def test_outcomes_of_a_turn_are_found_again_and_those_of_others_are_not() -> None:
    with aws_in_process() as aws:
        clock = SteppingClock()
        results = DynamoDBResults(Table(aws.clients.dynamodb, aws.table), clock)
        mine, other = an_outcome(clock), an_outcome(clock, turn_id="turn-10")

        await results.put(KEY, mine)
        await results.put(KEY, other)
        await results.put(SessionKey("acme", "s-2"), an_outcome(clock, "call-9-0"))

        assert await results.of_turn(KEY, "turn-1") == [mine]


async def test_an_outcome_is_put_once_and_never_changes() -> None:
    with aws_in_process() as aws:
        clock = SteppingClock()
        results = DynamoDBResults(Table(aws.clients.dynamodb, aws.table), clock)
        first = an_outcome(clock)

        await results.put(KEY, first)
        await results.put(KEY, replace(first, output="another"))

        assert await results.of_turn(KEY, "turn-1") == [first]


async def test_an_expired_outcome_counts_as_absent() -> None:
    # F097
    with aws_in_process() as aws:
        clock = SteppingClock()
        results = DynamoDBResults(Table(aws.clients.dynamodb, aws.table), clock)
        await results.put(KEY, an_outcome(clock))

        clock.advance(RESULT_TTL + timedelta(seconds=2))

        assert await results.of_turn(KEY, "turn-1") == []
