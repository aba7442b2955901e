"""The AWS adapter set for the contract suites: an account of its own for each test, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from perdure.aws import keys
from perdure.aws.leases import DynamoDBLeases
from perdure.aws.results import DynamoDBResults
from perdure.aws.store import DynamoDBSessionStore
from perdure.aws.table import Table
from perdure.ports import SessionKey
from perdure.testing.conformance import Adapter
from perdure.testing.moto import BUCKET_NAME, AwsInProcess, aws_in_process
from tests.unit.aws.builders import SteppingClock


def a_store(aws: AwsInProcess) -> DynamoDBSessionStore:
    """Return a store as a new container would make it: with nothing in memory."""
    return DynamoDBSessionStore(
        aws.clients.dynamodb,
        aws.table,
        s3=lambda: aws.bucket and aws.clients.s3,  # the bucket is made when the first large body comes
        bucket=BUCKET_NAME,
    )


@asynccontextmanager
async def open_adapter(_: Path) -> AsyncIterator[Adapter]:
    """Open an empty account; its workers share nothing but the table and the bucket."""
    with aws_in_process() as aws:
        table = Table(aws.clients.dynamodb, aws.table)
        clock = SteppingClock()

        async def erase(key: SessionKey, below: int, receipts: bool) -> None:
            partition = keys.partition_key(key)
            rows = await table.query("#pk = :pk", {"pk": partition})
            for sort_key in (row["sk"]["S"] for row in rows):
                is_old = sort_key.startswith(keys.LOG) and sort_key < keys.log_key(below)
                if is_old or (receipts and sort_key.startswith("KEY#")):
                    await table.delete(partition, sort_key)

        yield Adapter(
            store=a_store(aws),
            leases=DynamoDBLeases(table, clock),
            results=DynamoDBResults(table, clock),
            another_store=lambda: a_store(aws),
            erase=erase,
        )
