"""The built-in Stepwise runner: one provider call a step, tools handed over and never run inside it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from perdure.agents.calls import requested_calls, unknown_tool
from perdure.agents.cut import CutOff, unless
from perdure.agents.definition import AgentDefinition
from perdure.agents.execution import output_text, run_body
from perdure.agents.files import stored_files
from perdure.agents.prepare import Prepared, prepare
from perdure.agents.runner import AgentTurnContext, DeferredCall, Generation, ModelOutcome
from perdure.agents.tools import ToolContext, running_tool
from perdure.agents.waiting import TaskPending, ToolTask
from perdure.errors import ModelCallError, ToolExecutionError
from perdure.models.base import ModelResponse, StreamActivity, StreamItem, TextDelta

__all__ = ["StepwiseRunner", "requested_calls"]

JsonObject = dict[str, Any]

Ending = Literal["answer", "tool_calls", "truncated", "filtered", "refused"]

_ENDINGS: dict[str, Ending] = {"length": "truncated", "content_filter": "filtered", "refusal": "refused"}


class StepwiseRunner:
    """Runs agents on the `ModelClient` of their definition. Keeps nothing; one serves all sessions."""

    async def run_model_step(self, agent: AgentDefinition, context: AgentTurnContext) -> ModelOutcome:
        """Make one provider call and say how it ended.

        Raises:
            ModelCallError: No usable answer. `aborted` when the turn's abort signal came; then the stream is closed.
            SettingsError, ConfigurationError, ContextOverflowError: No call was made; see `prepare`.
        """
        prepared = await prepare(agent, context)
        call = _ProviderCall(context)
        stream = _stream(agent, context, prepared)
        try:
            response = await unless(context.abort.wait, call.read(stream))
            files = await stored_files(response.files, agent.store_file, prepared.step)
            return replace(_outcome(prepared, context, response), files=files)
        except CutOff:
            raise ModelCallError(
                "the model call was aborted", kind="aborted", retryable=False, partial_text=call.text
            ) from None
        except ModelCallError as error:
            error.partial_text = error.partial_text or call.text
            raise
        finally:
            await _close(stream)

    async def execute_tool(self, agent: AgentDefinition, context: ToolContext, arguments: JsonObject) -> str | ToolTask:
        """Run one of the agent's tools.

        Raises:
            ToolExecutionError: A failure that the model should see: the tool said so, or a deployment removed it.
        """
        tool = agent.tool(context.tool_name)
        if tool is None:
            raise ToolExecutionError(unknown_tool(agent, context.tool_name))
        return await tool.execute(arguments, context)

    async def poll_tool_task(self, agent: AgentDefinition, context: ToolContext, task_id: str) -> str | TaskPending:
        """Look at the remote work of one of the agent's tools.

        Raises:
            ToolInputRequested, ToolExecutionError: As its `poll` raises them.
            LookupError: The tool is gone, or has no `poll`.
        """
        tool = agent.tool(context.tool_name)
        if tool is None or tool.poll is None:
            raise LookupError(f"tool {context.tool_name} of agent {agent.name} looks after no task")
        with running_tool(context):
            result = await run_body(tool.poll, {}, task_id, context)
        return result if isinstance(result, TaskPending) else output_text(context.tool_name, result)

    async def cancel_tool_task(self, agent: AgentDefinition, context: ToolContext, task_id: str) -> None:
        """Ask the remote work of one of the agent's tools to stop; a tool without `cancel` is let be."""
        tool = agent.tool(context.tool_name)
        if tool is not None and tool.cancel is not None:
            with running_tool(context):
                await run_body(tool.cancel, {}, task_id, context)


@dataclass(slots=True)
class _ProviderCall:
    """Reads one stream and remembers the text it has seen."""

    context: AgentTurnContext
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    async def read(self, stream: AsyncIterator[StreamItem]) -> ModelResponse:
        async for item in stream:
            if isinstance(item, ModelResponse):
                return item
            if isinstance(item, StreamActivity):
                self.context.alive()
                continue
            if isinstance(item, TextDelta):
                self.pieces.append(item.text)
            await self.context.emit(item)
        raise ModelCallError("the model's stream ended without a response", kind="malformed", retryable=True)


def _stream(agent: AgentDefinition, context: AgentTurnContext, prepared: Prepared) -> AsyncIterator[StreamItem]:
    if agent.generate is None:
        return prepared.client.stream(prepared.request)
    return agent.generate(Generation(request=prepared.request, client=prepared.client, context=context))


async def _close(stream: AsyncIterator[StreamItem]) -> None:
    """End the stream. A failure of the cleanup never replaces what went wrong before."""
    aclose = getattr(stream, "aclose", None)
    if aclose is not None:
        with contextlib.suppress(Exception):
            await aclose()


def _outcome(prepared: Prepared, context: AgentTurnContext, response: ModelResponse) -> ModelOutcome:
    """Say how a response ended. Calls alone tell whether tools are wanted (F011); half ones are dropped."""
    whole = response.finish == "stop"
    calls = tuple(
        DeferredCall(
            tool_name=call.tool_name,
            arguments_text=call.arguments_text,
            provider_call_id=call.provider_call_id,
            provider_executed=call.provider_executed,
            output=call.output,
            dynamic=call.dynamic,
            metadata=call.metadata,
        )
        for call in response.tool_calls
        if whole
    )
    ending: Ending = "tool_calls" if calls else "answer"
    return ModelOutcome(
        ending=ending if whole else _ENDINGS[response.finish],
        text=response.text,
        reasoning=response.reasoning,
        calls=calls,
        usage=response.usage,
        provider=_provider(prepared, response),
        run_state={"model_calls": (context.run_state or {}).get("model_calls", 0) + 1} if calls else None,
        metadata=response.metadata,
        offered=prepared.offered,
    )


def _provider(prepared: Prepared, response: ModelResponse) -> JsonObject | None:
    """Return what only this provider sees again: its opaque item, and word that the call ids are its own (F010)."""
    ids = any(call.provider_call_id for call in response.tool_calls)
    if response.provider_item is None and not ids:
        return None
    provider: JsonObject = {"provider": prepared.client.provider}  # names the API, too, such as `openai-chat`
    return provider | ({"item": response.provider_item} if response.provider_item is not None else {})
