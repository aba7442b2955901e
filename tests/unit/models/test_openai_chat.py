"""The chat-completions client, against providers made of fixed bytes."""

import asyncio
from contextlib import aclosing
from datetime import timedelta

import httpx
import pytest

from perdure.core.usage import NO_USAGE, CallUsage
from perdure.errors import ModelCallError
from perdure.models import ModelResponse, ModelToolCall, OpenAIChatModel, ReasoningDelta, TextDelta
from tests.unit.models.builders import NOON, Body, a_model, a_request, chunk, collect, failure_of, respond, sse

SOON = timedelta(milliseconds=20)


# --- the answer -----------------------------------------------------------------------------------


async def test_text_and_reasoning_arrive_as_deltas_and_once_more_as_the_response() -> None:
    model = a_model(
        sse(
            chunk({"role": "assistant", "content": ""}, id="r-1", model="stub-1-large"),
            chunk({"reasoning_content": "Hm", "reasoning": "Hm"}),
            chunk({"content": "Hello "}),
            chunk({"content": "you"}),
            chunk(finish="stop"),
            {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 0}},
        )
    )

    *deltas, response = await collect(model)

    assert deltas == [ReasoningDelta("Hm"), TextDelta("Hello "), TextDelta("you")]
    assert response == ModelResponse(
        text="Hello you",
        reasoning="Hm",
        usage=CallUsage(input_tokens=9, output_tokens=0),
        metadata={
            "requested_model": "stub-1",
            "model": "stub-1-large",
            "response_id": "r-1",
            "finish_reason": "stop",
        },
    )


async def test_cached_and_reasoning_tokens_are_read_and_fractions_are_not() -> None:
    usage = {
        "prompt_tokens": 9.5,
        "completion_tokens": 7.0,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }

    response = await respond(a_model(sse(chunk(finish="stop"), {"choices": [], "usage": usage})))

    assert response.usage == CallUsage(output_tokens=7, cached_input_tokens=4, reasoning_tokens=2)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("tool_calls", "stop"),
        ("function_call", "stop"),
        ("eos", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("content_filter", "content_filter"),
        ("refusal", "refusal"),
    ],
)
async def test_each_finish_reason_has_its_ending(reason: str, finish: str) -> None:
    response = await respond(a_model(sse(chunk({"content": "x"}, reason))))

    assert response.finish == finish


async def test_a_later_stop_does_not_take_back_that_the_answer_was_cut_short() -> None:
    response = await respond(a_model(sse(chunk(finish="length"), chunk(finish="stop"))))

    assert response.finish == "length"


async def test_a_refusal_is_told_apart_and_keeps_its_text() -> None:
    *deltas, response = await collect(a_model(sse(chunk({"refusal": "I can't "}), chunk({"refusal": "say."}, "stop"))))

    assert (response.finish, response.text) == ("refusal", "I can't say.")
    assert deltas == [TextDelta("I can't "), TextDelta("say.")]


@pytest.mark.parametrize("done", [True, False])
async def test_either_a_finish_reason_or_done_completes_an_answer(done: bool) -> None:
    stream = sse(chunk({"content": "x"}, None if done else "stop"), done=done)

    assert (await respond(a_model(stream))).text == "x"


async def test_an_empty_finish_reason_completes_nothing() -> None:
    error = await failure_of(a_model(sse(chunk({"content": "x"}, ""), done=False)))

    assert error.kind == "malformed"


async def test_other_choices_than_the_first_are_left_out() -> None:
    second = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}

    response = await respond(a_model(sse(second, chunk({"content": "yes"}, "stop"))))

    assert (response.text, response.finish) == ("yes", "stop")


async def test_calls_are_kept_as_they_came() -> None:
    first = {"index": 0, "id": "c1", "function": {"name": "lookup", "arguments": '{"q":'}, "extra_content": {"g": "S"}}
    rest = {"index": 0, "function": {"arguments": "1}"}}

    response = await respond(a_model(sse(chunk({"tool_calls": [first]}), chunk({"tool_calls": [rest]}, "tool_calls"))))

    assert response.tool_calls == (ModelToolCall(tool_name="lookup", arguments_text='{"q":1}', provider_call_id="c1"),)
    assert response.provider_item == {"calls": [{"extra_content": {"g": "S"}}]}


async def test_a_call_without_a_name_makes_a_finished_answer_malformed() -> None:
    nameless = chunk({"tool_calls": [{"index": 0, "id": "c1", "function": {"arguments": "{}"}}]}, "tool_calls")

    assert (await failure_of(a_model(sse(nameless)))).kind == "malformed"


