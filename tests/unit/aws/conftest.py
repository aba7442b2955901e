from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure.aws.table import Table
from perdure.testing.moto import AwsInProcess, aws_in_process
from tests.unit.aws.builders import SteppingClock
from tests.unit.aws.viewers import Connections, World


@pytest.fixture
def aws() -> Iterator[AwsInProcess]:
    with aws_in_process() as account:
        yield account


@pytest.fixture
def table(aws: AwsInProcess) -> Table:
    return Table(aws.clients.dynamodb, aws.table)


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


@pytest.fixture
def connections() -> Connections:
    return Connections()


@pytest.fixture
async def world(aws: AwsInProcess, table: Table, clock: SteppingClock, connections: Connections) -> World:
    return World(aws, table, clock, connections)
