"""Kills at any moment, again and again, while many sessions are busy."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from perdure.embedded.viewer import open_viewer
from perdure.session import Session
from perdure.testing.processes import again_until_answered, decide, finished
from tests.processes.builders import Scene, all_events

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SEED = 20261130
KILLS = 20
SESSIONS = 4


class User:
    """Sends one message after another, approves what is asked, and never gives up."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.turns = 0

    async def play(self, enough: asyncio.Event) -> None:
        while not enough.is_set():
            key = f"m-{self.turns + 1}"

            async def send(key: str = key) -> Any:
                return await self.session.send("Refund order 7", idempotency_key=key)

            await again_until_answered(send, timeout_seconds=60)
            self.turns += 1
            deciding = asyncio.create_task(decide(self.session, timeout_seconds=60))
            await finished(self.session, turns=self.turns, timeout_seconds=60)
            deciding.cancel()
            await asyncio.wait({deciding})


async def test_twenty_kills_at_random_moments_lose_nothing_and_repeat_no_refund(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    enough = asyncio.Event()
    async with Scene(tmp_path, "slow_agent") as scene:
        users = [User(scene.worker.session(f"s-{number}")) for number in range(SESSIONS)]
        playing = [asyncio.create_task(user.play(enough)) for user in users]
        for _ in range(KILLS):
            await asyncio.sleep(chance.uniform(0.0, 0.35))
            await scene.worker.kill()
            await scene.worker.start()
        enough.set()
        await asyncio.gather(*playing)
        await scene.worker.stop()

        refunds = scene.log.by_key("refund")
        assert all(times == 1 for times in refunds.values())
        seen: Counter[str] = Counter()
        async with open_viewer(scene.database) as viewer:
            for user in users:
                seen += await checked(viewer.session(user.session.session_id), user.turns, refunds)
        assert len(refunds) <= seen["succeeded"] + seen["outcome_unknown"]
        assert seen["turn_completed"] > 0


async def checked(session: Session, turns: int, refunds: dict[str, int]) -> Counter[str]:
    """Check one session's whole history; return how its turns and refunds ended."""
    events = await all_events(session)
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    started = [event["turn_id"] for event in events if event["type"] == "turn_started"]
    assert started == [f"turn-{number}" for number in range(1, turns + 1)]
    ends = Counter(event["turn_id"] for event in events if event["type"] in ("turn_completed", "turn_failed"))
    assert ends == Counter(started)
    asked = Counter(e["payload"]["tool_call_id"] for e in events if e["type"] == "tool_call_deferred")
    answered = Counter(e["payload"]["tool_call_id"] for e in events if e["type"] == "tool_call_finished")
    assert answered == asked
    seen = Counter(event["type"] for event in events)
    for event in events:
        if event["type"] == "tool_call_finished" and event["payload"]["tool_name"] == "refund":
            status = event["payload"]["status"]
            seen[status] += 1
            key = f"local/{session.session_id}/{event['turn_id']}/{event['payload']['tool_call_id']}"
            # A call that three kills hit before it started says truthfully that it did not run.
            paid = {"succeeded": (1,), "outcome_unknown": (0, 1), "failed": (0,)}[status]
            assert refunds.get(key, 0) in paid, (key, status)
    return seen
