"""What a T1 turn costs on AWS, counted at the clients while the real handlers run under moto on virtual time."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from bench.workload import agent, user_text
from perdure.agents.definition import AgentRegistry
from perdure.testing.counting import AwsCounter, Usage
from perdure.testing.lambda_harness import LambdaHarness
from perdure.testing.moto import aws_in_process

MEASURED_TURNS = (10, 300)
FUNCTIONS = Path(__file__).parent.parent / "functions"


def measure() -> dict[str, Any]:
    """Run turns on one session, and count those that are measured."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "bench")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "bench")
    counted = {}
    with aws_in_process() as aws:
        counter = AwsCounter()
        for client in (aws.clients.dynamodb, aws.clients.sqs, aws.clients.s3, aws.clients.scheduler):
            counter.attach(client)
        harness = LambdaHarness(aws, AgentRegistry([agent()]), FUNCTIONS)
        for turn in range(1, max(MEASURED_TURNS) + 1):
            row = _turn(harness, counter, turn)
            if turn in MEASURED_TURNS:
                counted[f"turn_{turn}"] = row
    return counted


def _turn(harness: LambdaHarness, counter: AwsCounter, turn: int) -> dict[str, Any]:
    counter.take()
    before = _invocations(harness)
    reply = harness.gateway.http("POST", "/v1/sessions/bench/inputs", {"text": user_text(turn)}, key=f"m-{turn}")
    assert reply.status == 202, reply.body
    admission = counter.take()
    harness.settle()
    steps = counter.take()
    after = _invocations(harness)
    snapshot = harness.gateway.http("GET", "/v1/sessions/bench").body
    assert snapshot["state"]["turn_count"] == turn
    assert "turn_id" not in snapshot["state"]
    return _row(admission, steps, after - before)


def _invocations(harness: LambdaHarness) -> Counter[str]:
    return Counter(done.function for done in harness.invocations)


def _row(admission: Usage, steps: Usage, invocations: Counter[str]) -> dict[str, Any]:
    calls = admission.calls + steps.calls
    units = admission.write_units_of + steps.write_units_of
    progress = units.pop("PROG", 0)
    index = admission.index_write_units + steps.index_write_units
    updates = calls["dynamodb.UpdateItem"]
    return {
        "calls": dict(sorted(calls.items())),
        "transactions": calls["dynamodb.TransactWriteItems"],
        "head_updates": updates,
        "write_units": sum(units.values()) + index,
        "write_units_of": {**dict(sorted(units.items())), "indexes": index},
        "progress_write_units": progress,
        "read_units": admission.read_units + steps.read_units,
        "bytes_sent": admission.bytes_sent + steps.bytes_sent,
        "sqs_sends": calls["sqs.SendMessage"],
        "invocations": {name: count for name, count in sorted(invocations.items()) if name != "sweep"},
    }
