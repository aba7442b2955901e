"""The Stepwise runner: one provider call a step, and how it ended."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure import InstructionContext, ToolExecutionError, function_tool
from perdure.agents.runner import DeferredCall
from perdure.agents.stepwise import StepwiseRunner
from perdure.core.history import UserItem
from perdure.core.usage import CallUsage
from perdure.errors import ModelCallError
from perdure.models import (
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ModelToolCall,
    ReasoningDelta,
    Reply,
    ScriptedModel,
    TextDelta,
)
from perdure.models import call as a_scripted_call
from tests.unit.agents.builders import HangingModel, Shown, a_context, a_turn, an_agent

RUNNER = StepwiseRunner()
PING = ModelToolCall(tool_name="ping", arguments_text="", provider_call_id="c1")


@function_tool(effect="read")
def ping() -> str:
    """Ping."""
    return "pong"


@function_tool(effect="read")
def echo(text: str) -> str:
    """Echo."""
    return text


def a_model(response: ModelResponse) -> ScriptedModel:
    return ScriptedModel(lambda _: response)


# --- the request --------------------------------------------------------------------------------


async def test_the_request_holds_the_history_the_tools_in_their_order_and_the_settings() -> None:
    model = ScriptedModel(lambda _: "Hello!")
    agent = an_agent(ping, echo, model=model, instructions="Be kind.", model_settings={"temperature": 0})
    deadline = datetime(2026, 1, 31, tzinfo=UTC)

    await RUNNER.run_model_step(agent, a_turn(history=(UserItem(text="Hi"),), deadline=deadline))

    (request,) = model.requests
    assert request.messages == (UserItem(text="Hi"),)
    assert [(tool.name, tool.description) for tool in request.tools] == [("ping", "Ping."), ("echo", "Echo.")]
    assert request.tools[1].parameters == echo.parameters
    assert (request.instructions, request.deadline) == ("Be kind.", deadline)
    assert request.settings == ModelSettings(temperature=0)


async def test_instructions_are_evaluated_for_every_step() -> None:
    seen: list[InstructionContext] = []

    def instructions(context: InstructionContext) -> str:
        seen.append(context)
        return f"step {len(seen)}"

    model = ScriptedModel(lambda _: "Hello!")
    agent = an_agent(model=model, instructions=instructions)

    await RUNNER.run_model_step(agent, a_turn(attempt=2))
    await RUNNER.run_model_step(agent, a_turn())

    assert [request.instructions for request in model.requests] == ["step 1", "step 2"]
    assert (seen[0].session_id, seen[0].turn_id, seen[0].attempt) == ("s-1", "turn-1", 2)


async def test_no_tools_are_offered_once_the_model_must_answer() -> None:
    model = ScriptedModel(lambda _: "Hello!")

    await RUNNER.run_model_step(an_agent(ping, model=model), a_turn(offer_tools=False))

    assert model.requests[0].tools == ()


async def test_a_cut_answer_is_told_to_the_model_behind_everything_else() -> None:
    model = ScriptedModel(lambda _: "Hello!")
    history = (UserItem(text="Hi"),)

    await RUNNER.run_model_step(an_agent(model=model), a_turn(history=history, retried_partial="Once {upon}"))

    *before, note = model.requests[0].messages
    assert tuple(before) == history
    assert isinstance(note, UserItem)
    assert note.text.startswith("[turn_retried]\n")
    assert "[partial_answer]\nOnce {upon}\n[/partial_answer]" in note.text
    assert "from the beginning, with the whole answer" in note.text


# --- the stream ---------------------------------------------------------------------------------


async def test_deltas_are_shown_as_they_come() -> None:
    shown = Shown()
    agent = an_agent(reply=lambda _: Reply(text="A long enough answer.", reasoning="Well"))

    outcome = await RUNNER.run_model_step(agent, a_turn(shown))

    assert shown.deltas[0] == ReasoningDelta("Well")
    assert len(shown.deltas) > 2
    assert shown.text == outcome.text == "A long enough answer."


async def test_an_abort_ends_the_call_and_closes_the_stream() -> None:
    model = HangingModel()
    abort = asyncio.Event()
    running = asyncio.create_task(RUNNER.run_model_step(an_agent(model=model), a_turn(abort=abort)))
    await model.waiting.wait()

    abort.set()

    with pytest.raises(ModelCallError) as raised:
        await running
    assert (raised.value.kind, raised.value.retryable, raised.value.partial_text) == ("aborted", False, "Once upon")
    assert model.closed


async def test_a_cancelled_step_closes_the_stream() -> None:
    model = HangingModel()
    running = asyncio.create_task(RUNNER.run_model_step(an_agent(model=model), a_turn()))
    await model.waiting.wait()

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert model.closed


async def test_the_stream_is_closed_after_its_response() -> None:
    closed = []

    class Chatty:
        provider = model = "chatty"

        async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
            try:
                yield ModelResponse(text="")
                yield TextDelta("too late")
            finally:
                closed.append(True)
                raise RuntimeError("the cleanup failed")

    shown = Shown()

    outcome = await RUNNER.run_model_step(an_agent(model=Chatty()), a_turn(shown))

    assert (outcome.ending, shown.deltas, closed) == ("answer", [], [True])


def a_stream_of(*items: Any) -> Any:
    class Streaming:
        provider = model = "streaming"

        async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
            for item in items:
                if isinstance(item, Exception):
                    raise item
                yield item

    return Streaming()


async def test_a_stream_without_a_response_is_malformed_and_may_be_tried_again() -> None:
    with pytest.raises(ModelCallError) as raised:
        await RUNNER.run_model_step(an_agent(model=a_stream_of(TextDelta("Once"))), a_turn())

    assert (raised.value.kind, raised.value.retryable, raised.value.partial_text) == ("malformed", True, "Once")


@pytest.mark.parametrize(("told", "kept"), [("", "Once"), ("Once upon", "Once upon")])
async def test_a_failed_call_says_what_had_arrived(told: str, kept: str) -> None:
    error = ModelCallError("cut", kind="timeout", retryable=True, partial_text=told)

    with pytest.raises(ModelCallError) as raised:
        await RUNNER.run_model_step(an_agent(model=a_stream_of(TextDelta("Once"), error)), a_turn())

    assert raised.value is error
    assert raised.value.partial_text == kept


async def test_an_unexpected_error_of_a_client_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError):
        await RUNNER.run_model_step(an_agent(model=a_stream_of(KeyError("bug"))), a_turn())


# --- the ending ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "ending"),
    [
        (ModelResponse(text="Hello!"), "answer"),
        (ModelResponse(), "answer"),
        (ModelResponse(tool_calls=(PING,)), "tool_calls"),
        (ModelResponse(text="Let me see", tool_calls=(PING,)), "tool_calls"),
        (ModelResponse(text="Half", finish="length"), "truncated"),
        (ModelResponse(tool_calls=(PING,), finish="length"), "truncated"),
        (ModelResponse(finish="content_filter"), "filtered"),
        (ModelResponse(tool_calls=(PING,), finish="content_filter"), "filtered"),
        (ModelResponse(text="No.", finish="refusal"), "refused"),
    ],
)
async def test_calls_and_the_finish_alone_tell_how_it_ended(response: ModelResponse, ending: str) -> None:
    outcome = await RUNNER.run_model_step(an_agent(ping, model=a_model(response)), a_turn())

    assert (outcome.ending, outcome.text) == (ending, response.text)
    assert bool(outcome.calls) == bool(outcome.run_state) == (ending == "tool_calls")


async def test_calls_are_handed_over_in_order_and_not_run() -> None:
    ran: list[str] = []

    @function_tool
    def note(text: str) -> str:
        ran.append(text)
        return text

    agent = an_agent(note, reply=lambda _: Reply(calls=(a_scripted_call("note", text="a"), PING)))

    outcome = await RUNNER.run_model_step(agent, a_turn())

    assert outcome.calls == (
        DeferredCall(tool_name="note", arguments_text='{"text": "a"}'),
        DeferredCall(tool_name="ping", provider_call_id="c1"),
    )
    assert ran == []


async def test_the_run_state_counts_the_model_calls_of_the_turn() -> None:
    agent = an_agent(ping, reply=lambda _: Reply(calls=(PING,)))

    first = await RUNNER.run_model_step(agent, a_turn())
    second = await RUNNER.run_model_step(agent, a_turn(run_state=first.run_state))

    assert (first.run_state, second.run_state) == ({"model_calls": 1}, {"model_calls": 2})


@pytest.mark.parametrize(
    ("response", "provider"),
    [
        (ModelResponse(text="Hello!"), None),
        (ModelResponse(text="Hello!", provider_item={"a": 1}), {"provider": "scripted", "item": {"a": 1}}),
        (ModelResponse(tool_calls=(PING,)), {"provider": "scripted"}),
        (ModelResponse(tool_calls=(ModelToolCall(tool_name="ping"),)), None),
    ],
)
async def test_what_only_its_provider_may_see_again_names_the_provider(
    response: ModelResponse, provider: dict[str, Any] | None
) -> None:
    outcome = await RUNNER.run_model_step(an_agent(ping, model=a_model(response)), a_turn())

    assert outcome.provider == provider


async def test_usage_reasoning_and_metadata_are_passed_on() -> None:
    usage = CallUsage(input_tokens=9, output_tokens=16)
    response = ModelResponse(text="Part", reasoning="Hm", finish="length", usage=usage, metadata={"id": "r-1"})

    outcome = await RUNNER.run_model_step(an_agent(model=a_model(response)), a_turn())

    assert (outcome.usage, outcome.reasoning, outcome.metadata) == (usage, "Hm", {"id": "r-1"})


# --- tools --------------------------------------------------------------------------------------


async def test_a_call_runs_the_tool_that_it_names() -> None:
    output = await RUNNER.execute_tool(an_agent(ping, echo), a_context(tool_name="echo"), {"text": "hello"})

    assert output == "hello"


async def test_a_tool_that_a_deployment_removed_is_a_failure_that_the_model_sees() -> None:
    with pytest.raises(ToolExecutionError) as raised:
        await RUNNER.execute_tool(an_agent(ping), a_context(tool_name="echo"), {})

    assert raised.value.message == "unknown tool echo; available tools: ping"
