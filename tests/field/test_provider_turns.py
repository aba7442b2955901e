"""Field cases of provider streams, as whole turns: the runtime, the real client, and the strict provider stub.

Time is virtual, and stands still while the client waits for the stub. What a client can hold by itself is in
`test_provider_streams.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure import function_tool
from perdure.agents.inbox import InboxSettings
from perdure.agents.tools import FunctionTool
from perdure.models import ModelSettings
from perdure.service import LOCAL_CALLER
from perdure.testing.clock import VirtualClock
from perdure.testing.fixtures import Stage, redeployed
from perdure.testing.providers import FaultProvider, HttpError, answer, events, wants
from tests.field.provider_stage import fragment, on_stage, part

JsonObject = dict[str, Any]
WAIT = timedelta(seconds=40)


class Counter:
    """A tool that counts what it was called with."""

    def __init__(self, name: str, output: str = "ok") -> None:
        self.calls: list[JsonObject] = []
        self._name = name
        self._output = output

    @property
    def tool(self) -> FunctionTool:
        @function_tool(name=self._name, effect="read")
        def body(city: str = "", q: str = "") -> str:
            """Count."""
            self.calls.append({name: given for name, given in (("city", city), ("q", q)) if given})
            return self._output

        return body


Open = Callable[..., Any]


async def turn(stage: Stage, text: str = "hi") -> JsonObject:
    """Run one turn; returns its last event."""
    await stage.send(text)
    await stage.run_all()
    return (await stage.events())[-1]


async def set_to(stage: Stage, **settings: Any) -> None:
    await stage.service.update_settings(LOCAL_CALLER, "s-1", settings)


EMPTY_FRAGMENTS = events(
    part(fragment("", "look", index=0, id="c1")),
    *(part(fragment(text, index=0)) for text in ("", '{"q":', "", '"a"}')),
    part(finish="tool_calls"),
)
WITHOUT_INDEX = events(
    part(fragment('{"city": "A"}', "look", id="g1")),
    part(fragment('{"city": "A"}', "look", id="g2")),
    part(finish="stop"),
)
SHAPES = {
    "f005-empty-fragments": (EMPTY_FRAGMENTS, [{"q": "a"}]),
    "f006-no-argument-bytes": (answer(calls=[wants("look", "", "t1")]), [{}]),
    "f008-one-id-twice": (
        answer(calls=[wants("look", {"city": "A"}, "call_0"), wants("look", {"city": "B"}, "call_0")]),
        [{"city": "A"}, {"city": "B"}],
    ),
    "f010-without-index": (WITHOUT_INDEX, [{"city": "A"}, {"city": "A"}]),
    "f011-finish-says-stop": (answer(calls=[wants("look", {}, "c1")], finish="stop"), [{}]),
}


@pytest.mark.parametrize(("asked", "calls"), SHAPES.values(), ids=SHAPES)
async def test_every_shape_of_a_call_runs_once_and_the_next_request_is_one_that_strict_providers_take(
    asked: Any, calls: list[JsonObject]
) -> None:
    look = Counter("look")
    provider = FaultProvider([asked, answer("done")])
    async with on_stage(provider, tools=[look.tool]) as stage:
        ended = await turn(stage)

    assert ended["type"] == "turn_completed"
    assert sorted(look.calls, key=str) == calls
    assert len(provider.requests) == 2
    assert provider.refusals == []


@pytest.mark.parametrize("abrupt", [False, True])
async def test_f001_an_answer_that_was_cut_is_asked_for_again_and_stands_alone(abrupt: bool) -> None:
    whole = answer("The total is 4100.", chunk=9)
    provider = FaultProvider([whole.cut(2, abrupt=abrupt), whole])
    async with on_stage(provider) as stage:
        ended = await turn(stage)
        said = [text for role, text in await stage.transcript() if role == "assistant"]
        all_events = await stage.events()

    assert ended["type"] == "turn_completed"
    assert said == ["The total is 4100."]
    assert len(provider.requests) == 2
    assert provider.refusals == []
    assert [e["payload"]["reason"] for e in all_events if e["type"] == "attempt_reset"] == ["malformed"]
    rows = [e["payload"]["recorded"]["input_tokens"] for e in all_events if e["type"] == "usage_recorded"]
    assert rows == [{"provenance": "unavailable"}, {"value": 20, "provenance": "reported"}]


async def test_f003_an_answer_that_hits_its_limit_fails_the_turn_keeps_its_usage_and_runs_no_half_call() -> None:
    look = Counter("look")
    cut = answer("Part", calls=[wants("look", '{"city": "A', "c1")], finish="length")
    provider = FaultProvider([cut, answer("better")])
    async with on_stage(provider, tools=[look.tool], inbox=InboxSettings(on_turn_failure="continue")) as stage:
        ended = await turn(stage)
        usage = (await stage.head()).usage
        again = await turn(stage, "again")

    assert ended["payload"]["error"]["code"] == "truncated"
    assert (usage.input_tokens, usage.output_tokens) == (20, 7)
    assert look.calls == []
    assert again["type"] == "turn_completed"
    assert provider.refusals == []


async def test_f012_what_was_signed_comes_back_as_it_was_after_the_session_was_loaded_anew() -> None:
    signed = {"extra_content": {"google": {"thought_signature": "S/1+é=="}}}
    calls = [wants("look", {"city": "A"}, "g1") | signed, wants("look", {"city": "B"}, "g2")]
    stream = events(part(*[call | {"index": i} for i, call in enumerate(calls)]), part(finish="tool_calls"))
    provider = FaultProvider([stream, answer("done")], strict=False)
    look = Counter("look")
    async with on_stage(provider, tools=[look.tool]) as stage:
        await stage.send("hi")
        await stage.run_next()
        loaded_anew = redeployed(stage, *stage.deps.agents)
        await loaded_anew.run_all()

    replayed = provider.requests[1].body["messages"][1]["tool_calls"]
    assert [{name: call.get(name) for name in ("id", "extra_content")} for call in replayed] == [
        {"id": "g1", **signed},
        {"id": "g2", "extra_content": None},
    ]


async def test_f014_a_session_goes_from_one_provider_to_another_and_back() -> None:
    # X's ids are illegal elsewhere. Y is strict: it would refuse them, and anything that only X knows.
    look = Counter("look")
    x = FaultProvider(
        [answer(reasoning="secret", calls=[wants("look", {}, "call_abc|fc_123")]), *[answer("x")] * 2], strict=False
    )
    y = FaultProvider([answer("y")])
    async with on_stage(x, y, tools=[look.tool]) as stage:
        await turn(stage, "first")
        await set_to(stage, model="y")
        await turn(stage, "continue")
        shown = (await stage.snapshot())["settings"]
        await set_to(stage, model="x")
        await turn(stage, "and now")
        said = [text for role, text in await stage.transcript() if role == "assistant"]

    def ids(provider: FaultProvider) -> list[tuple[str, str]]:
        messages = provider.requests[-1].body["messages"]
        calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
        return list(zip(calls, [m["tool_call_id"] for m in messages if m["role"] == "tool"], strict=True))

    assert said[1:] == ["x", "y", "x"]
    assert shown == {"model": "y"}
    assert y.refusals == []
    assert [ours == again and "fc_123" not in ours for ours, again in ids(y)] == [True]
    assert ids(x) == [("call_abc|fc_123", "call_abc|fc_123")]
    assert "secret" not in str(y.requests[-1].body)
    assert len(look.calls) == 1


async def test_f015_null_counters_leave_a_row_with_what_is_known_and_a_partial_total() -> None:
    last = {"choices": [], "usage": {"prompt_tokens": 212, "completion_tokens": None, "total_tokens": None}}
    early = {"choices": [{"index": 0, "delta": {"content": "a"}}], "usage": None}
    provider = FaultProvider([events(early, early, part(finish="stop"), last)])
    async with on_stage(provider) as stage:
        await turn(stage)
        usage = (await stage.snapshot())["usage"]

    assert usage["input_tokens"] == {"value": 212, "provenance": "computed"}
    assert usage["output_tokens"] == {"provenance": "unavailable"}
    assert usage["model_calls"] == 1


async def test_f017_a_provider_that_tells_no_usage_leaves_it_unknown_and_one_that_is_asked_tells_it() -> None:
    silent, telling = FaultProvider([answer("hi", usage=None)]), FaultProvider([answer("hi")])
    async with on_stage(silent, telling) as stage:
        await stage.send("hi", settings={"model": "y"})
        await stage.run_all()
        await set_to(stage, model="x")
        await turn(stage)
        rows = [
            e["payload"]["recorded"]["output_tokens"] for e in await stage.events() if e["type"] == "usage_recorded"
        ]

    assert rows == [{"value": 7, "provenance": "reported"}, {"provenance": "unavailable"}]
    assert telling.requests[0].body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("status", [429, 529, 503])
async def test_f019_a_provider_that_asks_for_a_wait_is_asked_exactly_once_more_and_not_before(status: int) -> None:
    clocks: list[VirtualClock] = []
    times: list[Any] = []

    def script(body: JsonObject) -> Any:
        times.append(clocks[0].now())
        date = f"{times[0] + WAIT:%a, %d %b %Y %H:%M:%S} GMT"
        refusal = HttpError(status=status, headers={"Retry-After": date if status == 503 else "40"})
        return refusal if len(times) == 1 else answer("at last")

    provider = FaultProvider(script)
    async with on_stage(provider) as stage:
        clocks.append(stage.clock)
        await stage.send("hi")
        await stage.run_next()
        held = stage.clock.now() - times[0]
        await stage.run_all()
        ended = (await stage.events())[-1]

    assert ended["type"] == "turn_completed"
    assert len(provider.requests) == 2
    assert held < timedelta(seconds=1)  # nobody runs while it is waited
    assert WAIT <= times[1] - times[0] < WAIT + timedelta(seconds=5)


async def test_f020_a_later_refusal_fails_the_turn_and_runs_nothing_again() -> None:
    charge = Counter("charge")
    provider = FaultProvider([answer(calls=[wants("charge", {}, "c1")]), HttpError(status=400, code="invalid_prompt")])
    async with on_stage(provider, tools=[charge.tool]) as stage:
        await stage.send("charge")
        ran = await stage.run_all()
        for message in ran:  # everything once more
            await stage.run(message)
        ended = (await stage.events())[-1]

    assert ended["type"] == "turn_failed"
    assert len(charge.calls) == 1
    assert len(provider.requests) == 2


async def test_f021_a_filtered_empty_answer_is_one_request_and_a_visible_end() -> None:
    filtered = {"choices": [{"index": 0, "delta": {"content": None}, "finish_reason": "content_filter"}]}
    provider = FaultProvider([events(filtered)] * 9)
    async with on_stage(provider) as stage:
        ended = await turn(stage)
        snapshot = await stage.snapshot()

    assert len(provider.requests) == 1
    assert ended["payload"]["error"]["code"] == "filtered"
    assert snapshot["inbox"] == []


@pytest.mark.parametrize(
    ("pieces", "text"), [(['"go \\ud83d"', '"\\ude80!"'], "go 🚀!"), (['"go \\ud83d"'], "go \ufffd")]
)
async def test_f023_a_character_that_was_cut_in_two_is_stored_and_shown_whole(pieces: list[str], text: str) -> None:
    raw = [f'{{"choices": [{{"index": 0, "delta": {{"content": {piece}}}}}]}}' for piece in pieces]
    provider = FaultProvider([events(*raw, part(finish="stop")), answer("and on")])
    async with on_stage(provider) as stage:
        await turn(stage)
        ended = await turn(stage, "and?")
        said = [text for role, text in await stage.transcript() if role == "assistant"]

    assert said == [text, "and on"]
    assert ended["type"] == "turn_completed"
    assert provider.requests[1].body["messages"][1]["content"] == text


async def test_f025_control_characters_of_a_tool_reach_the_provider_as_they_are() -> None:
    output = "a\x00b\x1b[31mred"
    provider = FaultProvider([answer(calls=[wants("cat", {}, "c1")]), answer("done"), answer("again")])
    async with on_stage(provider, tools=[Counter("cat", output).tool]) as stage:
        await turn(stage)
        loaded_anew = redeployed(stage, *stage.deps.agents)
        ended = await turn(loaded_anew, "again")

    sent = [m["content"] for request in provider.requests[1:] for m in request.body["messages"] if m["role"] == "tool"]
    assert sent == [output, output]
    assert ended["type"] == "turn_completed"


async def test_the_settings_of_a_call_are_those_that_strict_providers_know() -> None:
    provider = FaultProvider([answer("hi")])
    settings = ModelSettings(temperature=0.5, max_output_tokens=99, reasoning_effort="low", service_tier="fast")
    async with on_stage(provider, model_settings=settings) as stage:
        await turn(stage)

    body = provider.requests[0].body
    assert {name: body.get(name) for name in ("temperature", "max_tokens", "reasoning_effort", "service_tier")} == {
        "temperature": 0.5,
        "max_tokens": 99,
        "reasoning_effort": "low",
        "service_tier": None,
    }


async def test_a_change_of_the_model_does_not_reach_the_turn_that_runs() -> None:
    look = Counter("look")
    x = FaultProvider([answer(calls=[wants("look", {}, "c1")]), answer("from x")])
    y = FaultProvider([answer("from y")])
    async with on_stage(x, y, tools=[look.tool]) as stage:
        await stage.send("first")
        await stage.run_next()
        await set_to(stage, model="y")
        await stage.run_all()
        await turn(stage, "second")
        said = [text for role, text in await stage.transcript() if role == "assistant"]

    assert said[1:] == ["from x", "from y"]


async def test_settings_of_a_session_that_no_deployment_has_fail_its_turn_and_the_next_ones_may_be_right() -> None:
    x = FaultProvider([answer("from x")])
    async with on_stage(x, inbox=InboxSettings(on_turn_failure="continue")) as stage:
        await stage.send("hi", settings={"model": "gpt-9"})
        await stage.run_all()
        failed = (await stage.events())[-1]
        await set_to(stage, model_settings={"temperature": 0.5})
        ended = await turn(stage, "again")

    assert failed["payload"]["error"]["code"] == "configuration"
    assert ended["type"] == "turn_completed"
    assert [request.body["temperature"] for request in x.requests] == [0.5]
