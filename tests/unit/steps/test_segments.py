"""Where a segment of an answer begins and ends, and the arguments of a call while the model writes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import function_tool
from perdure.models.base import (
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    StreamItem,
    TextDelta,
    ToolArgumentsDelta,
)
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.service import LOCAL_CALLER
from perdure.steps.run_model import run_model
from perdure.testing.clock import VirtualClock
from perdure.testing.fixtures import SESSION, Stage, open_stage
from tests.unit.steps.builders import HangingModel, an_agent, failing

JsonObject = dict[str, Any]

A_DELTA = st.builds(
    lambda kind, text, part: kind(text, part),
    st.sampled_from([TextDelta, ReasoningDelta]),
    st.text(min_size=1, max_size=3) | st.integers(4090, 8200).map(lambda size: "\u00e9" * size),
    st.integers(0, 1),
)


class Saying:
    """A model that says these deltas, a second apart, and asks for calls behind them."""

    provider = model = "saying"

    def __init__(
        self, clock: VirtualClock, *items: StreamItem, ending: ModelResponse | Exception | None = None
    ) -> None:
        self._clock = clock
        self._items = items
        self._ending = ending

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        for item in self._items:
            yield item
            await self._clock.sleep(1)
        if isinstance(self._ending, Exception):
            raise self._ending
        text = "".join(item.text for item in self._items if isinstance(item, TextDelta))
        reasoning = "".join(item.text for item in self._items if isinstance(item, ReasoningDelta))
        yield self._ending or ModelResponse(text=text, reasoning=reasoning)


async def watched(stage: Stage) -> list[JsonObject]:
    """Run the step that waits, and return all that a viewer sees until it is over."""
    stepping = asyncio.create_task(stage.run_next())
    shown: list[JsonObject] = []
    cursor: str | None = None
    while True:
        over = stepping.done()
        waiting = asyncio.create_task(
            stage.service.events(LOCAL_CALLER, "s-1", after=cursor, wait_seconds=0 if over else 20)
        )
        await asyncio.wait({waiting, stepping} if not over else {waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            continue
        page = waiting.result()
        shown, cursor = shown + page["events"], page["cursor"]
        if over and not page["events"]:
            await stepping
            return shown


def segments_of(events: list[JsonObject]) -> list[JsonObject]:
    """Put the segments of an answer together, as a viewer does."""
    parts: list[JsonObject] = []
    for event in events:
        if event["type"] == "attempt_reset" and "sequence" not in event:
            parts.clear()
        if event["type"] not in ("text_delta", "reasoning_delta"):
            continue
        kind, number = event["type"].removesuffix("_delta"), event["payload"]["segment"]
        assert number in (len(parts) - 1, len(parts)), "a segment begins right behind the one before"
        if number == len(parts):
            parts.append({"type": kind, "text": ""})
        assert parts[number]["type"] == kind
        parts[number]["text"] += event["payload"]["text"]
    return parts


@settings(max_examples=30, deadline=None)
@given(deltas=st.lists(A_DELTA, min_size=1, max_size=8), interval=st.sampled_from([0.0, 0.2, 2.5]))
def test_the_deltas_of_each_segment_are_a_part_of_the_stored_message(deltas: list[Any], interval: float) -> None:
    async def story() -> None:
        clock = VirtualClock()
        async with open_stage(
            an_agent(model=Saying(clock, *deltas)), clock=clock, progress_interval_seconds=interval
        ) as stage:
            await stage.send("hi")
            shown = await watched(stage)
            parts = (await stage.snapshot())["messages"][-1]["parts"]

        streamed = segments_of(shown)
        if not interval:
            assert streamed == parts
        for seen, kept in zip(streamed, parts, strict=False):  # gathered, the last of it comes with the commit
            assert kept["type"] == seen["type"]
            assert kept["text"].startswith(seen["text"])
        assert "".join(part["text"] for part in parts) == "".join(delta.text for delta in deltas)

    asyncio.run(story())


async def test_a_segment_ends_where_the_kind_changes_or_the_provider_begins_another_part() -> None:
    clock = VirtualClock()
    model = Saying(clock, TextDelta("a"), TextDelta("b", part=1), ReasoningDelta("c", part=1), TextDelta("d", part=1))
    async with open_stage(an_agent(model=model), clock=clock) as stage:
        await stage.send("hi")
        shown = await watched(stage)
        parts = (await stage.snapshot())["messages"][-1]["parts"]

    deltas = [(e["type"], e["payload"]) for e in shown if e["type"].endswith("_delta")]
    assert deltas == [
        ("text_delta", {"text": "a", "segment": 0}),
        ("text_delta", {"text": "b", "segment": 1}),
        ("reasoning_delta", {"text": "c", "segment": 2}),
        ("text_delta", {"text": "d", "segment": 3}),
    ]
    assert [(part["type"], part["text"]) for part in parts] == [
        ("text", "a"),
        ("text", "b"),
        ("reasoning", "c"),
        ("text", "d"),
    ]


async def test_a_runner_that_showed_something_else_is_taken_at_its_outcome() -> None:
    clock = VirtualClock()
    model = Saying(clock, TextDelta("draft"), ending=ModelResponse(text="The answer", reasoning="hm"))
    async with open_stage(an_agent(model=model), clock=clock) as stage:
        await stage.send("hi")
        await watched(stage)

        assert (await stage.snapshot())["messages"][-1]["parts"] == [
            {"type": "reasoning", "text": "hm"},
            {"type": "text", "text": "The answer"},
        ]


async def test_after_a_cut_the_segments_begin_anew() -> None:
    clock = VirtualClock()
    answers = iter(
        [Saying(clock, ReasoningDelta("hm"), TextDelta("Half"), ending=failing()), Saying(clock, TextDelta("Whole"))]
    )

    class Both:
        provider = model = "both"

        def stream(self, request: Any) -> Any:
            return next(answers).stream(request)

    async with open_stage(an_agent(model=Both()), clock=clock) as stage:
        await stage.send("hi")
        shown = await watched(stage)

        assert segments_of(shown) == [{"type": "text", "text": "Whole"}]
        assert (await stage.snapshot())["messages"][-1]["parts"] == [{"type": "text", "text": "Whole"}]


async def test_what_was_seen_before_a_stop_keeps_its_segments() -> None:
    model = HangingModel(TextDelta("a"), TextDelta("b", part=1), ReasoningDelta("c"))
    async with open_stage(an_agent(model=model), in_process=True) as stage:
        await stage.send("hi")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await stage.clock.settle()
        await stage.stop()
        await stage.clock.advance(1.1)
        await step

        kept = (await stage.snapshot())["messages"][-1]["parts"]
        assert [(part["type"], part["text"]) for part in kept] == [("text", "a"), ("text", "b"), ("reasoning", "c")]


# --- the arguments of a call -----------------------------------------------------------------------------------------


@function_tool(effect="read")
def lookup(order_id: str) -> str:
    """Look an order up."""
    return f"order {order_id}"


async def test_the_arguments_of_a_call_are_a_draft_until_it_is_committed() -> None:
    clock = VirtualClock()
    asked = (call("lookup", order_id="seven-and-eight"), call("lookup", order_id="\U0001f69a"))
    model = ScriptedModel(
        lambda request: "done" if tool_results(request) else Reply(calls=asked),
        clock=clock,
        delay=timedelta(seconds=1),
        stream_arguments=True,
    )
    async with open_stage(an_agent(lookup, model=model), clock=clock) as stage:
        await stage.send("hi")
        shown = await watched(stage)
        snapshot, later = await stage.snapshot(), await stage.event_types()

    drafts = [event["payload"] for event in shown if event["type"] == "tool.arguments_delta"]
    written = ["".join(draft["text"] for draft in drafts if draft["index"] == index) for index in (0, 1)]
    assert written == [each.arguments_text for each in asked]
    assert [(d["index"], d["tool_name"]) for d in drafts if "tool_name" in d] == [(0, "lookup"), (1, "lookup")]
    assert len(drafts) > 4
    assert all("sequence" not in event for event in shown if event["type"] == "tool.arguments_delta")
    assert [c["arguments"]["order_id"] for c in snapshot["tool_calls"]] == ["seven-and-eight", "\U0001f69a"]
    assert "tool.arguments_delta" not in later


async def test_pieces_of_one_call_that_are_published_together_are_one() -> None:
    clock = VirtualClock()
    pieces = [ToolArgumentsDelta(0, "", "lookup"), *(ToolArgumentsDelta(0, piece) for piece in '{"a":1')]
    async with open_stage(an_agent(model=HangingModel(*pieces)), clock=clock, progress_interval_seconds=0.2) as stage:  # type: ignore[arg-type]
        await stage.send("hi")
        step = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await clock.advance(1)
        live = await stage.deps.ports.live.progress(SESSION, "model-1-0", 1)
        await stage.stop()
        await clock.advance(2)
        await step

        assert [event.payload for event in live if event.type == "tool.arguments_delta"] == [
            {"index": 0, "tool_name": "lookup", "text": '{"a":1'}
        ]


async def test_a_cut_takes_the_draft_away() -> None:
    clock = VirtualClock()
    answers = iter(
        [
            Saying(clock, ToolArgumentsDelta(0, '{"order_', "lookup"), ending=failing()),
            Saying(clock, TextDelta("No call after all")),
        ]
    )

    class Both:
        provider = model = "both"

        def stream(self, request: Any) -> Any:
            return next(answers).stream(request)

    async with open_stage(an_agent(lookup, model=Both()), clock=clock) as stage:
        await stage.send("hi")
        shown = await watched(stage)

    types = [event["type"] for event in shown]
    assert types.index("tool.arguments_delta") < types.index("attempt_reset") < types.index("text_delta")
