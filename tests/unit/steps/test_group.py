"""The group commit: outcomes of many parallel calls share commits (design §3, races.md X14)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from perdure import function_tool
from perdure.core.commands import ToolFinished
from perdure.core.decision import Decision
from perdure.core.limits import LEASE_DURATION, LEASE_GRACE
from perdure.errors import DatabaseUnusableError
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.ports import Loaded, SessionKey, SessionStore
from perdure.steps.base import StepMessage
from perdure.steps.group import ALONE_UP_TO, MAX_GROUPED_BYTES
from perdure.steps.recover import sweep_session
from perdure.testing.fixtures import SESSION, CollectingResults, Stage, open_stage
from tests.unit.steps.builders import an_agent


@function_tool(effect="read")
async def look(number: int) -> str:
    """Look at one of many."""
    return f"seen {number}"


@function_tool(effect="read", name="look")
async def look_at_much(number: int) -> str:
    """Look at one of many, and see a lot."""
    return str(number) * (MAX_GROUPED_BYTES + 1)


def asking(calls: int) -> ScriptedModel:
    wanted = tuple(call("look", number=number) for number in range(calls))
    return ScriptedModel(lambda request: "done" if tool_results(request) else Reply(calls=wanted))


async def run_together(stage: Stage) -> None:
    """Run everything that is in the queue side by side."""
    messages = [stage.taken() for _ in range(len(stage.queue.sent))]
    await stage.clock.run(asyncio.wait_for(_all(stage, messages), None))


async def _all(stage: Stage, messages: list[StepMessage]) -> None:
    from perdure.testing.fixtures import STEPS

    steps = (STEPS[message.kind](stage.deps, message) for message in messages)
    for failed in await asyncio.gather(*steps, return_exceptions=True):
        assert failed is None or isinstance(failed, DatabaseUnusableError)


async def kinds(stage: Stage) -> list[str]:
    return [entry.kind for entry in await stage.entries()]


async def test_many_outcomes_at_once_share_commits() -> None:
    async with open_stage(an_agent(look, model=asking(64)), results=CollectingResults()) as stage:
        await stage.send("go")
        await stage.run_next()

        await run_together(stage)
        await stage.run_all()

        assert len((await stage.snapshot())["tool_calls"]) == 64
        ran = await kinds(stage)
        assert 1 <= ran.count("tools_finished") <= 32
        assert "tool_finished" not in ran
        assert (await stage.transcript())[-1] == ("assistant", "done")


async def test_few_outcomes_are_committed_alone() -> None:
    results = CollectingResults()
    async with open_stage(an_agent(look, model=asking(ALONE_UP_TO)), results=results) as stage:
        await stage.send("go")
        await stage.run_next()

        await run_together(stage)

        assert results.put_count == 0
        assert (await kinds(stage)).count("tool_finished") == ALONE_UP_TO


async def test_an_outcome_that_is_too_large_to_wait_is_committed_alone() -> None:
    results = CollectingResults()
    async with open_stage(an_agent(look_at_much, model=asking(6)), results=results) as stage:
        await stage.send("go")
        await stage.run_next()

        await run_together(stage)

        assert results.put_count == 0
        assert (await kinds(stage)).count("tool_finished") == 6


async def test_a_worker_whose_outcome_another_one_took_along_commits_nothing() -> None:
    async with open_stage(an_agent(look, model=asking(6)), results=CollectingResults()) as stage:
        await stage.send("go")
        await stage.run_next()
        await run_together(stage)

        entries = [entry for entry in await stage.entries() if entry.kind == "tools_finished"]

        taken = [part["tool_call_id"] for entry in entries for m in entry.messages for part in m.parts]
        assert sorted(taken) == [f"call-2-{number}" for number in range(6)]


async def test_the_sweep_commits_an_outcome_whose_worker_died_before_its_commit() -> None:
    results = CollectingResults()
    async with open_stage(an_agent(look, model=asking(6)), results=results) as stage:
        await stage.send("go")
        await stage.run_next()
        message = stage.taken()
        now = stage.clock.now()
        await stage.leases.claim(SESSION, message.step_id, 1, "dead", now + LEASE_DURATION)
        done = ToolFinished(
            turn_id="turn-1", call_id=message.step_id, attempt=1, started_at=now, outcome="succeeded", output="known"
        )
        await results.put(SESSION, done)

        await stage.clock.advance((LEASE_DURATION + LEASE_GRACE + timedelta(seconds=1)).total_seconds())
        await sweep_session(stage.deps, SESSION)

        calls = {call["tool_call_id"]: call for call in (await stage.snapshot())["tool_calls"]}
        assert calls[message.step_id]["output"] == "known"
        assert calls[message.step_id]["attempt"] == 1


async def test_in_one_process_outcomes_of_one_moment_share_a_commit() -> None:
    async with open_stage(an_agent(look, model=asking(8))) as stage:
        await stage.send("go")
        await stage.run_next()

        await run_together(stage)
        await stage.run_all()

        ran = await kinds(stage)
        assert ran.count("tools_finished") == 1
        assert "tool_finished" not in ran
        assert [call["output"] for call in (await stage.snapshot())["tool_calls"]] == [f"seen {n}" for n in range(8)]
        assert (await stage.transcript())[-1] == ("assistant", "done")


class FailsOnce:
    """A store that refuses the first commit of several outcomes."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, key: SessionKey, loaded: Loaded, decision: Decision) -> Loaded:
        assert decision.entry is not None
        if decision.entry.kind == "tools_finished" and not self.refused:
            self.refused = len(decision.entry.messages)
            raise DatabaseUnusableError("the file may not be written")
        return await self._store.commit(key, loaded, decision)


async def test_when_a_shared_commit_fails_each_of_the_others_tries_for_itself() -> None:
    stores: list[FailsOnce] = []

    def wrapped(store: SessionStore) -> FailsOnce:
        stores.append(FailsOnce(store))
        return stores[0]

    async with open_stage(an_agent(look, model=asking(6)), wrap_store=wrapped) as stage:
        await stage.send("go")
        await stage.run_next()

        await run_together(stage)

        assert stores[0].refused == 6
        calls = (await stage.snapshot())["tool_calls"]
        assert sorted(call["status"] for call in calls) == ["approved"] + ["succeeded"] * 5
