"""Field cases of provider streams that a model client can hold by itself, over a real connection.

What the runtime makes of them (two attempts, one execution, one turn) is tested with the runtime.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from datetime import timedelta

import pytest

from perdure.core.history import CallItem, ModelItem, ToolResultItem, UserItem
from perdure.core.usage import NO_USAGE, CallUsage
from perdure.errors import ModelCallError
from perdure.models import ModelResponse, ModelToolCall, OpenAIChatModel, TextDelta
from perdure.testing.providers import FaultProvider, Hangup, HttpError, answer, events, wants
from tests.unit.models.builders import NOON, StoppedClock, a_request, a_tool, collect, respond

Build = Callable[..., OpenAIChatModel]


@pytest.fixture
async def client():
    """Builds clients of a provider, and closes their connections afterwards."""
    built: list[OpenAIChatModel] = []

    def build(provider: FaultProvider, **fields) -> OpenAIChatModel:
        model = OpenAIChatModel("stub-1", base_url=provider.base_url, clock=StoppedClock(), **fields)
        built.append(model)
        return model

    yield build
    for model in built:
        await model.aclose()


def delta(content=None, finish=None, **fields) -> dict:
    choice = {"index": 0, "delta": fields | ({} if content is None else {"content": content})}
    return {"choices": [choice | ({"finish_reason": finish} if finish else {})]}


def called(response: ModelResponse) -> list[tuple[str, str]]:
    return [(call.tool_name, call.arguments_text) for call in response.tool_calls]


def next_request(response: ModelResponse, provider: str):
    """Return the request that follows when every call of a response has run."""
    ours = [f"call-2-{index}" for index, _ in enumerate(response.tool_calls)]
    output = ModelItem(
        text=response.text,
        provider={"provider": provider, "api": provider, "item": response.provider_item},
        calls=tuple(
            CallItem(call_id=id_, tool_name=call.tool_name, arguments={}, provider_call_id=call.provider_call_id)
            for id_, call in zip(ours, response.tool_calls, strict=True)
        ),
    )
    results = (ToolResultItem(call_id=id_, tool_name="any", status="succeeded", output=f"of {id_}") for id_ in ours)
    return a_request(UserItem(text="hello"), output, *results)


def ids_sent(provider: FaultProvider) -> tuple[list[str], list[str]]:
    messages = provider.requests[-1].body["messages"]
    calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    return calls, [message["tool_call_id"] for message in messages if message["role"] == "tool"]


@pytest.mark.parametrize("abrupt", [False, True])
async def test_f001_a_stream_that_closes_in_the_middle_is_no_answer(client: Build, abrupt: bool) -> None:
    whole = answer("The total is 4100.", chunk=9)
    async with FaultProvider([whole.cut(2, abrupt=abrupt), whole]) as provider:
        model = client(provider)

        with pytest.raises(ModelCallError) as caught:
            await collect(model)
        response = await respond(model)

        assert (caught.value.kind, caught.value.retryable) == ("malformed", True)
        assert caught.value.partial_text == "The total"
        assert response.text == "The total is 4100."
        assert len(provider.requests) == 2


async def test_f005_empty_argument_fragments_are_harmless(client: Build) -> None:
    def part(arguments: str, **fields) -> dict:
        function = {"arguments": arguments} | ({"name": "lookup"} if fields else {})
        return delta(tool_calls=[{"index": 0, "function": function} | fields])

    parts = [part("", id="c1"), part(""), part('{"q":'), part(""), part('"a"}'), delta(finish="tool_calls")]
    async with FaultProvider([events(*parts)]) as provider:
        response = await respond(client(provider))

        assert called(response) == [("lookup", '{"q":"a"}')]


async def test_f006_a_call_without_argument_bytes_is_kept_and_replayed_as_an_object(client: Build) -> None:
    async with FaultProvider([answer(calls=[wants("take_snapshot", "", "t1")]), answer("done")]) as provider:
        model = client(provider)

        response = await respond(model)
        await respond(model, next_request(response, model.provider))

        assert called(response) == [("take_snapshot", "")]
        assert provider.requests[1].body["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"
        assert provider.refusals == []


async def test_f008_calls_with_the_same_id_stay_two_and_are_replayed_with_unique_ids(client: Build) -> None:
    twice = [wants("weather", {"city": "A"}, "call_0"), wants("weather", {"city": "B"}, "call_0")]
    async with FaultProvider([answer(calls=twice), answer("done")]) as provider:
        model = client(provider)

        response = await respond(model)
        await respond(model, next_request(response, model.provider))

        assert called(response) == [("weather", '{"city": "A"}'), ("weather", '{"city": "B"}')]
        assert ids_sent(provider) == (["call_0", "call-2-1"], ["call_0", "call-2-1"])
        assert provider.refusals == []


@pytest.mark.parametrize(("ids", "sent"), [(("g1", "g2"), ["g1", "g2"]), ((None, None), ["call-2-0", "call-2-1"])])
async def test_f010_parallel_calls_without_index_stay_apart_and_echo_their_ids(
    client: Build, ids: tuple, sent: list[str]
) -> None:
    def part(id_: str | None) -> dict:
        call = {"function": {"name": "weather", "arguments": '{"city": "A"}'}} | ({"id": id_} if id_ else {})
        return delta(tool_calls=[call])

    stream = events(*(part(id_) for id_ in ids), delta(finish="stop"))
    async with FaultProvider([stream, answer("done")]) as provider:
        model = client(provider)

        response = await respond(model)
        await respond(model, next_request(response, model.provider))

        assert len(response.tool_calls) == 2
        assert ids_sent(provider) == (sent, sent)


async def test_f011_calls_are_there_although_the_finish_reason_says_stop(client: Build) -> None:
    plans = [answer(calls=[wants("ping", {})], finish="stop"), answer("", finish="tool_calls")]
    async with FaultProvider(plans) as provider:
        model = client(provider)

        with_calls, without = await respond(model), await respond(model)

        assert (called(with_calls), with_calls.finish) == ([("ping", "{}")], "stop")
        assert (called(without), without.finish) == ([], "stop")


async def test_f014_another_provider_of_the_same_format_sees_no_foreign_ids_and_the_first_sees_its_own(
    client: Build,
) -> None:
    foreign = ModelToolCall(tool_name="lookup", provider_call_id="call_abc|fc_123")
    async with FaultProvider([answer("x")], strict=False) as x, FaultProvider([answer("y")]) as y:
        on_x, on_y = client(x), client(y)
        history = next_request(ModelResponse(tool_calls=(foreign,), reasoning="encrypted"), on_x.provider)

        await respond(on_y, history)
        await respond(on_x, history)

        assert ids_sent(y) == (["call-2-0"], ["call-2-0"])
        assert ids_sent(x) == (["call_abc|fc_123"], ["call_abc|fc_123"])
        assert y.refusals == []


async def test_f015_null_counters_stay_unknown(client: Build) -> None:
    early = [delta("a") | {"usage": None}, delta("b") | {"usage": None}, delta(finish="stop") | {"usage": None}]
    last = {"choices": [], "usage": {"prompt_tokens": 212, "completion_tokens": None, "total_tokens": None}}
    async with FaultProvider([events(*early, last)]) as provider:
        response = await respond(client(provider))

        assert response.usage == CallUsage(input_tokens=212)


async def test_f017_usage_is_asked_for_and_a_provider_that_tells_none_leaves_it_unknown(client: Build) -> None:
    async with FaultProvider([answer("hi"), answer("hi", usage=None)]) as provider:
        model = client(provider)

        told, silent = await respond(model), await respond(model)

        assert (told.usage.input_tokens, told.usage.output_tokens) == (20, 7)
        assert silent.usage == NO_USAGE


@pytest.mark.parametrize(
    ("status", "wait", "kind"),
    [
        (429, "40", "rate_limited"),
        (529, "40", "timeout"),
        (503, f"{NOON + timedelta(seconds=40):%a, %d %b %Y %H:%M:%S} GMT", "timeout"),
    ],
)
async def test_f019_the_wait_that_a_provider_asks_for_is_reported_and_nothing_is_repeated(
    client: Build, status: int, wait: str, kind: str
) -> None:
    async with FaultProvider([HttpError(status=status, headers={"Retry-After": wait}), answer("no")]) as provider:
        with pytest.raises(ModelCallError) as caught:
            await collect(client(provider))

        assert (caught.value.kind, caught.value.retryable, caught.value.retry_after_seconds) == (kind, True, 40.0)
        assert len(provider.requests) == 1


async def test_f021_a_filtered_empty_message_is_told_apart_from_an_answer(client: Build) -> None:
    filtered = {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}
    async with FaultProvider([events(filtered)]) as provider:
        response = await respond(client(provider))

        assert (response.text, response.finish) == ("", "content_filter")
        assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("pieces", "text"), [(['"go \\ud83d"', '"\\ude80!"'], "go 🚀!"), (['"go \\ud83d"'], "go \ufffd")]
)
async def test_f023_a_character_that_was_cut_in_two_is_joined_or_replaced(
    client: Build, pieces: list[str], text: str
) -> None:
    raw = [f'{{"choices": [{{"index": 0, "delta": {{"content": {piece}}}}}]}}' for piece in pieces]
    async with FaultProvider([events(*raw, delta(finish="stop"))]) as provider:
        *deltas, response = await collect(client(provider))

        assert response.text == text
        assert "".join(delta.text for delta in deltas) == text
        assert all(delta.text.encode() for delta in deltas)


async def test_f107_a_slow_call_is_one_request(client: Build) -> None:
    async with FaultProvider([answer("late").paused(), answer("second")]) as provider:
        call = asyncio.create_task(respond(client(provider)))
        await provider.paused()

        provider.release()

        assert (await call).text == "late"
        assert len(provider.requests) == 1


async def test_a_call_that_is_given_up_while_nothing_comes_hangs_up(client: Build) -> None:
    async with FaultProvider([answer("late").paused()]) as provider:
        call = asyncio.create_task(respond(client(provider)))
        await provider.paused()

        call.cancel()

        await provider.departed()
        assert len(provider.requests) == 1


@pytest.mark.parametrize(
    "parameters", [{"type": "object"}, {"type": "object", "properties": None}, {"properties": {"l": {"type": "array"}}}]
)
async def test_f124_schemas_that_strict_providers_refuse_are_completed(client: Build, parameters: dict) -> None:
    async with FaultProvider([answer("hi")]) as provider:
        response = await respond(client(provider), a_request(tools=(a_tool(parameters=parameters),)))

        assert response.text == "hi"
        assert provider.refusals == []


async def test_f130_a_name_that_a_model_made_up_does_not_poison_the_conversation(client: Build) -> None:
    async with FaultProvider([answer(calls=[wants("../x y", {})]), answer("sorry")]) as provider:
        model = client(provider)

        response = await respond(model)
        await respond(model, next_request(response, model.provider))

        assert called(response) == [("../x y", "{}")]
        assert provider.refusals == []


async def test_closing_the_iterator_hangs_up_on_the_provider(client: Build) -> None:
    async with FaultProvider([answer("one two three", chunk=4).paused(2)]) as provider:
        async with aclosing(client(provider).stream(a_request())) as stream:
            _role, first = await anext(stream), await anext(stream)
            await provider.paused()

        await provider.departed()

        assert first == TextDelta("one ")
        assert provider.departures == 1


async def test_a_provider_that_hangs_up_without_a_word_is_a_timeout(client: Build) -> None:
    async with FaultProvider([Hangup()]) as provider:
        with pytest.raises(ModelCallError) as caught:
            await collect(client(provider))

        assert (caught.value.kind, caught.value.retryable) == ("timeout", True)


async def test_calls_one_after_another_share_a_connection(client: Build) -> None:
    async with FaultProvider([answer("one"), HttpError(status=500), answer("two")]) as provider:
        model = client(provider)

        await respond(model)
        with pytest.raises(ModelCallError):
            await respond(model)
        await respond(model)

        assert provider.connections == 1


async def test_a_hundred_calls_and_more_do_not_wait_for_each_other(client: Build) -> None:
    together = 120  # more than the pool of httpx holds by default

    def script(body: dict):
        if len(provider.requests) == together:
            provider.release()
        return answer(body["messages"][0]["content"]).paused()

    async with FaultProvider(script) as provider:
        model = client(provider)

        answers = await asyncio.gather(*(respond(model, a_request(text=f"n{number}")) for number in range(together)))

        assert [response.text for response in answers] == [f"n{number}" for number in range(together)]
