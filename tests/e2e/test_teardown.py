"""The end: what `sam delete` takes away and what it keeps."""

from __future__ import annotations

import asyncio

from tests.e2e.world import World


async def test_a_deleted_stack_leaves_the_conversations_and_nothing_else(world: World) -> None:
    kept = {name: world.stack.ids[name] for name in ("SessionsTable", "BodiesBucket")}
    await asyncio.to_thread(world.stack.delete)

    assert world.stack.status() is None
    assert world.stack.client("lambda").list_functions()["Functions"] == []
    assert world.stack.client("lambda").list_event_source_mappings()["EventSourceMappings"] == []
    assert world.stack.client("apigatewayv2").get_apis()["Items"] == []
    assert world.stack.client("sqs").list_queues().get("QueueUrls", []) == []
    groups = world.stack.client("scheduler").list_schedule_groups()["ScheduleGroups"]
    assert {group["Name"] for group in groups} <= {"default"}
    assert world.stack.client("cloudwatch").describe_alarms()["MetricAlarms"] == []
    rows = world.stack.client("dynamodb").scan(TableName=kept["SessionsTable"], Limit=1)["Items"]
    assert rows, "conversations outlive a mistake"
    world.stack.client("s3").head_bucket(Bucket=kept["BodiesBucket"])