async def test_an_answer_of_a_server_that_does_not_stream_is_read_as_well() -> None:
    calls = [{"id": "a", "function": {"name": "f", "arguments": "{}"}}] * 2
    message = {"content": "hi", "tool_calls": calls}
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 3}}

    response = await respond(a_model(httpx.Response(200, json=body)))

    assert (response.text, len(response.tool_calls), response.usage.input_tokens) == ("hi", 2, 3)


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        "no json",
        "[]",
        '"text"',
        '{"choices": 7}',
        '{"choices": ["x"]}',
        '{"choices": [{"delta": {"content": [1]}}]}',
        "[" * 9999,
    ],
)
async def test_an_event_that_is_no_chunk_is_malformed(event: str) -> None:
    error = await failure_of(a_model(sse(chunk({"content": "so far"}), event)))

    assert (error.kind, error.retryable, error.partial_text) == ("malformed", True, "so far")


async def test_an_error_inside_the_stream_is_classified_and_keeps_the_partial_text() -> None:
    broken = sse(chunk({"content": "so far"}), {"error": {"type": "server_error", "message": "boom"}})

    error = await failure_of(a_model(broken))

    assert (error.kind, error.retryable, error.partial_text) == ("timeout", True, "so far")


@pytest.mark.parametrize("reason", ["error", "abort"])
async def test_a_finish_reason_that_says_broken_is_no_ending(reason: str) -> None:
    assert (await failure_of(a_model(sse(chunk({"content": "x"}, reason))))).kind == "malformed"


async def test_a_broken_connection_in_the_middle_is_a_cut() -> None:
    body = Body(sse(chunk({"content": "so far"}), done=False), error=httpx.RemoteProtocolError("incomplete"))

    error = await failure_of(a_model(body.response()))

    assert (error.kind, error.retryable, error.partial_text) == ("malformed", True, "so far")
    assert body.closed


async def test_a_broken_connection_behind_the_finish_reason_loses_only_the_usage() -> None:
    body = Body(sse(chunk({"content": "x"}, "stop"), done=False), error=httpx.ReadError("reset"))

    response = await respond(a_model(body.response()))

    assert (response.text, response.usage) == ("x", NO_USAGE)


async def test_no_connection_is_a_timeout_that_names_the_host() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    error = await failure_of(a_model(refuse))

    assert (error.kind, error.retryable) == ("timeout", True)
    assert "provider.test" in error.message


@pytest.mark.parametrize("body", [b'{"error": {"code": "insufficient_quota"}}', b"<html>", b"[" * 5000, b""])
async def test_an_http_error_is_classified_whatever_its_body(body: bytes) -> None:
    answer = httpx.Response(429, headers={"retry-after": "40"}, content=body)

    error = await failure_of(a_model(answer))

    assert (error.status, error.retry_after_seconds) == (429, 40.0)
    assert error.kind == ("credits" if b"quota" in body else "rate_limited")


