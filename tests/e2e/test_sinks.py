"""Events on their way to the application: out of the table's stream, through a queue, to the sink beside the agents."""

from __future__ import annotations

import asyncio

from perdure.testing.processes import poll_until
from tests.e2e.people import ended
from tests.e2e.world import World


def delivered(world: World, session_id: str) -> list[int]:
    """Return the sequences that the deployed sink was given of a session, in that order."""
    listed = world.emulator.temporary / "audit"
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    return [int(sequence) for session, sequence in map(str.split, lines) if session == session_id]


async def conversed(world: World, session_id: str, turns: int = 1) -> list[int]:
    """Have some turns; return the sequences of all events."""
    user = world.user()
    async with user.session(session_id) as session, user.http() as http:
        for turn in range(1, turns + 1):
            await session.send('call lookup_order {"order_id": "7"}')
            await ended(session, turns=turn)
        reply = await http.get(f"/v1/sessions/{session_id}/events?limit=500")
        return [event["sequence"] for event in reply.json()["events"] if "sequence" in event]


async def test_a_sink_gets_every_event_of_a_session_once_in_order(world: World) -> None:
    events = await conversed(world, "audited", turns=2)

    await poll_until(lambda: events[-1] in delivered(world, "audited"), timeout_seconds=60, interval_seconds=0.3)
    assert delivered(world, "audited") == events == list(range(1, len(events) + 1))


async def test_what_a_sink_does_not_take_comes_again(world: World) -> None:
    events = await conversed(world, "refused-once")

    await poll_until(lambda: events[-1] in delivered(world, "refused-once"), timeout_seconds=60, interval_seconds=0.3)
    assert delivered(world, "refused-once") == events


async def test_a_process_that_dies_on_the_way_to_a_sink_loses_nothing(world: World) -> None:
    events, killed = await asyncio.gather(conversed(world, "killed"), kill_some(world))

    assert killed > 0, "there was something to kill"
    assert await poll_until(
        lambda: sorted(set(delivered(world, "killed"))) == events, timeout_seconds=500, interval_seconds=0.5
    )


async def kill_some(world: World) -> int:
    """Kill what tells sinks of commits, whenever there is such a process, for ten seconds."""
    killed = 0
    for _ in range(20):
        killed += world.emulator.kill_handlers("RelayCommits") + world.emulator.kill_handlers("DeliverNotices")
        await asyncio.sleep(0.5)
    return killed
