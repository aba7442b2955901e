"""The last change of a turn, while a pump leaves or fails: a viewer that never pings is not left alone."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from perdure.aws.delivery import ANSWER_TIME, POST_ATTEMPTS
from perdure.errors import StoreUnavailableError
from perdure.feed import Feed
from tests.unit.aws.builders import SteppingClock
from tests.unit.aws.test_answers import Chat
from tests.unit.aws.viewers import Connections, World
from tests.unit.streams.ui_turns import an_answer


@pytest.mark.parametrize("why", ["busy", "slow"])
async def test_the_last_change_while_a_pump_leaves_is_told_or_the_answer_begins_anew(
    world: World, connections: Connections, clock: SteppingClock, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """The pump has just seen that a step runs when that step's commit wakes it: no other word ever comes."""
    chat = Chat(world, an_answer())
    await chat.show(2)
    real, looks, takes = chat._feed, iter([True]), iter([ANSWER_TIME])

    async def never_whole(key: Any, **more: Any) -> Feed:
        return replace(await real(key, **more), whole=False)

    async def goes_on(_key: Any) -> bool:
        runs = next(looks, False)
        if runs:
            await chat.show(len(chat.log.items))
        return runs

    monkeypatch.setattr(world.pump, "_goes_on", goes_on)
    if why == "busy":
        connections._answers["c1"] = [429] * POST_ATTEMPTS
    else:
        world.pump._follower.feed = never_whole  # type: ignore[method-assign]
        connections.meanwhile = lambda _: clock.advance(next(takes, timedelta()))
    await chat.show(3)

    assert next(looks, None) is None, "it has looked"
    assert chat.ended or connections.closed == ["c1"]


@pytest.mark.parametrize("method", ["take", "release"])
async def test_an_answer_that_the_table_cuts_off_begins_anew(
    world: World, connections: Connections, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    chat = Chat(world, an_answer())
    await chat.show(2)

    async def no_answer(*_: Any, **__: Any) -> Any:
        raise StoreUnavailableError("the table gives no answer")

    monkeypatch.setattr(world.subscriptions, method, no_answer)
    await chat.show(3)

    assert connections.closed == ["c1"]


@pytest.mark.parametrize("pings", [True, False])
async def test_what_nobody_expected_is_told_to_the_operator_and_its_viewer_has_to_come_back(
    world: World, connections: Connections, caplog: pytest.LogCaptureFixture, pings: bool
) -> None:
    def authorize(*_: Any) -> bool:
        raise RuntimeError("a mistake of the application")

    await world.commit("one")
    world.authorize = authorize
    with caplog.at_level(logging.ERROR, "perdure.operator"):
        if pings:
            await world.watch("c1")
            await world.commit("two")
        else:
            await Chat(world, an_answer()).show(1)

    assert connections.closed == ["c1"]
    assert [record.message for record in caplog.records] == ["a delivery failed"]
