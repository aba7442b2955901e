"""What a T1 turn costs on AWS, counted at the clients while the real handlers run under moto on virtual time.

Also how that grows with the conversation: the same turn behind up to 2,000 others.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from bench.workload import agent, user_text
from perdure.agents.definition import AgentRegistry
from perdure.aws.bootstrap import Runtime
from perdure.aws.settings import Settings
from perdure.core.entries import Actor
from perdure.core.expected import Dispatch, expected_dispatches
from perdure.embedded.live import EmbeddedLive
from perdure.ports import Ports, SessionKey
from perdure.service import Caller, Service
from perdure.sinks import EventSink
from perdure.steps.base import StepDeps, StepMessage
from perdure.steps.call_tool import call_tool
from perdure.steps.run_model import run_model
from perdure.testing.counting import AwsCounter, Usage
from perdure.testing.gateway import ISSUER
from perdure.testing.lambda_harness import LambdaHarness
from perdure.testing.moto import AwsInProcess, aws_in_process
from perdure.testing.simulation.wire import shorten
from perdure.testing.virtual_time import VirtualLoop

SESSION = "bench"
MEASURED_TURNS = tuple(map(int, os.environ.get("PERDURE_BENCH_TURNS", "10,100,300,1000,2000").split(",")))
"""Turns of one session at which is counted. The long ones take minutes, because moto gets slow as its table grows."""

COUNTED_TURNS = 6
"""Turns counted from there on, of which the mean is taken: a tail is settled every turn and a half."""

FUNCTIONS = Path(__file__).parent.parent / "functions"

HARNESS_CALLS = ("dynamodb.Scan", "scheduler.ListSchedules", "sqs.ReceiveMessage", "sqs.DeleteMessage")
"""Calls of the harness, which plays the parts of Lambda's poller and of the scheduler."""

STEP_SECONDS = 0.06
"""Time from one invocation to the next. If none passed, index entries that move with the time would not be counted."""

_STEPS = {"run_model": run_model, "call_tool": call_tool}


@cache
def measure() -> dict[str, Any]:
    """Count the measured turns through the handlers; those between them only have to be there. Counted once."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "bench")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "bench")
    first = MEASURED_TURNS[:1]
    return {
        **_measure("turn", turns=MEASURED_TURNS),
        **_measure("hot_turn", turns=first, hot=True),
        **_measure("turn_with_a_sink", turns=first, sinks=[EventSink("audit", lambda _: None)]),
    }


def _measure(
    name: str, *, turns: tuple[int, ...], hot: bool = False, sinks: Sequence[EventSink] = ()
) -> dict[str, Any]:
    counted = {}
    with aws_in_process() as aws:
        counter = AwsCounter()
        for client in (aws.clients.dynamodb, aws.clients.sqs, aws.clients.s3, aws.clients.scheduler):
            counter.attach(client)
        shorten(aws.clients.dynamodb)
        shorten(aws.clients.sqs)
        agents = AgentRegistry([agent(hot=hot)])
        harness = LambdaHarness(aws, agents, FUNCTIONS, sinks=sinks)
        harness.before_invocation = lambda _function, _event: harness.clock.advance(STEP_SECONDS)
        done = 0
        for turn in turns:
            _fill(aws, harness, agents, first=done + 1, last=turn - 3)
            for warming in (turn - 2, turn - 1):
                _turn(harness, counter, warming)
            last = turn + COUNTED_TURNS - 1
            rows = [_turn(harness, counter, number) for number in range(turn, last + 1)]
            counted[f"{name}_{turn}"] = _mean(rows)
            done = last
    return counted


class _NoQueue:
    """Sends nothing: whoever fills a session runs the steps that it expects."""

    async def send(self, key: SessionKey, dispatch: Dispatch) -> None:
        """Leave it."""


def _fill(aws: AwsInProcess, harness: LambdaHarness, agents: AgentRegistry, *, first: int, last: int) -> None:
    """Run turns on the real store without the handlers, which is quicker."""
    runtime = Runtime(
        Settings.from_environment(aws.environment()), clients=aws.clients, clock=harness.clock, agents=agents
    )
    loop = VirtualLoop(harness.clock)
    try:
        # Nobody watches, and moto's queries for viewers get slower with every item of the table.
        ports = replace(runtime.ports, queue=_NoQueue(), live=EmbeddedLive(harness.clock))
        loop.run_until_complete(_run_turns(ports, agents, first, last))
    finally:
        loop.close()


async def _run_turns(ports: Ports, agents: AgentRegistry, first: int, last: int) -> None:
    deps = StepDeps(ports=ports, agents=agents)
    service = Service(deps)
    caller = Caller(tenant="acme", actor=Actor(issuer=ISSUER, subject="ann"))
    key = SessionKey("acme", SESSION)
    for turn in range(first, last + 1):
        await service.send_input(caller, SESSION, text=user_text(turn), idempotency_key=f"m-{turn}")
        while dispatches := expected_dispatches((await ports.store.load(key)).head):
            for dispatch in dispatches:
                await _STEPS[dispatch.kind](deps, StepMessage.of(key, dispatch))


def _turn(harness: LambdaHarness, counter: AwsCounter, turn: int) -> dict[str, Any]:
    counter.take()
    before = _invocations(harness)
    reply = harness.gateway.http("POST", f"/v1/sessions/{SESSION}/inputs", {"text": user_text(turn)}, key=f"m-{turn}")
    assert reply.status == 202, reply.body
    admission = counter.take()
    harness.settle()
    steps = counter.take()
    after = _invocations(harness)
    snapshot = harness.gateway.http("GET", f"/v1/sessions/{SESSION}").body
    assert snapshot["state"]["turn_count"] == turn
    assert "turn_id" not in snapshot["state"]
    return _row(admission, steps, after - before)


def _mean(rows: list[Any]) -> Any:
    """Return the mean of each figure of these rows, rounded to hundredths; a figure that a row lacks is 0 there."""
    if not isinstance(rows[0], dict):
        return round(sum(rows) / len(rows), 2)
    names = dict.fromkeys(name for row in rows for name in row)
    missing: dict[str, Any] = {name: {} for row in rows for name, value in row.items() if isinstance(value, dict)}
    return {name: _mean([row.get(name, missing.get(name, 0)) for row in rows]) for name in names}


def _invocations(harness: LambdaHarness) -> Counter[str]:
    return Counter(done.function for done in harness.invocations)


def _row(admission: Usage, steps: Usage, invocations: Counter[str]) -> dict[str, Any]:
    calls = admission.calls + steps.calls
    units = admission.write_units_of + steps.write_units_of
    progress = units.pop("PROG", 0)
    index = admission.index_write_units + steps.index_write_units
    updates = calls["dynamodb.UpdateItem"]
    return {
        "calls": {name: count for name, count in sorted(calls.items()) if name not in HARNESS_CALLS},
        "transactions": calls["dynamodb.TransactWriteItems"],
        "head_updates": updates,
        "write_units": sum(units.values()) + index,
        "write_units_of": {**dict(sorted(units.items())), "indexes": index},
        "progress_write_units": progress,
        "read_units": admission.read_units + steps.read_units,
        "sqs_sends": calls["sqs.SendMessage"],
        "invocations": {name: count for name, count in sorted(invocations.items()) if name != "sweep"},
    }
