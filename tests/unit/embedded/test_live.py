"""Progress and changes for viewers in this process."""

from __future__ import annotations

import asyncio
import sys

import pytest

from perdure.core.head import Head
from perdure.embedded import live as live_module
from perdure.embedded.live import EmbeddedLive
from perdure.ports import LiveEvent, SessionKey
from perdure.testing.conformance.builders import A_SESSION, a_message, a_request_for, an_answer, decided
from tests.unit.embedded.clocks import NOON, VirtualClock, settled

STEP = "model-1-0"


def some_text(*texts: str) -> list[LiveEvent]:
    return [LiveEvent(type="text_delta", at=NOON, payload={"text": text}) for text in texts]


def a_running_head() -> Head:
    """A session whose model step `model-1-0` is expected."""
    return decided(Head(), a_message()).head


def an_answered_head() -> Head:
    """The same session behind its answer."""
    running = a_running_head()
    return decided(running, an_answer(running)).head


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def live(clock: VirtualClock) -> EmbeddedLive:
    return EmbeddedLive(clock)


async def texts(live: EmbeddedLive, step_id: str = STEP, attempt: int = 1, after: int = 0) -> list[str]:
    return [event.payload["text"] for event in await live.progress(A_SESSION, step_id, attempt, after)]


async def test_progress_is_read_in_the_order_in_which_it_came(live: EmbeddedLive) -> None:
    await live.publish(A_SESSION, "turn-1", STEP, 1, some_text("a", "b"))
    await live.publish(A_SESSION, "turn-1", STEP, 1, some_text("c"))

    assert await texts(live) == ["a", "b", "c"]
    assert await texts(live, after=2) == ["c"]
    assert await texts(live, after=9) == []


async def test_attempts_steps_sessions_and_tenants_have_progress_of_their_own(live: EmbeddedLive) -> None:
    await live.publish(A_SESSION, "turn-1", STEP, 1, some_text("a"))

    assert await texts(live, attempt=2) == []
    assert await texts(live, "model-2-0") == []
    assert list(await live.progress(SessionKey("other", "s-1"), STEP, 1)) == []


async def test_progress_of_a_step_that_is_over_is_dropped_and_later_words_of_it_too(live: EmbeddedLive) -> None:
    running = a_running_head()
    await live.changed(A_SESSION, running)
    await live.publish(A_SESSION, "turn-1", STEP, 1, some_text("a"))

    await live.changed(A_SESSION, decided(running, an_answer(running)).head)
    await live.publish(A_SESSION, "turn-1", STEP, 1, some_text("late"))

    assert await texts(live) == []


async def test_progress_of_a_step_that_is_still_expected_is_kept(live: EmbeddedLive) -> None:
    running = a_running_head()
    await live.publish(A_SESSION, "turn-1", STEP, 1, some_text("a"))

    await live.changed(A_SESSION, running)
    await live.changed(A_SESSION, decided(running, a_message("another one")).head)

    assert await texts(live) == ["a"]


async def test_the_word_of_an_older_commit_that_comes_late_drops_nothing(live: EmbeddedLive) -> None:
    asked = a_running_head()
    requested = decided(asked, a_request_for(asked, "look_up")).head
    await live.changed(A_SESSION, requested)
    await live.publish(A_SESSION, "turn-1", "call-2-0", 1, some_text("a"))

    await live.changed(A_SESSION, asked)

    assert await texts(live, "call-2-0") == ["a"]


async def test_a_viewer_that_waits_is_woken_by_progress(live: EmbeddedLive) -> None:
    viewer = asyncio.create_task(live.wait(A_SESSION, version=0, seen=0, timeout_seconds=20))
    await settled()
    assert not viewer.done()

    await live.publish(A_SESSION, "turn-1", STEP, 1, some_text("a"))
    await settled()

    assert viewer.done()


async def test_a_viewer_that_waits_is_woken_by_a_commit(live: EmbeddedLive) -> None:
    viewers = [asyncio.create_task(live.wait(A_SESSION, version=0, seen=0, timeout_seconds=20)) for _ in range(3)]
    await settled()

    await live.changed(A_SESSION, a_running_head())
    await settled()

    assert [viewer.done() for viewer in viewers] == [True] * 3


