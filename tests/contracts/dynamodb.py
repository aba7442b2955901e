"""The AWS adapter set for the contract suites: each store has an account of its own, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from perdure.aws import keys
from perdure.aws.store import DynamoDBSessionStore
from perdure.ports import SessionKey
from perdure.testing.moto import AwsInProcess, aws_in_process


def a_store(aws: AwsInProcess) -> DynamoDBSessionStore:
    """Return a store as a new container would make it: with nothing in memory."""
    return DynamoDBSessionStore(aws.clients.dynamodb, aws.table, s3=lambda: aws.clients.s3, bucket=aws.bucket)


@contextmanager
def dynamodb_store() -> Iterator[DynamoDBSessionStore]:
    """A store on an empty table."""
    with aws_in_process() as aws:
        yield a_store(aws)


def delete_entry(aws: AwsInProcess, key: SessionKey, version: int) -> None:
    """Delete one log item, as retention will."""
    name = {"pk": {"S": keys.partition_key(key)}, "sk": {"S": keys.log_key(version)}}
    aws.clients.dynamodb.delete_item(TableName=aws.table, Key=name)
