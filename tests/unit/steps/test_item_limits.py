"""What no place can hold ends its step at once: nobody asks the model again, and no tool runs again (spec STORE-03)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from perdure.core.codec import encode
from perdure.errors import ItemTooLargeError, ToolExecutionError
from perdure.models.base import TextDelta
from perdure.models.scripted import Reply, ScriptedModel, call
from perdure.steps.run_model import run_model
from perdure.testing.fixtures import open_stage
from tests.unit.steps.bodies import Body, a_tool
from tests.unit.steps.builders import HangingModel, an_agent, asking_for

LIMIT = 4_000
LARGE = "x" * LIMIT


class Narrow:
    """A store that holds no entry over `LIMIT` bytes."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, key: Any, loaded: Any, decision: Any) -> Any:
        size = len(json.dumps(encode(decision.entry)))
        if size > LIMIT:
            raise ItemTooLargeError(f"this commit adds {size} bytes, of {LIMIT}: nothing was written")
        return await self._store.commit(key, loaded, decision)


@pytest.mark.parametrize(
    "reply",
    [Reply(text=LARGE), Reply(reasoning=LARGE, text="short"), Reply(calls=(call("work", text=LARGE),))],
    ids=["text", "reasoning", "arguments"],
)
async def test_an_answer_that_fits_nowhere_fails_its_turn_at_once_and_its_usage_counts(reply: Reply) -> None:
    model = ScriptedModel(lambda _: reply)
    async with open_stage(an_agent(a_tool(Body()), model=model), wrap_store=Narrow) as stage:
        await stage.send("go")
        await stage.run_all()

        error = (await stage.snapshot())["state"]["last_turn_error"]
        assert error["code"] == "internal"
        assert "bytes" in error["message"]
        assert f"of {LIMIT}" in error["message"]
        assert len(model.requests) == 1
        assert (await stage.head()).usage.model_calls == 1
        assert [role for role, _ in await stage.transcript()] == ["user"]


async def test_a_stopped_answer_that_fits_nowhere_still_ends_its_turn() -> None:
    model = HangingModel(TextDelta(LARGE))
    async with open_stage(an_agent(model=model), wrap_store=Narrow) as stage:
        await stage.send("go")
        running = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await stage.clock.settle()
        assert model.waiting.is_set()
        await stage.stop()
        await stage.clock.advance(2)

        assert running.done()
        assert (await stage.event_types())[-1] == "turn_cancelled"
        assert (await stage.head()).usage.model_calls == 1
        assert model.calls == 1


@pytest.mark.parametrize(
    ("effect", "outcome", "status", "text"),
    [
        ("read", LARGE, "failed", "the output of work has 4000 bytes"),
        ("idempotent_write", LARGE, "succeeded", "[Perdure] The tool succeeded, but the output of work has 4000 bytes"),
        ("unclassified", LARGE, "succeeded", "[Perdure] The tool succeeded, but the output of work has 4000 bytes"),
        ("unclassified", ToolExecutionError(LARGE), "failed", "work failed; its message has 4000 bytes"),
    ],
)
async def test_an_output_that_fits_nowhere_is_told_as_its_size_and_the_tool_ran_once(
    effect: str, outcome: Any, status: str, text: str
) -> None:
    body = Body(outcome)
    agent = an_agent(a_tool(body, effect), model=asking_for("work"))
    async with open_stage(agent, wrap_store=Narrow) as stage:
        await stage.send("go")
        await stage.run_all()

        got_status, output = (await stage.results())["work"]
        assert got_status == status
        assert output.startswith(text)
        assert f"of {LIMIT}" in output
        assert body.runs == 1
        assert (await stage.event_types())[-1] == "turn_completed"
