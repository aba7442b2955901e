"""Work that goes on elsewhere: looked at and stopped by functions of their own, without anybody who waits for it."""

from __future__ import annotations

from typing import Any

from perdure.testing.processes import poll_until
from tests.e2e.people import answered, ended, last_text
from tests.e2e.world import World

BUILD = 'call build {"seconds": %d}'


def stopped(world: World, session_id: str) -> list[str]:
    """Return which work of a session was asked to stop; every function writes into the same list."""
    listed = world.emulator.temporary / "stopped-builds"
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    return [task for session, task in map(str.split, lines) if session == session_id]


async def test_remote_work_is_looked_at_until_it_is_over(world: World) -> None:
    async with world.user().session("builds") as session:
        await session.send(BUILD % 6)
        snapshot = await ended(session)

    assert "it is built" in last_text(snapshot)
    assert [call["status"] for call in snapshot["tool_calls"]] == ["succeeded"]
    assert stopped(world, "builds") == []


async def test_a_stop_has_remote_work_stopped_and_the_session_goes_on(world: World) -> None:
    async with world.user().session("stops-building") as session:
        await session.send(BUILD % 3600)

        async def works() -> bool:
            calls: list[dict[str, Any]] = (await answered(session.snapshot))["tool_calls"]
            return [call["status"] for call in calls] == ["waiting_for_task"]

        working: bool = await poll_until(works, timeout_seconds=180, interval_seconds=0.3)
        assert working
        await session.stop()
        snapshot = await ended(session)
        await session.send("and now?")
        later = await ended(session, turns=2)

    assert [call["status"] for call in snapshot["tool_calls"]] == ["outcome_unknown"]
    assert "You said: and now?" in last_text(later)
    await poll_until(lambda: len(stopped(world, "stops-building")) == 1, timeout_seconds=180, interval_seconds=0.3)
