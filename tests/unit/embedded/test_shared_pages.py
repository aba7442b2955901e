"""Viewers of one process that stand at the same place share what is read and encoded, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure import AgentDefinition
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.errors import NotFoundError
from perdure.feed import Feed, Live, events_of
from perdure.models.base import ModelRequest, ModelResponse, StreamItem, TextDelta
from perdure.service import LOCAL_CALLER
from perdure.streams.delivery import Attachment
from perdure.streams.parts import frame_texts
from tests.unit.api.builders import a_caller


class GatedModel:
    """Says "one", and " two" and its end when it may."""

    provider = "test"
    model = "gated"

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.ends = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        yield TextDelta("one")
        await self.goes_on.wait()
        yield TextDelta(" two")
        await self.ends.wait()
        yield ModelResponse(text="one two")


@pytest.fixture
def model() -> GatedModel:
    return GatedModel()


@pytest.fixture
async def runtime(tmp_path: Path, model: GatedModel) -> AsyncIterator[EmbeddedRuntime]:
    agent = AgentDefinition(name="gated", model=model)
    async with EmbeddedRuntime(tmp_path / "sessions.db", [agent], grace_seconds=0) as runtime:
        yield runtime


async def look(runtime: EmbeddedRuntime, after: str) -> Feed:
    return await runtime.service.feed(LOCAL_CALLER, "s-1", after=after, wait_seconds=10, messages=False)


def said(feed: Feed) -> str:
    live = [item.event for item in feed.items if isinstance(item, Live)]
    return "".join(event["payload"]["text"] for event in live if event["type"] == "text_delta")


async def shown(runtime: EmbeddedRuntime, after: str, text: str) -> Feed:
    """Return what follows a place as soon as this text has been said since."""
    while said(page := await look(runtime, after)) != text:  # noqa: ASYNC110 - a look does not let others run
        await asyncio.sleep(0)
    return page


async def test_who_stands_at_the_same_place_gets_one_page_in_one_text(runtime: EmbeddedRuntime) -> None:
    cursor = (await runtime.session("s-1").send("go")).cursor

    pages = await asyncio.gather(*(look(runtime, cursor) for _ in range(5)))
    again = await look(runtime, cursor)
    texts = [[frame_texts(frame) for frame in Attachment("s-1", cursor, opened=True).take(again)] for _ in pages[:2]]

    assert pages[0].items
    assert await look(runtime, cursor) is again
    assert texts[0][0] is texts[1][0]
    [frame] = [json.loads(text) for [text] in texts[0]]
    events = (await runtime.service.events(LOCAL_CALLER, "s-1", after=cursor))["events"]
    assert frame["events"] == events[: len(frame["events"])]
    assert frame["cursor"] == again.cursor


async def test_what_came_behind_a_shared_page_comes_with_the_next_one(
    runtime: EmbeddedRuntime, model: GatedModel
) -> None:
    cursor = (await runtime.session("s-1").send("go")).cursor
    first = await shown(runtime, cursor, "one")
    model.goes_on.set()
    second = await look(runtime, first.cursor)

    assert said(second) == " two"
    assert await look(runtime, first.cursor) is second
    assert said(await look(runtime, cursor)) == "one two"


async def test_a_page_is_shared_no_longer_than_the_session_stays_as_it_is(
    runtime: EmbeddedRuntime, model: GatedModel
) -> None:
    session = runtime.session("s-1")
    cursor = (await session.send("go")).cursor
    await shown(runtime, cursor, "one")
    model.goes_on.set()
    model.ends.set()
    async for _ in session.events(after=cursor):
        pass

    late = await look(runtime, cursor)

    assert said(late) == ""
    assert events_of(late.items)[-1]["type"] == "turn_completed"


async def test_a_page_that_others_share_is_nothing_for_a_stranger(runtime: EmbeddedRuntime) -> None:
    cursor = (await runtime.session("s-1").send("go")).cursor
    page = await look(runtime, cursor)

    assert page.items
    with pytest.raises(NotFoundError):
        await runtime.service.feed(a_caller("eve", LOCAL_CALLER.tenant), "s-1", after=cursor, messages=False)
    of_another_tenant = await runtime.service.feed(a_caller("eve"), "s-1", after=cursor, messages=False)
    assert not of_another_tenant.items
