"""Field cases of AG-UI streams, as whole runs: the route, the runtime, the real model client, and a strict verifier.

The verifier is a validator of the protocol, its own models, and rules that are stricter than both: nothing overlaps, no
id begins twice, and a run has one terminal event, which is its last (`tests/unit/streams/ag_ui_client.py`).
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from perdure import ToolContext, function_tool
from perdure.agents.reconnect import ReconnectPolicy
from perdure.steps.call_tool import call_tool
from perdure.testing.fixtures import Stage
from perdure.testing.providers import FaultProvider, Hangup, answer, events
from tests.field.provider_stage import fragment, on_stage, part
from tests.unit.api.ag_ui.runs import AgUiClient, events_of
from tests.unit.streams.ag_ui_client import verified, words

JsonObject = dict[str, Any]


def saying(text: str) -> JsonObject:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


INTERLEAVED = events(
    saying("Let me "),
    part(fragment("", "look", index=0, id="c1")),
    part(fragment('{"ci', index=0)),
    part(fragment('{"city"', "look", index=1, id="c2")),
    saying("look."),
    part(fragment('ty": "Oslo"}', index=0)),
    part(fragment(': "Rome"}', index=1)),
    part(finish="tool_calls"),
    done=True,
)


async def test_f085_calls_that_overlap_on_the_wire_and_tools_that_talk_at_once_do_not_overlap_in_the_run() -> None:
    together = asyncio.Barrier(2)
    clocks: list[Any] = []

    @function_tool(effect="read")
    async def look(city: str, context: ToolContext) -> str:
        """Look, and say so, while the other one does."""
        assert context.report_progress is not None
        for word in ("near", "nearer"):
            await together.wait()
            await context.report_progress(f"{city}: {word}")
            await clocks[0].sleep(1)
        return f"rain in {city}"

    provider = FaultProvider([INTERLEAVED, answer("It rains in both.")])
    async with on_stage(provider, tools=[look]) as stage:
        clocks.append(stage.clock)
        client = AgUiClient(stage)
        ran = await _side_by_side(stage, client.says("weather?"))

    shown = client.screen.shown
    assert shown[:2] == [
        ("user", "weather?"),
        ("assistant", "Let me look.", 'look({"city":"Oslo"})', 'look({"city":"Rome"})'),
    ]
    assert sorted(shown[2:4]) == [("tool", "rain in Oslo"), ("tool", "rain in Rome")]  # whichever ended first
    assert shown[4:] == [("assistant", "It rains in both.")]
    progress = [event["value"]["payload"] for event in ran if event.get("name") == "perdure.tool_progress"]
    assert {(p["tool_call_id"], p["text"]) for p in progress} == {
        ("call-2-0", "Oslo: near"),
        ("call-2-0", "Oslo: nearer"),
        ("call-2-1", "Rome: near"),
        ("call-2-1", "Rome: nearer"),
    }
    starts = [word for word in words(ran) if word.startswith(("START", "END"))]
    assert starts[:6] == [
        "START model-1-0",
        "END model-1-0",
        "START call-2-0",
        "END call-2-0",
        "START call-2-1",
        "END call-2-1",
    ]


async def _side_by_side(stage: Stage, client: AgUiClient) -> list[JsonObject]:
    """Run, with both tools at once."""
    response = await client.post()
    reading = asyncio.ensure_future(_pieces(response))
    await stage.run_next()
    first, second = stage.taken(), stage.taken()
    await stage.clock.run(_both(call_tool(stage.deps, first), call_tool(stage.deps, second)))
    await stage.run_all()
    ran = verified(events_of(await reading))
    client.screen.take(ran)
    return ran


async def _both(*steps: Any) -> None:
    await asyncio.gather(*steps)


async def _pieces(response: Any) -> list[bytes]:
    return [piece async for piece in response.stream]


ONCE = ReconnectPolicy(max_reconnects=1)


@pytest.mark.parametrize("end", [answer("Hello world").cut(2), Hangup()], ids=["in the middle", "before a word"])
async def test_f087_a_provider_that_fails_for_good_ends_the_run_in_one_error(end: Any) -> None:
    async with on_stage(FaultProvider([answer("Hello world").cut(2), end]), reconnect=ONCE) as stage:
        client = AgUiClient(stage)
        ran = await client.says("hi").run()

    terminal = [event["type"] for event in ran if event["type"] in ("RUN_ERROR", "RUN_FINISHED")]
    assert terminal == [ran[-1]["type"]] == ["RUN_ERROR"]
    assert client.screen.shown == [("user", "hi")], "half an answer is none"


async def test_f087_an_attempt_that_is_retried_is_no_error_of_the_run() -> None:
    provider = FaultProvider([answer("Hello wor").cut(2), answer("Good day to you")])
    async with on_stage(provider, reconnect=ONCE) as stage:
        client = AgUiClient(stage)
        ran = await client.says("hi").run()

    assert [event["type"] for event in ran if event["type"] in ("RUN_ERROR", "RUN_FINISHED")] == ["RUN_FINISHED"]
    assert ran[-1]["outcome"] == {"type": "success"}
    assert client.screen.shown == [("user", "hi"), ("assistant", "Good day to you")]
    begun = [event["messageId"] for event in ran if event["type"] == "TEXT_MESSAGE_START"]
    assert len(begun) == len(set(begun)) == 2, "each attempt has its own message"


ASKS_TO_WAIT = events(
    part(fragment("{}", "wait", index=0, id="c1")),
    part(finish="tool_calls"),
    done=True,
)


async def test_f084_a_quiet_tool_does_not_cut_the_run() -> None:
    clocks: list[Any] = []

    @function_tool(effect="read")
    async def wait() -> str:
        """Take five minutes."""
        await clocks[0].sleep(300)
        return "there"

    async with on_stage(FaultProvider([ASKS_TO_WAIT, answer("Done.")]), tools=[wait]) as stage:
        clocks.append(stage.clock)
        response = await AgUiClient(stage).says("wait").post()
        reading = asyncio.ensure_future(_timed(stage, response))
        await stage.run_all()
        times, pieces = await reading

    silences = [later - earlier for earlier, later in pairwise(times)]
    assert max(silences) <= 15.0 < sum(silences)
    assert events_of(pieces)[-1]["type"] == "RUN_FINISHED"


async def _timed(stage: Stage, response: Any) -> tuple[list[float], list[bytes]]:
    times, pieces = [], []
    async for piece in response.stream:
        times.append(stage.clock.now().timestamp())
        pieces.append(piece)
    return times, pieces
