"""What was begun minutes ago and takes them: a far deadline, and a turn whose worker an upgrade has ended."""

from __future__ import annotations

from tests.e2e.outside import SLOW_PIECES
from tests.e2e.people import ended, last_text
from tests.e2e.test_conversations import FAR, begin_far, refunds, schedules
from tests.e2e.test_operation import UPGRADED, begin_upgrade
from tests.e2e.world import World

MINUTES = 60


async def test_a_far_deadline_is_kept_by_its_schedule(world: World) -> None:
    if FAR not in world.begun:  # these tests run alone
        await begin_far(world)
    async with world.user().session(FAR, agent="patient") as session:
        snapshot = await ended(session, timeout_seconds=4 * MINUTES)

    assert [call["status"] for call in snapshot["tool_calls"]] == ["rejected"]
    assert refunds(world, "9") == []
    assert schedules(world) == []


async def test_the_turn_whose_worker_the_upgrade_ended_is_answered_once(world: World) -> None:
    if UPGRADED not in world.begun:
        await begin_upgrade(world)
    async with world.user().session(UPGRADED) as session:
        snapshot = await ended(session, timeout_seconds=6 * MINUTES)

    assert [message["role"] for message in snapshot["messages"]] == ["user", "assistant"]
    assert last_text(snapshot).splitlines() == [f"piece {n:02}" for n in range(SLOW_PIECES)]
