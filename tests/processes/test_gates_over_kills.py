"""A killed server keeps every gate as it was: a paused, a held and a waiting session go on when they are told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.session import Session
from perdure.testing.processes import again_until_answered
from perdure.testing.provider_plans import HttpError, Plan, answer
from perdure.testing.providers import FaultProvider
from tests.processes.dev_servers import DevServer

pytestmark = pytest.mark.processes

IDLE = "waiting_for_user_message"

States = list[dict[str, Any]]


class Script:
    """Answers everything, but for what `failing` names. `asked` holds the last user's text of each request."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failing: dict[str, HttpError] = {
            "fail": HttpError(status=400),
            "wait": HttpError(status=429, headers={"retry-after": "200"}),
        }

    def __call__(self, body: dict[str, Any]) -> Plan:
        text = next(m["content"] for m in reversed(body["messages"]) if m["role"] == "user")
        self.asked.append(text)
        return self.failing.get(text) or answer(f"re: {text}")


async def states(sessions: tuple[Session, ...], *, until: Callable[[States], bool]) -> States:
    """Return the states of sessions once they are as a test wants them."""
    async with asyncio.timeout(30):
        while True:
            found = [(await again_until_answered(session.snapshot))["state"] for session in sessions]
            if until(found):
                return found
            await asyncio.sleep(0.02)


async def test_a_paused_a_held_and_a_waiting_session_are_the_same_after_a_kill_and_go_on_when_told(
    tmp_path: Path,
) -> None:
    script = Script()
    async with (
        FaultProvider(script) as provider,
        DevServer(tmp_path, OPENAI_BASE_URL=provider.base_url) as server,
        perdure.connect(server.url) as client,
    ):
        paused, held, waiting = sessions = tuple(client.session(name) for name in ("paused", "held", "waiting"))
        await paused.send("hello")
        await states((paused,), until=lambda found: found[0]["status"] == IDLE)
        await paused.pause()
        await paused.send("later")
        await held.send("fail")
        await held.send("next")
        await waiting.send("wait")
        before = await states(sessions, until=lambda found: "held" in found[1] and "waiting_for" in found[2])

        await server.restart()

        assert await states(sessions, until=lambda found: True) == before
        assert sorted(script.asked) == ["fail", "hello", "wait"]
        script.failing.clear()
        await paused.resume()
        await held.retry()
        await waiting.retry()
        done = await states(sessions, until=lambda found: all(state["status"] == IDLE for state in found))
        assert [state["turn_count"] for state in done] == [2, 3, 1]
        assert sorted(script.asked[3:]) == ["fail", "later", "next", "wait"]
