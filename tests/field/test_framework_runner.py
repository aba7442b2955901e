"""A runner that an application brings (spec CLIENT-06, MODEL-03 to MODEL-05, MODEL-23, MODEL-28)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure import AgentDefinition, ToolContext, ToolPolicy, function_tool
from perdure.agents.runner import AgentTurnContext, DeferredCall, ModelOutcome
from perdure.core.history import ModelItem, ToolResultItem, UserItem
from perdure.core.usage import CallUsage
from perdure.models.base import TextDelta
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.steps.builders import an_agent, failing


@function_tool(effect="read")
async def look(at: str) -> str:
    """Look."""
    raise AssertionError("the framework runs its tools itself")


class Framework:
    """Asks for two tools, then answers; keeps what it was given."""

    def __init__(self) -> None:
        self.contexts: list[AgentTurnContext] = []
        self.calls: list[tuple[ToolContext, dict[str, Any]]] = []

    async def run_model_step(self, agent: AgentDefinition, context: AgentTurnContext) -> ModelOutcome:
        self.contexts.append(context)
        results = [item.output for item in context.history if isinstance(item, ToolResultItem)]
        if results:
            await context.emit(TextDelta("I saw "))
            return ModelOutcome(ending="answer", text=f"I saw {' and '.join(results)}", metadata={"model": "secret"})
        return ModelOutcome(
            ending="tool_calls",
            calls=tuple(DeferredCall(tool_name="look", arguments_text=f'{{"at": "{at}"}}') for at in ("a", "b")),
            usage=CallUsage(input_tokens=3),
            run_state={"graph": "at node 2"},
        )

    async def execute_tool(self, agent: AgentDefinition, context: ToolContext, arguments: dict[str, Any]) -> str:
        self.calls.append((context, arguments))
        return f"what is at {arguments['at']}"


async def a_turn(framework: Framework, stage: Stage) -> None:
    await stage.send("Look around.")
    await stage.run_all()


async def test_a_framework_gets_its_own_state_back_and_its_calls_as_steps_of_their_own() -> None:
    framework = Framework()
    async with open_stage(an_agent(look, runner=framework)) as stage:
        await stage.send("Look around.")
        ran = [message.kind for message in await stage.run_all()]

        answer = (await stage.transcript())[-1]

    assert ran == ["run_model", "call_tool", "call_tool", "run_model"]
    assert [context.run_state for context in framework.contexts] == [None, {"graph": "at node 2"}]
    assert [arguments for _, arguments in framework.calls] == [{"at": "a"}, {"at": "b"}]
    assert answer == ("assistant", "I saw what is at a and what is at b")


async def test_a_framework_is_told_which_step_of_which_turn_it_runs_and_until_when() -> None:
    framework = Framework()
    async with open_stage(an_agent(look, runner=framework)) as stage:
        began = stage.clock.now()
        await a_turn(framework, stage)
        await stage.send("And again.")
        await stage.run_all()

    first, second, third = framework.contexts
    assert (first.tenant, first.session_id, first.turn_id, first.attempt) == ("local", "s-1", "turn-1", 1)
    assert first.history == (UserItem(text="Look around."),)
    assert first.deadline == began + timedelta(minutes=15)
    assert not first.abort.is_set()
    assert len({context.step_execution_id for context in (first, second, third)}) == 3
    assert third.turn_id == "turn-2"
    assert third.run_state is None  # it does not outlive its turn


async def test_what_a_framework_says_of_its_model_is_never_stored() -> None:
    framework = Framework()
    async with open_stage(an_agent(look, runner=framework)) as stage:
        await a_turn(framework, stage)

        stored = str(await stage.entries())

    assert "at node 2" in stored
    assert "secret" not in stored


class Failing(Framework):
    """Fails behind its tools, and has something to say of it later."""

    def __init__(self, *, raises: bool = False) -> None:
        super().__init__()
        self._raises = raises

    def unfinished_messages(self, run_state: dict[str, Any]) -> list[str]:
        if self._raises:
            raise KeyError("node")
        return [f"I was {run_state['graph']}."]

    async def run_model_step(self, agent: AgentDefinition, context: AgentTurnContext) -> ModelOutcome:
        outcome = await super().run_model_step(agent, context)
        if len(self.contexts) == 2:
            raise failing("invalid", retryable=False, status=400)
        return outcome


@pytest.mark.parametrize("raises", [False, True])
async def test_a_framework_has_its_say_of_a_turn_that_failed_before_the_note(raises: bool) -> None:
    """Spec SESS-09."""
    framework = Failing(raises=raises)
    async with open_stage(an_agent(look, runner=framework)) as stage:
        await a_turn(framework, stage)
        await stage.send("And now?", delivery="interrupt_next")
        await stage.run_all()

        stored = str(await stage.entries())

    *_, result, said, note, asked = ["", *framework.contexts[-1].history]
    assert asked == UserItem(text="And now?")
    assert isinstance(note, UserItem)
    assert "look (succeeded), look (succeeded)" in note.text
    if raises:
        assert isinstance(said, ToolResultItem)
    else:
        assert isinstance(result, ToolResultItem)
        assert said == ModelItem(text="I was at node 2.")
    assert "I was at node 2" not in stored
    assert [context.run_state for context in framework.contexts] == [None, {"graph": "at node 2"}, None]


class OwnTools(Framework):
    """Brings tools that the agent knows nothing of."""

    def __init__(self, *calls: DeferredCall) -> None:
        super().__init__()
        self._deferred = calls

    async def run_model_step(self, agent: AgentDefinition, context: AgentTurnContext) -> ModelOutcome:
        if any(isinstance(item, ToolResultItem) for item in context.history):
            return ModelOutcome(ending="answer", text="done")
        return ModelOutcome(ending="tool_calls", calls=self._deferred)

    async def execute_tool(self, agent: AgentDefinition, context: ToolContext, arguments: dict[str, Any]) -> str:
        self.calls.append((context, arguments))
        return f"{context.tool_name} {arguments}"


async def test_a_frameworks_own_tools_run_as_durable_steps_under_the_agents_policies() -> None:
    framework = OwnTools(
        DeferredCall(tool_name="browse", arguments_text='{"at": "a"}'),
        DeferredCall(tool_name="post", arguments_text=""),
        DeferredCall(tool_name="post", arguments_text='{"at":'),
    )
    agent = an_agent(look, runner=framework, tool_policies={"browse": ToolPolicy(effect="read")})
    async with open_stage(agent) as stage:
        await stage.send("Look around.")
        await stage.run_all()
        waiting = (await stage.snapshot())["pending_interrupts"]
        await stage.approve(waiting[0]["interrupt_id"])
        ran = [message.kind for message in await stage.run_all()]

        browse, post, broken = (await stage.snapshot())["tool_calls"]

    assert [interrupt["tool_name"] for interrupt in waiting] == ["post"]
    assert (browse["effect"], browse["output"]) == ("read", "browse {'at': 'a'}")
    assert (post["effect"], post["output"]) == ("unclassified", "post {}")
    assert (broken["status"], broken["error"]) == ("failed", "invalid post arguments: not valid JSON")
    assert ran == ["call_single_attempt_tool", "run_model"]


async def test_a_rule_of_the_agent_decides_on_a_frameworks_own_tool_by_its_arguments() -> None:
    framework = OwnTools(
        DeferredCall(tool_name="post", arguments_text='{"to": "me"}'),
        DeferredCall(tool_name="post", arguments_text='{"to": "all"}'),
    )
    policy = ToolPolicy(requires_approval=lambda arguments: "approved" if arguments["to"] == "me" else "ask")
    async with open_stage(an_agent(runner=framework, tool_policies={"post": policy})) as stage:
        await stage.send("Post it.")
        await stage.run_all()

        (waiting,) = (await stage.snapshot())["pending_interrupts"]

    assert waiting["arguments"] == {"to": "all"}


async def test_a_name_that_no_provider_would_take_back_is_no_tool_of_a_frameworks() -> None:
    framework = OwnTools(DeferredCall(tool_name="post it!"))
    async with open_stage(an_agent(runner=framework)) as stage:
        await stage.send("Post it.")
        await stage.run_all()

        (call,) = (await stage.snapshot())["tool_calls"]

    assert (call["tool_name"], call["status"]) == ("post_it_", "failed")
    assert framework.calls == []
