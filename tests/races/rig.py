"""One deployment on either adapter set, whose workers race, and what must hold after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from perdure.agents.definition import AgentDefinition
from perdure.aws.leases import DynamoDBLeases
from perdure.aws.results import DynamoDBResults
from perdure.aws.table import Table
from perdure.core.expected import expected_dispatches, expected_timers
from perdure.embedded.turnstile import Turnstiles
from perdure.ports import Leases, Ports, Results, SessionStore
from perdure.service import Service
from perdure.steps.base import StepDeps
from perdure.testing.barriers import Race
from perdure.testing.fixtures import Outside, Stage, open_stage
from perdure.testing.moto import aws_in_process
from tests.contracts.dynamodb import a_store

ADAPTERS = ("sqlite", "dynamodb")


@dataclass
class Rig:
    """A stage, and workers that each act as a process of their own."""

    stage: Stage
    race: Race
    own_ports: Any

    def worker(self, name: str) -> StepDeps:
        """Return what a worker runs steps with; its port calls stop."""
        return replace(self.stage.deps, ports=self.race.around(self.own_ports(), name))

    def service(self, name: str) -> Service:
        """Return the service as another process offers it; its port calls stop."""
        return Service(self.worker(name))

    async def finish(self) -> None:
        """Let everything that is on its way end, and check what must hold in the end."""
        await self.race.free()
        await self.stage.run_all()
        head = await self.stage.head()
        assert (head.turn, expected_dispatches(head), expected_timers(head)) == (None, (), ())
        await self.check()

    async def check(self) -> None:
        """Check what holds after every commit: no gaps, and one result for each call."""
        entries = await self.stage.entries()
        head = await self.stage.head()
        assert [entry.version for entry in entries] == list(range(1, head.version + 1))
        events = [event.sequence for entry in entries for event in entry.events]
        assert events == list(range(1, head.event_sequence + 1))
        messages = [message for entry in entries for message in entry.messages]
        assert [message.sequence for message in messages] == list(range(1, head.message_sequence + 1))
        parts = [part for message in messages for part in message.parts]
        calls = [part["tool_call_id"] for part in parts if part["type"] == "tool_call"]
        results = Counter(part["tool_call_id"] for part in parts if part["type"] == "tool_result")
        assert results == Counter(calls)


@asynccontextmanager
async def open_rig(adapter: str, *agents: AgentDefinition) -> AsyncIterator[Rig]:
    """Open a deployment; queue and timers only collect what was sent.

    Args:
        adapter: `dynamodb`, or `sqlite`, where commands race for the file as they never do in one process; as they
            do there, through a turnstile, with `embedded`.
    """
    async with open_stage(*agents) as stage:
        race = Race(stage.clock)
        if adapter != "dynamodb":
            ports = stage.ports if adapter == "sqlite" else replace(stage.ports, turnstile=Turnstiles())
            async with race:
                yield Rig(stage, race, lambda: ports)
            return
        with aws_in_process() as aws:

            def own_ports() -> Ports:
                table = Table(aws.clients.dynamodb, aws.table)
                leases = DynamoDBLeases(table, stage.clock)
                return replace(
                    stage.ports,
                    store=cast(SessionStore, Outside(a_store(aws), stage.clock)),
                    leases=cast(Leases, Outside(leases, stage.clock)),
                    results=cast(Results, Outside(DynamoDBResults(table, stage.clock), stage.clock)),
                    in_process=False,
                )

            deps = replace(stage.deps, ports=own_ports())
            async with race:
                yield Rig(replace(stage, deps=deps, service=Service(deps)), race, own_ports)