async def test_a_redirect_is_not_followed() -> None:
    asked = []

    def redirect(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        return httpx.Response(307, headers={"location": "http://elsewhere.test/"})

    error = await failure_of(a_model(redirect))

    assert (error.kind, len(asked)) == ("unavailable", 1)


async def test_a_web_page_points_at_the_base_url() -> None:
    error = await failure_of(a_model(httpx.Response(200, html="<html></html>")))

    assert (error.kind, error.retryable) == ("unavailable", False)
    assert "/v1" in error.message


@pytest.mark.parametrize("status", [400, 401, 500])
async def test_an_error_holds_neither_prompt_nor_key_nor_what_the_provider_wrote(status: int) -> None:
    body = {"error": {"message": "bad key sk-Secret in 'my prompt'", "code": "sk-Secret", "type": "my prompt"}}

    error = await failure_of(
        a_model(httpx.Response(status, json=body), api_key="sk-Secret"), a_request(text="my prompt")
    )

    assert not {"sk-Secret", "my prompt"} & {word for word in ("sk-Secret", "my prompt") if word in repr(error)}


# --- limits of time -------------------------------------------------------------------------------


async def test_a_silent_provider_is_a_timeout_with_the_partial_text() -> None:
    body = Body(sse(chunk({"content": "so far"}), done=False), silent=True)

    error = await failure_of(a_model(body.response(), inactivity_timeout=SOON))

    assert (error.kind, error.retryable, error.partial_text) == ("timeout", True, "so far")
    assert "sent nothing for 0.02 seconds" in error.message
    assert body.closed


async def test_a_provider_that_never_begins_is_a_timeout() -> None:
    async def never(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    model = OpenAIChatModel(
        "m", base_url="http://p.test/v1", transport=httpx.MockTransport(never), inactivity_timeout=SOON
    )

    assert (await failure_of(model)).kind == "timeout"


async def test_the_deadline_ends_a_call_before_the_silence_does() -> None:
    body = Body(sse(chunk({"content": "so far"}), done=False), silent=True)

    error = await failure_of(a_model(body.response()), a_request(deadline=NOON + SOON))

    assert (error.kind, error.partial_text) == ("timeout", "so far")
    assert "deadline" in error.message


async def test_a_call_whose_deadline_has_passed_is_not_sent() -> None:
    def unexpected(request: httpx.Request) -> httpx.Response:
        raise AssertionError("sent")

    error = await failure_of(a_model(unexpected), a_request(deadline=NOON))

    assert error.kind == "timeout"


async def test_a_deadline_that_came_while_the_caller_was_busy_ends_the_call() -> None:
    body = Body(*(sse(chunk({"content": "x"}), done=False) for _ in range(1000)))
    seen = []

    async def read_slowly() -> None:
        async with aclosing(a_model(body.response()).stream(a_request(deadline=NOON + SOON))) as stream:
            async for item in stream:
                seen.append(item)
                await asyncio.sleep(SOON.total_seconds())

    with pytest.raises(ModelCallError, match="deadline"):
        await read_slowly()

    assert len(seen) == 1


@pytest.mark.parametrize(("done", "finish", "end"), [(False, 0.01, 0), (True, 1000, 0.01)])
async def test_silence_behind_a_complete_answer_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, done: bool, finish: float, end: float
) -> None:
    monkeypatch.setattr("perdure.models.patience.AFTER_FINISH_SECONDS", finish)
    monkeypatch.setattr("perdure.models.patience.AFTER_END_SECONDS", end)
    body = Body(sse(chunk({"content": "x"}, "stop"), done=done), silent=True)

    assert (await respond(a_model(body.response()))).text == "x"


async def test_what_comes_behind_done_is_not_looked_at() -> None:
    body = Body(sse(chunk({"content": "x"}, "stop")) + sse("no json"), sse("no json"), error=RuntimeError("read on"))

    assert (await respond(a_model(body.response()))).text == "x"


async def test_a_keep_alive_and_a_piece_of_a_call_show_that_the_provider_is_alive() -> None:
    # MODEL-17
    piece = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "look", "arguments": "{}"}}]}
    body = Body(b": keep-alive\n\n", sse(chunk(piece), done=False), sse(chunk({"content": "a"}, "stop")))

    async with aclosing(a_model(body.response()).stream(a_request())) as stream:
        items = [type(item).__name__ async for item in stream]

    assert items == ["StreamActivity", "ToolArgumentsDelta", "TextDelta", "StreamActivity", "ModelResponse"]


async def test_closing_the_iterator_closes_the_response() -> None:
    body = Body(sse(chunk({"content": "a"}), chunk({"content": "b"}), done=False), silent=True)
    stream = a_model(body.response()).stream(a_request())

    first = await anext(stream)
    await stream.aclose()

    assert first == TextDelta("a")
    assert body.closed


async def test_a_connection_that_can_not_be_closed_changes_neither_an_answer_nor_an_error() -> None:
    # MODEL-22
    broken = httpx.ReadError("the close failed")
    whole = Body(sse(chunk({"content": "x"}, "stop")), closing=broken)
    cut = Body(sse(chunk({"content": "x"}), done=False), error=httpx.ReadError("cut"), closing=broken)

    assert (await respond(a_model(whole.response()))).text == "x"
    assert (await failure_of(a_model(cut.response()))).kind == "malformed"
    assert whole.closed
    assert cut.closed


async def test_leaving_a_stream_whose_connection_can_not_be_closed_keeps_the_reason_for_leaving() -> None:
    body = Body(sse(chunk({"content": "a"}), done=False), silent=True, closing=httpx.ReadError("the close failed"))

    async def leave() -> None:
        async with aclosing(a_model(body.response()).stream(a_request())) as stream:
            await anext(stream)
            raise KeyError("the reader's own")

    with pytest.raises(KeyError, match="the reader's own"):
        await leave()
    assert body.closed


async def test_cancelling_the_caller_closes_the_response_and_stays_a_cancellation() -> None:
    body = Body(sse(chunk({"content": "a"}), done=False), silent=True)
    got_one = asyncio.Event()

    async def read() -> None:
        async with aclosing(a_model(body.response()).stream(a_request())) as stream:
            async for _ in stream:
                got_one.set()

    task = asyncio.create_task(read())
    await got_one.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert body.closed
