"""Socket tickets: sixty seconds, one connection."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import pytest

from perdure.aws.limits import TICKET_LIFETIME
from perdure.aws.table import Table
from perdure.aws.tickets import SocketTickets, TicketHolder
from perdure.testing.moto import AwsInProcess
from tests.unit.aws.builders import NOON, OWNER, LostAnswers, SteppingClock

ANN = TicketHolder(tenant="acme", actor=OWNER, until=NOON + timedelta(hours=1))


@pytest.fixture
def tickets(table: Table, clock: SteppingClock) -> SocketTickets:
    numbers = count()
    return SocketTickets(table, clock, lambda: f"nonce{next(numbers)}")


async def test_a_ticket_tells_whom_it_was_given_to_once(tickets: SocketTickets) -> None:
    ticket = await tickets.issue(ANN)

    assert await tickets.redeem(ticket) == ANN
    assert await tickets.redeem(ticket) is None


async def test_a_ticket_is_good_for_a_minute_though_it_is_still_in_the_table(
    tickets: SocketTickets, clock: SteppingClock
) -> None:
    in_time, too_late = await tickets.issue(ANN), await tickets.issue(ANN)

    clock.advance(TICKET_LIFETIME - timedelta(milliseconds=1))
    assert await tickets.redeem(in_time) == ANN
    clock.advance(timedelta(milliseconds=1))
    assert await tickets.redeem(too_late) is None


@pytest.mark.parametrize("ticket", ["", "guess", "x" * 5000, "🌍"])
async def test_a_guessed_ticket_is_nobodys(tickets: SocketTickets, ticket: str) -> None:
    await tickets.issue(ANN)

    assert await tickets.redeem(ticket) is None


async def test_a_redemption_that_the_sdk_repeats_after_a_lost_answer_holds(
    aws: AwsInProcess, tickets: SocketTickets
) -> None:
    ticket = await tickets.issue(ANN)
    LostAnswers(aws.clients.dynamodb, "UpdateItem", silently=True)

    assert await tickets.redeem(ticket) == ANN


async def test_tickets_are_long_differ_and_are_stored_as_hashes_only(aws: AwsInProcess, tickets: SocketTickets) -> None:
    issued = {await tickets.issue(ANN) for _ in range(20)}

    assert len(issued) == 20
    assert min(len(ticket) for ticket in issued) == 43
    assert not any(ticket in str(aws.clients.dynamodb.scan(TableName=aws.table)) for ticket in issued)
