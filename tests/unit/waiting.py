"""Agents that wait for something, for tests of answers and waits."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from perdure import AgentDefinition, function_tool
from perdure.agents.tools import ToolContext
from perdure.agents.waiting import TaskPending, ToolInputRequested, ToolTask
from perdure.core.codec import format_time
from perdure.errors import RequestError
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.testing.fixtures import Stage
from tests.unit.steps.builders import an_agent


def calling(*calls: Any) -> ScriptedModel:
    """A model that makes these calls in one response, and answers when all results are there."""
    return ScriptedModel(lambda request: "done" if tool_results(request) else Reply(calls=calls))


def an_asker(
    question: str = "Which colour?", deadline: timedelta | None = None, *, inbox: Any = None, **arguments: Any
) -> AgentDefinition:
    """An agent whose model asks the user one question."""
    more = {} if inbox is None else {"inbox": inbox}
    model = calling(call("ask_user", question=question, **arguments))
    return an_agent(model=model, built_in_tools=["ask_user"], question_deadline=deadline, **more)


def a_sleeper(seconds: float = 3600, **arguments: Any) -> AgentDefinition:
    """An agent whose model waits for a time."""
    return an_agent(
        model=calling(call("durable_wait", duration_seconds=seconds, **arguments)), built_in_tools=["durable_wait"]
    )


@function_tool(effect="idempotent_write", requires_approval=False)
async def deploy(target: str, context: ToolContext) -> str:
    """Deploy something: asks where, sleeps, and waits for the word that it is done."""
    if not context.answers:
        raise ToolInputRequested("Which region?", choices=["eu", "us"], allows_free_text=False)
    await context.sleep("cool-down", timedelta(hours=1))
    done = await context.wait_for_event("deployed")
    return f"{target} in {context.answers[0].answer}: {done}"


class Remote:
    """Remote work: looked at until it is done, and it may ask."""

    def __init__(self, every: timedelta = timedelta(minutes=1), asks: bool = False) -> None:
        self.done: str | None = None
        self.cancelled: list[str] = []
        self.heard: list[Any] = []

        async def poll(task_id: str, context: ToolContext) -> Any:
            if context.resolution is not None:
                self.heard.append(context.resolution.answer)
            elif asks and not self.heard:
                raise ToolInputRequested("Go on?", choices=["yes", "no"])
            return TaskPending() if self.done is None else self.done

        async def cancel(task_id: str, context: ToolContext) -> None:
            self.cancelled.append(task_id)

        @function_tool(effect="non_idempotent_write", requires_approval=False, poll=poll, cancel=cancel)
        async def render() -> ToolTask:
            return ToolTask("job-1", every)

        self.tool = render

    def agent(self) -> AgentDefinition:
        return an_agent(self.tool, model=calling(call("render")))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


# --- what a test of waits does again and again ------------------------------------------------------------------------

WAIT = "call-2-0"


async def waits(stage: Stage) -> list[dict[str, Any]]:
    return await stage.session().waits()


async def only_wait(stage: Stage) -> dict[str, Any]:
    (wait,) = await waits(stage)
    return wait


async def begun(stage: Stage) -> None:
    await stage.send("go")
    await stage.run_next()


async def refusal(awaitable: Any) -> tuple[type[RequestError], str]:
    with pytest.raises(RequestError) as caught:
        await awaitable
    return type(caught.value), caught.value.code


def operations(wait: dict[str, Any]) -> list[str]:
    return [call["operation"] for call in wait["calls"]]


def now(stage: Stage, **later: float) -> str:
    return format_time(stage.clock.now() + timedelta(**later))
