"""Recordings: what a model answered once is answered again, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure import function_tool
from perdure.core.history import UserItem
from perdure.core.usage import CallUsage
from perdure.errors import ModelCallError
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.models.settings import ModelSettings
from perdure.testing.fixtures import open_stage
from perdure.testing.recordings import NotRecordedError, RecordingModel, ReplayModel
from tests.unit.steps.builders import an_agent, failing

ASKED = ModelRequest(
    messages=(UserItem(text="Grüße 🌍"),), instructions="be brief", settings=ModelSettings(temperature=0)
)


@function_tool(effect="read")
async def lookup(order_id: str) -> str:
    """Look an order up."""
    return f"order {order_id}"


async def items_of(model: Any, request: ModelRequest = ASKED) -> list[Any]:
    return [item async for item in model.stream(request)]


def script(request: ModelRequest) -> Reply:
    usage = CallUsage(input_tokens=9, output_tokens=3)
    if tool_results(request):
        return Reply(text="It is on its way: ὁδός.", reasoning="hm", usage=usage)
    return Reply(calls=(call("lookup", order_id="7"),), usage=usage)


async def test_a_conversation_is_replayed_as_it_was_recorded(tmp_path: Path) -> None:
    file = tmp_path / "order.jsonl"
    shown = []
    for model in (RecordingModel(ScriptedModel(script), file), None):
        async with open_stage(an_agent(lookup, model=model or ReplayModel(file))) as stage:
            await stage.send("Where is order 7?")
            await stage.run_all()
            shown.append((await stage.transcript(), await stage.events()))

    assert shown[0] == shown[1]
    assert len(file.read_text().splitlines()) == 2


async def test_every_item_comes_back_and_the_names_of_the_model_with_it(tmp_path: Path) -> None:
    original = ScriptedModel(lambda _: Reply(text="a\u2028b €", reasoning="why"), provider="p", model="m")
    recording = RecordingModel(original, tmp_path / "r.jsonl")

    items = await items_of(recording)
    replay = ReplayModel(tmp_path / "r.jsonl")

    assert await items_of(replay, replace(ASKED, deadline=None)) == items
    assert (replay.provider, replay.model) == (recording.provider, recording.model) == ("p", "m")
    assert replay.requests == [ASKED]


async def test_failures_are_replayed_in_their_order(tmp_path: Path) -> None:
    answers: Iterator[str | ModelCallError] = iter(
        [failing("rate_limited", retry_after_seconds=2.0, partial_text="half"), "whole"]
    )

    def say(_: ModelRequest) -> str:
        answer = next(answers)
        if isinstance(answer, ModelCallError):
            raise answer
        return answer

    recording = RecordingModel(ScriptedModel(say), tmp_path / "r.jsonl")
    with pytest.raises(ModelCallError):
        await items_of(recording)
    whole = await items_of(recording)

    replay = ReplayModel(tmp_path / "r.jsonl")
    with pytest.raises(ModelCallError) as again:
        await items_of(replay)

    assert (again.value.kind, again.value.retry_after_seconds, again.value.partial_text) == (
        "rate_limited",
        2.0,
        "half",
    )
    assert await items_of(replay) == await items_of(replay) == whole


@pytest.mark.parametrize(
    "changed",
    [{"messages": (UserItem(text="other"),)}, {"instructions": "be long"}, {"settings": ModelSettings(temperature=1)}],
)
async def test_what_was_never_asked_is_not_answered(tmp_path: Path, changed: dict[str, Any]) -> None:
    await items_of(RecordingModel(ScriptedModel(lambda _: "yes"), tmp_path / "r.jsonl"))

    with pytest.raises(NotRecordedError, match="has no answer to"):
        await items_of(ReplayModel(tmp_path / "r.jsonl"), replace(ASKED, **changed))


async def test_a_call_that_is_left_early_is_not_recorded(tmp_path: Path) -> None:
    stream = RecordingModel(ScriptedModel(lambda _: "a long answer it is"), tmp_path / "r.jsonl").stream(ASKED)
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]

    assert not (tmp_path / "r.jsonl").exists()


def test_an_empty_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").touch()

    with pytest.raises(ValueError, match="record it anew"):
        ReplayModel(tmp_path / "r.jsonl")
