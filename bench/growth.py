"""How a turn on AWS grows with its parallel tools: units, commits that lost a race, and the time to settle them.

The handlers overlap as in `bench.latency`, so that results race for HEAD as they would.
"""

from __future__ import annotations

import os
from typing import Any

from bench.latency import deployment
from bench.workload import SLOW_TOOL_SECONDS, user_text
from perdure.testing.counting import AwsCounter
from perdure.testing.latency import HOP, LatencyModel, TimedCall
from perdure.testing.overlapping import OverlappingHarness

PARALLEL = (1, 2, 4, 8, 16, 32, 64)
"""Tools in one answer of the model; 64 is the most (design §3)."""

SETTLE_BUDGET_SECONDS = 0.5
UNITS_BUDGET = 1500
"""For 64 results (issue 3): until all are committed, and write units of the whole turn."""


def measure() -> dict[str, Any]:
    """Run one turn of each width, each in a deployment of its own."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "bench")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "bench")
    return {f"{number} tools": _turn(number) for number in PARALLEL}


def _turn(number: int) -> dict[str, Any]:
    with deployment(LatencyModel()) as harness:
        counter = AwsCounter()
        for client in (harness.aws.clients.dynamodb, harness.aws.clients.sqs):
            counter.attach(client)
        harness.send("wide", user_text(1), key="m-1")
        counter.take()
        harness.latency.reseed(number)
        harness.timed.clear()
        harness.send("wide", user_text(2, f"parallel{number}"), key="m-2")
        used = counter.take()
        tools = sum((call.operation, call.kind) == (HOP, "call_tool") for call in harness.latency.calls)
        assert tools >= number, f"the model asked for {tools} tools instead of {number}"
        commits = [c for c in harness.latency.calls if (c.operation, c.kind) == ("dynamodb.UpdateItem", "HEAD")]
        progress = used.write_units_of["PROG"]
        return {
            "write_units": used.all_write_units - progress,
            "write_units_of": {**dict(sorted(used.write_units_of.items())), "indexes": used.index_write_units},
            "progress_write_units": progress,
            "read_units": used.read_units,
            "messages": used.calls["sqs.SendMessage"],
            "invocations": len(harness.timed),
            "commits": sum(not commit.failed for commit in commits),
            "commits_that_lost_a_race": sum(commit.failed for commit in commits),
            "settled_in_ms": round(_settled(harness, commits) * 1000, 1),
        }


def _settled(harness: OverlappingHarness, commits: list[TimedCall]) -> float:
    """Return the time from the end of the first tool to the commit of the last result, in seconds."""
    tools = [done for done in harness.timed if done.function == "call_tool"]
    held = sorted(commit.ended for commit in commits if not commit.failed)
    last_result = held[-2]  # the one after it is the model's answer
    claims = [c for c in harness.latency.calls if c.kind == "LEASE" and c.began >= min(tool.began for tool in tools)]
    return last_result - (min(claim.ended for claim in claims) + SLOW_TOOL_SECONDS)
