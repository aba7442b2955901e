"""The agents of the scenarios. Models and tools are scripted; whatever they do outside goes through the world."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import get_args

from perdure.agents.definition import AgentDefinition
from perdure.agents.policies import Effect, ToolPolicy
from perdure.agents.runner import Generation
from perdure.agents.stop_policies import stop_after
from perdure.agents.tools import FunctionTool, ToolContext, function_tool
from perdure.core.history import ToolResultItem
from perdure.errors import ModelCallError
from perdure.models.base import Finish, ModelRequest, StreamItem, TextDelta
from perdure.models.scripted import Reply, ScriptedModel, call
from perdure.testing.simulation.world import World

Build = Callable[[World], AgentDefinition]

READ: Effect = "read"
IDEMPOTENT: Effect = "idempotent_write"
ONCE: Effect = "non_idempotent_write"


def agent(
    *tools: tuple[str, Effect],
    calls: int = 1,
    asks: bool = False,
    deadline: timedelta | None = None,
    tool_takes: float = 0.0,
    model_takes: float = 0.0,
    answer_takes: float = 0.0,
    delta_takes: float = 0.0,
    output: str = "done",
    inline: bool = False,
    pieces: int = 0,
    stops: bool = False,
    accepts: bool = True,
    fails_at: int = 0,
    fails_as: str = "invalid",
) -> Build:
    """Return what builds an agent that calls its tools, all at once, and then answers.

    Args:
        tools: Name and effect of each.
        calls: How often one response calls each tool.
        asks: Whether a person has to approve each call.
        deadline: How long they have.
        tool_takes: Seconds of virtual time that a body takes.
        model_takes: The same of the model's first request of a turn.
        answer_takes: The same of its answer to what the tools found.
        delta_takes: The same of each piece of text that it streams; `in-answer` is reached before the third one.
        output: What each tool returns.
        inline: Whether the model's function may run them itself.
        pieces: How many checkpoints each body saves; its next attempt goes on behind the last that it finds.
        stops: Whether a stop policy ends the turn once a tool has succeeded.
        accepts: Whether the agent's check accepts the answer.
        fails_at: Which request of the provider fails for good, from 1, counted over the whole run; 0: none.
        fails_as: How: a kind of `ModelCallError`, or the finish of an answer that is none.
    """

    def build(world: World) -> AgentDefinition:
        async def script(request: ModelRequest) -> Reply:
            answers = isinstance(request.messages[-1], ToolResultItem) or not tools
            number = await world.provider(takes=answer_takes if answers and tools else model_takes)
            if number == fails_at:
                return _no_answer(fails_as)
            if answers:
                return Reply(text="All done, thank you for your patience.")
            return Reply(text="Let me see.", calls=tuple(call(name) for name, _ in tools for _ in range(calls)))

        made = [_tool(world, name, effect, asks, tool_takes, output, inline, pieces) for name, effect in tools]
        policies = {name: ToolPolicy(approval_deadline=deadline) for name, _ in tools} if deadline else {}

        async def generate(asked: Generation) -> AsyncIterator[StreamItem]:
            shown = 0
            async for item in asked.client.stream(asked.request):
                shown += isinstance(item, TextDelta)
                if shown == 3:
                    await world.reach("in-answer")
                yield item

        model = ScriptedModel(script, clock=world.clock, delay=timedelta(seconds=delta_takes))
        return AgentDefinition(
            name="simulated",
            model=model,
            generate=generate if delta_takes else None,
            tools=made,
            tool_policies=policies,
            stop_policies=[stop_after(name) for name, _ in tools] if stops else (),
            acceptance="allow_empty" if accepts else lambda _: "the answer is not what was asked for",
        )

    return build


def _no_answer(how: str) -> Reply:
    finish: Finish | None = next((finish for finish in get_args(Finish) if finish == how), None)
    if finish is not None:
        return Reply(text="All do", finish=finish)
    raise ModelCallError(f"the provider failed: {how}", kind=how, retryable=False)


def _tool(
    world: World, name: str, effect: Effect, asks: bool, takes: float, output: str, inline: bool, pieces: int
) -> FunctionTool:
    @function_tool(
        name=name, effect=effect, requires_approval=asks, inline=inline, description="Does what it is called."
    )
    async def body(context: ToolContext) -> str:
        await world.piecework(context, pieces)
        await world.tool(context, takes=takes)
        return output

    return body


def failing_model(*, times: int, retryable: bool, retry_after: float | None = None) -> Build:
    """Return what builds an agent whose provider fails a number of times before it answers.

    Args:
        retry_after: Seconds that it asks for each time.
    """

    def build(world: World) -> AgentDefinition:
        async def script(_: ModelRequest) -> str:
            number = await world.provider()
            if number <= times:
                kind = "timeout" if retryable else "invalid"
                raise ModelCallError(
                    f"the provider failed: {kind}", kind=kind, retryable=retryable, retry_after_seconds=retry_after
                )
            return "Here I am again."

        return AgentDefinition(name="simulated", model=ScriptedModel(script, clock=world.clock))

    return build