async def test_a_viewer_that_missed_a_commit_or_progress_does_not_wait(live: EmbeddedLive) -> None:
    await live.changed(A_SESSION, a_running_head())
    await live.publish(A_SESSION, "turn-1", STEP, 1, some_text("a", "b"))

    await asyncio.wait_for(live.wait(A_SESSION, version=0, seen=2, timeout_seconds=20), 1)
    await asyncio.wait_for(live.wait(A_SESSION, version=1, seen=1, timeout_seconds=20), 1)


async def test_a_viewer_that_has_seen_all_waits_until_its_time_is_over(live: EmbeddedLive, clock: VirtualClock) -> None:
    await live.changed(A_SESSION, a_running_head())
    await live.publish(A_SESSION, "turn-1", STEP, 1, some_text("a", "b"))
    viewer = asyncio.create_task(live.wait(A_SESSION, version=1, seen=2, timeout_seconds=20))

    await clock.advance(19)
    assert not viewer.done()
    await clock.advance(1)

    assert viewer.done()


async def test_a_viewer_without_time_does_not_wait(live: EmbeddedLive) -> None:
    await asyncio.wait_for(live.wait(A_SESSION, version=0, seen=0, timeout_seconds=0), 1)


async def test_who_waits_for_a_commit_only_is_left_alone_by_progress(live: EmbeddedLive) -> None:
    waiting = asyncio.create_task(live.wait(A_SESSION, version=0, seen=sys.maxsize, timeout_seconds=20))
    await settled()

    await live.publish(A_SESSION, "turn-1", STEP, 1, some_text("a"))
    await settled()
    assert not waiting.done()

    await live.changed(A_SESSION, a_running_head())
    await asyncio.wait_for(waiting, 1)


async def test_a_viewer_of_another_session_is_not_woken(live: EmbeddedLive) -> None:
    viewer = asyncio.create_task(live.wait(SessionKey("acme", "s-2"), version=0, seen=0, timeout_seconds=20))
    await settled()

    await live.publish(A_SESSION, "turn-1", STEP, 1, some_text("a"))
    await live.changed(A_SESSION, a_running_head())
    await settled()

    assert not viewer.done()
    viewer.cancel()


async def test_a_viewer_that_went_away_is_no_trouble(live: EmbeddedLive) -> None:
    viewer = asyncio.create_task(live.wait(A_SESSION, version=0, seen=0, timeout_seconds=20))
    await settled()
    viewer.cancel()
    await settled()

    await live.publish(A_SESSION, "turn-1", STEP, 1, some_text("a"))

    assert viewer.cancelled()


async def test_sessions_that_nobody_looks_at_are_forgotten_and_those_in_use_are_not(
    live: EmbeddedLive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "MAX_IDLE_SESSIONS", 10)
    await live.publish(A_SESSION, "turn-1", STEP, 1, some_text("a"))
    viewer = asyncio.create_task(live.wait(SessionKey("acme", "watched"), version=0, seen=0, timeout_seconds=20))
    await settled()

    for number in range(100):
        await live.changed(SessionKey("acme", f"idle-{number}"), a_running_head())
    await live.changed(SessionKey("acme", "watched"), a_running_head())
    await settled()

    assert await texts(live) == ["a"]
    assert viewer.done()
    assert len(live._channels) < 20


async def test_attempts_that_are_over_are_not_remembered_for_ever(
    live: EmbeddedLive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "MAX_CLOSED_ATTEMPTS", 20)
    over = an_answered_head()
    sessions = [SessionKey("acme", f"s-{number}") for number in range(50)]

    for key in sessions:
        await live.publish(key, "turn-1", STEP, 1, some_text("a"))
        await live.changed(key, over)
    for key in sessions[-20:]:
        await live.publish(key, "turn-1", STEP, 1, some_text("late"))

    assert [list(await live.progress(key, STEP, 1)) for key in sessions[-20:]] == [[]] * 20
    assert len(live._closed) == 20
