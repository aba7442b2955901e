"""Several agents in one deployment: a session's agent is its name, which is kept, and may be missing for a while."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import AgentDefinition
from perdure.errors import InvalidRequestError, RequestConflictError
from perdure.models.scripted import ScriptedModel, user_texts
from perdure.testing.fixtures import open_stage, redeployed
from tests.unit.steps.builders import an_agent


def an_echo(name: str) -> AgentDefinition:
    agent: AgentDefinition = an_agent(
        name=name, model=ScriptedModel(lambda request: f"{name} says {user_texts(request)[-1]}")
    )
    return agent


async def test_each_session_is_answered_by_the_agent_that_it_names() -> None:
    async with open_stage(an_echo("sales"), an_echo("support")) as stage:
        await stage.send("one", "s-1")
        await stage.send("two", "s-2", agent="support")
        await stage.run_all()
        await stage.send("three", "s-2")
        await stage.run_all()

        assert await texts(stage) == ["one", "sales says one"]
        assert await texts(stage, "s-2") == ["two", "support says two", "three", "support says three"]
        with pytest.raises(RequestConflictError) as mismatch:
            await stage.send("four", "s-2", agent="sales")
        assert mismatch.value.code == "agent_mismatch"
        with pytest.raises(InvalidRequestError, match=r"'hr' is not part of this deployment: use 'sales', 'support'"):
            await stage.send("five", "s-3", agent="hr")


async def test_another_object_of_the_same_name_is_the_same_agent() -> None:
    async with open_stage(an_echo("support")) as stage:
        await stage.send("one")
        anew = redeployed(stage, an_agent(name="support", model=ScriptedModel(lambda _: "the new one")))

        await anew.run_all()

        assert (await anew.transcript())[-1] == ("assistant", "the new one")


async def test_an_agent_that_was_taken_away_fails_its_turns_with_a_clear_error_and_loses_nothing() -> None:
    async with open_stage(an_echo("sales"), an_echo("support")) as stage:
        await stage.send("one", agent="support")
        without = redeployed(stage, an_echo("sales"))
        await without.run_all()
        waiting = await without.send("two")

        state = (await without.snapshot())["state"]
        assert state["last_turn_error"]["code"] == "configuration"
        assert "'support' is not part of this deployment: deploy it again" in state["last_turn_error"]["message"]
        assert state["held"]
        assert "turn_id" not in waiting
        others = await without.send("hello", "s-2")
        await without.run_all()
        assert others["turn_id"] == "turn-1"
        assert await texts(without, "s-2") == ["hello", "sales says hello"]

        again = redeployed(stage, an_echo("sales"), an_echo("support"))
        await again.session().retry()
        await again.run_all()

        assert await texts(again) == ["one", "support says one", "two", "support says two"]


async def texts(stage: Any, session_id: str = "s-1") -> list[str]:
    return [m["parts"][0]["text"] for m in (await stage.snapshot(session_id))["messages"]]
