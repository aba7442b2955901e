"""The scripted model."""

from datetime import timedelta
from typing import Any

import pytest

from perdure.core.history import ModelItem, UserItem
from perdure.core.usage import CallUsage
from perdure.errors import ModelCallError
from perdure.models import (
    ModelResponse,
    ModelToolCall,
    ReasoningDelta,
    Reply,
    ScriptedModel,
    TextDelta,
    call,
    tool_results,
    user_texts,
)
from tests.unit.models.builders import StoppedClock, a_call, a_request, a_result, an_output, collect, respond


async def test_text_is_streamed_in_pieces_and_once_more_as_the_response() -> None:
    model = ScriptedModel(lambda request: f"You said {user_texts(request)[0]}", chunk=8)

    assert await collect(model) == [TextDelta("You said"), TextDelta(" hello"), ModelResponse(text="You said hello")]


async def test_a_reply_may_reason_and_call_tools() -> None:
    async def reply(request):
        return Reply("Let me see.", "Hm", (call("lookup", order_id="7ü"),), usage=CallUsage(input_tokens=3))

    *deltas, response = await collect(ScriptedModel(reply))

    assert deltas == [ReasoningDelta("Hm"), TextDelta("Let me see.")]
    assert response.tool_calls == (ModelToolCall(tool_name="lookup", arguments_text='{"order_id": "7ü"}'),)
    assert response.usage == CallUsage(input_tokens=3)


async def test_a_whole_response_is_given_as_it_is() -> None:
    response = ModelResponse(text="half", finish="length")

    assert await collect(ScriptedModel(lambda request: response)) == [TextDelta("half"), response]


async def test_a_scripted_failure_streams_its_partial_text_first() -> None:
    def fail(request):
        raise ModelCallError("cut", kind="malformed", retryable=True, partial_text="so far")

    seen = []

    async def read() -> None:
        async for item in ScriptedModel(fail).stream(a_request()):
            seen.append(item)

    with pytest.raises(ModelCallError, match="cut"):
        await read()

    assert seen == [TextDelta("so far")]


async def test_each_delta_waits_on_the_clock() -> None:
    clock = StoppedClock()

    await collect(ScriptedModel(lambda request: "abcdef", chunk=2, delay=timedelta(seconds=3), clock=clock))

    assert clock.slept == [3.0, 3.0, 3.0]


async def test_the_latest_hundred_requests_are_kept() -> None:
    model = ScriptedModel(lambda request: "ok")

    for number in range(101):
        await respond(model, a_request(text=str(number)))

    assert [user_texts(request)[0] for request in model.requests] == [str(n) for n in range(1, 101)]


async def test_text_that_is_no_unicode_is_mended() -> None:
    assert (await respond(ScriptedModel(lambda request: "go \ud83d"))).text == "go \ufffd"


@pytest.mark.parametrize("bad", [None, 7])
async def test_a_script_that_returns_something_else_is_told_so(bad: Any) -> None:
    with pytest.raises(TypeError, match="a script returns"):
        await collect(ScriptedModel(lambda request: bad))


def test_a_chunk_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="chunk"):
        ScriptedModel(lambda request: "", chunk=0)


def test_user_texts_leave_out_our_own_notes() -> None:
    request = a_request(
        UserItem(text="one"),
        UserItem(text="[Perdure] The user stopped this turn."),
        UserItem(text="two"),
        UserItem(text="[turn_retried]\nThe connection broke."),
    )

    assert user_texts(request) == ("one", "two")


def test_tool_results_are_those_of_the_running_turn() -> None:
    old, new = a_result("call-1-0", "old"), a_result("call-2-0", "new")
    request = a_request(
        UserItem(text="one"),
        an_output(a_call("call-1-0")),
        old,
        ModelItem(text="done"),
        UserItem(text="two"),
        an_output(a_call("call-2-0")),
        new,
        UserItem(text="[turn_retried]\nThe connection broke."),
    )

    assert tool_results(request) == (new,)
    assert tool_results(a_request()) == ()
