"""What streams are made from: whole commits with their messages and events, then the progress of what runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.core.entries import Actor
from perdure.errors import NotFoundError
from perdure.feed import Commit, Feed, Live, events_of
from perdure.models.base import TextDelta
from perdure.service import LOCAL_CALLER, Caller
from perdure.steps.run_model import run_model
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.orders import a_desk
from tests.unit.steps.builders import HangingModel, an_agent


async def feed_of(stage: Stage, **more: Any) -> Feed:
    return await stage.service.feed(LOCAL_CALLER, "s-1", **more)


async def test_a_commit_is_told_with_its_messages_and_all_its_events() -> None:
    async with open_stage(a_desk()) as stage:
        await stage.send("go")
        await stage.run_all()
        await stage.approve("call-2-1")
        await stage.run_all()

        feed = await feed_of(stage)
        shown = (await stage.service.messages(LOCAL_CALLER, "s-1"))["messages"]
        events = (await stage.service.events(LOCAL_CALLER, "s-1"))["events"]

    commits = [item for item in feed.items if isinstance(item, Commit)]
    assert [message for commit in commits for message in commit.messages] == shown
    assert events_of(feed.items) == events
    asked = next(commit for commit in commits if any(e["type"] == "tool_call_deferred" for e in commit.events))
    assert [part["type"] for part in asked.messages[0]["parts"]] == ["text", "tool_call", "tool_call"]


@pytest.mark.parametrize("limit", [1, 2, 3, 500])
async def test_a_feed_goes_on_behind_any_commit_without_loss_or_repetition(limit: int) -> None:
    async with open_stage(a_desk()) as stage:
        await stage.send("go")
        await stage.run_all()
        await stage.approve("call-2-1")
        await stage.run_all()
        whole = await feed_of(stage)
        got: list[Any] = []
        cursor = None
        while (feed := await feed_of(stage, after=cursor, limit=limit)).items:
            got += feed.items
            cursor = feed.cursor

        for item in whole.items:
            assert isinstance(item, Commit)
            rest = await feed_of(stage, after=item.cursor)
            assert got[got.index(item) + 1 :] == list(rest.items)

    assert got == list(whole.items)


async def test_progress_of_a_running_step_is_numbered_and_gone_with_its_commit() -> None:
    model = HangingModel(TextDelta("Hel"), TextDelta("lo"))
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("go")
        running = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await model.waiting.wait()

        live = [item.event for item in (await feed_of(stage)).items if isinstance(item, Live)]
        deltas = [event for event in live if event["type"] == "text_delta"]
        assert [event["progress_sequence"] for event in live] == list(range(1, len(live) + 1))
        assert "".join(event["payload"]["text"] for event in deltas) == "Hello"
        rest = await feed_of(stage, after=deltas[0]["cursor"])
        assert [item.event for item in rest.items if isinstance(item, Live)] == live[live.index(deltas[0]) + 1 :]
        await stage.stop()
        await running
        assert not [item for item in (await feed_of(stage)).items if isinstance(item, Live)]


async def test_a_feed_that_ends_with_its_limit_does_not_say_that_it_was_all() -> None:
    model = HangingModel(TextDelta("Hel"), TextDelta("lo"))
    async with open_stage(an_agent(model=model)) as stage:
        await stage.send("go")
        running = asyncio.create_task(run_model(stage.deps, stage.taken()))
        await model.waiting.wait()
        committed = [item for item in (await feed_of(stage)).items if isinstance(item, Commit)]

        feed = await feed_of(stage, limit=len(events_of(committed)))
        rest = await feed_of(stage, after=feed.cursor)
        await stage.stop()
        await running

    assert (list(feed.items), feed.whole) == (committed, False)
    assert any(isinstance(item, Live) for item in rest.items)
    assert rest.whole


async def test_the_place_of_a_turn_is_right_before_the_commit_that_opened_it() -> None:
    async with open_stage(a_desk()) as stage:
        await stage.send("go")
        running = await stage.service.turn_place(LOCAL_CALLER, "s-1")
        await stage.run_all()
        await stage.approve("call-2-1")
        await stage.run_all()
        await stage.send("again")
        first = await stage.service.turn_place(LOCAL_CALLER, "s-1", "turn-1")
        second = await stage.service.turn_place(LOCAL_CALLER, "s-1")
        nothing = await stage.service.turn_place(LOCAL_CALLER, "s-1", "turn-99")

        assert running is not None
        assert not running.closed
        assert first is not None
        assert (first.cursor, first.closed) == (running.cursor, True)
        assert second is not None
        assert second.turn_id == "turn-2"
        feed = await feed_of(stage, after=second.cursor)
        assert isinstance(feed.items[0], Commit)
        assert feed.items[0].messages[0]["parts"] == [{"type": "text", "text": "again"}]
    assert nothing is None


async def test_nobody_follows_a_session_of_somebody_else() -> None:
    stranger = Caller(tenant="local", actor=Actor(issuer="local", subject="u2"))
    async with open_stage(a_desk()) as stage:
        await stage.send("go")
        with pytest.raises(NotFoundError):
            await stage.service.feed(stranger, "s-1")
        with pytest.raises(NotFoundError):
            await stage.service.turn_place(stranger, "s-1")


async def test_the_place_of_any_of_many_turns_is_found_in_few_reads() -> None:
    async with open_stage(an_agent()) as stage:
        cursors = {}
        for number in range(1, 41):
            await stage.send(f"question {number}")
            place = await stage.service.turn_place(LOCAL_CALLER, "s-1")
            assert place is not None
            cursors[place.turn_id] = place.cursor
            await stage.run_all()
        for turn_id, cursor in cursors.items():
            found = await stage.service.turn_place(LOCAL_CALLER, "s-1", turn_id)
            assert found is not None
            assert (found.cursor, found.closed) == (cursor, True)
