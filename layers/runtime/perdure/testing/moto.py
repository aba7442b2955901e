"""AWS in this process, by moto: made safe for threads, stricter where the service is, with our resources in it.

Gaps of moto 5.2.5 that matter here: two conditional updates in two threads can both win (hence the lock), an empty
map of expression values passes (hence the checks), schedules never fire and no connection is ever gone.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any

from perdure.aws.clients import Clients
from perdure.aws.keys import BY_DUE, BY_OWNER

REGION = "us-east-1"
ACCOUNT = "123456789012"
"""moto's."""

TABLE_NAME = "sessions"
BUCKET_NAME = "perdure-bodies"
SCHEDULE_GROUP = "perdure"
SOCKET_ENDPOINT = f"https://socket.execute-api.{REGION}.amazonaws.com/live"
QUEUES = (
    "run-model",
    "call-tool",
    "call-single-attempt-tool",
    "poll-tool-task",
    "cancel-tool-task",
    "timers",
    "notices",
)

_PLACEHOLDER = re.compile(r"[:#]\w+")
_EXPRESSIONS = ("UpdateExpression", "ConditionExpression", "KeyConditionExpression", "FilterExpression")


class AwsInProcess:
    """One account: clients, and our resources, made when they are first asked for (the table at once)."""

    table = TABLE_NAME
    schedule_role_arn = f"arn:aws:iam::{ACCOUNT}:role/schedules"

    def __init__(self) -> None:
        self.clients = Clients(session=_session(), socket_endpoint=SOCKET_ENDPOINT)
        create_table(self.clients.dynamodb, self.table)
        self.clients.dynamodb.meta.events.register("provide-client-params.dynamodb.*", refuse_what_the_service_would)

    @cached_property
    def queue_urls(self) -> dict[str, str]:
        """URLs of the queues, by short name."""
        return {name: self.clients.sqs.create_queue(QueueName=name)["QueueUrl"] for name in QUEUES}

    @cached_property
    def queue_arns(self) -> dict[str, str]:
        """ARNs of the queues, by short name."""
        return {name: f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}" for name in self.queue_urls}

    @cached_property
    def schedule_group(self) -> str:
        self.clients.scheduler.create_schedule_group(Name=SCHEDULE_GROUP)
        return SCHEDULE_GROUP

    @cached_property
    def bucket(self) -> str:
        self.clients.s3.create_bucket(Bucket=BUCKET_NAME)
        return BUCKET_NAME

    def environment(self, agents: str = "agents:agents") -> dict[str, str]:
        """Return what the template would give the functions."""
        return {
            "TABLE_NAME": self.table,
            "RUN_MODEL_QUEUE_URL": self.queue_urls["run-model"],
            "CALL_TOOL_QUEUE_URL": self.queue_urls["call-tool"],
            "CALL_SINGLE_ATTEMPT_TOOL_QUEUE_URL": self.queue_urls["call-single-attempt-tool"],
            "POLL_TOOL_TASK_QUEUE_URL": self.queue_urls["poll-tool-task"],
            "CANCEL_TOOL_TASK_QUEUE_URL": self.queue_urls["cancel-tool-task"],
            "TIMERS_QUEUE_URL": self.queue_urls["timers"],
            "TIMERS_QUEUE_ARN": self.queue_arns["timers"],
            "SCHEDULE_GROUP": self.schedule_group,
            "SCHEDULE_ROLE_ARN": self.schedule_role_arn,
            "BUCKET_NAME": self.bucket,
            "SOCKET_ENDPOINT": SOCKET_ENDPOINT,
            "PERDURE_AGENTS": agents,
        }


@contextmanager
def aws_in_process() -> Iterator[AwsInProcess]:
    """An empty account with our table, for as long as the block runs."""
    from moto import mock_aws

    with _one_call_at_a_time(), mock_aws():
        yield AwsInProcess()


@cache
def _session() -> Any:
    import boto3

    # One session, because each reads the service models anew; what a test hooks into a client stays with the client.
    return boto3.session.Session(region_name=REGION)


def create_table(dynamodb: Any, name: str) -> None:
    """Create the sessions table as `template.yaml` does."""
    strings = ("pk", "sk", "owner_key", "due_bucket")
    numbers = ("last_activity", "due_at")
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            *({"AttributeName": attribute, "AttributeType": "S"} for attribute in strings),
            *({"AttributeName": attribute, "AttributeType": "N"} for attribute in numbers),
        ],
        KeySchema=_key_schema("pk", "sk"),
        GlobalSecondaryIndexes=[
            _index(BY_OWNER, "owner_key", "last_activity"),
            _index(BY_DUE, "due_bucket", "due_at"),
        ],
    )
    dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})


def refuse_what_the_service_would(params: dict[str, Any], **_: Any) -> None:
    """Raise for a request that DynamoDB refuses although moto takes it (field case F098).

    Raises:
        AssertionError: It names what is wrong.
    """
    for attribute in ("ExpressionAttributeValues", "ExpressionAttributeNames"):
        assert params.get(attribute, True), f"{attribute} is empty: leave it out"
    used = set(_PLACEHOLDER.findall(" ".join(str(params.get(name, "")) for name in _EXPRESSIONS)))
    given = {*params.get("ExpressionAttributeValues", ()), *params.get("ExpressionAttributeNames", ())}
    assert used == given, f"placeholders used and given differ in {sorted(used ^ given)}"
    for named in ("Key", "Item"):
        for attribute in ("pk", "sk"):
            value = params.get(named, {}).get(attribute, {"S": "-"})
            assert value["S"], f"{named} has an empty {attribute}"


def _index(name: str, partition: str, sort: str) -> dict[str, Any]:
    return {
        "IndexName": name,
        "KeySchema": _key_schema(partition, sort),
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }


def _key_schema(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


@contextmanager
def _one_call_at_a_time() -> Iterator[None]:
    from moto.core.botocore_stubber import BotocoreStubber

    lock = threading.RLock()
    unlocked = BotocoreStubber.__call__

    def locked(self: Any, event_name: str, request: Any, **kwargs: Any) -> Any:
        with lock:
            return unlocked(self, event_name, request, **kwargs)

    BotocoreStubber.__call__ = locked  # type: ignore[method-assign]
    try:
        yield
    finally:
        BotocoreStubber.__call__ = unlocked  # type: ignore[method-assign]
