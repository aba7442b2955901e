"""The development server with many sessions at once: nobody starves, memory is bounded, a flood harms only its sender.

These tests run on the real clock, because what they are about is who gets how much of it. So they compare sessions with
each other and never with a stop watch.
"""

import asyncio
import json
import resource
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure import AgentDefinition
from perdure.embedded.runtime import EmbeddedRuntime
from perdure.models import ScriptedModel
from tests.unit.api.builders import a_server

pytestmark = [pytest.mark.load, pytest.mark.timeout(120)]

SESSIONS = 200
PIECES = 10
PIECE_SECONDS = 0.1
TEXT = "a slow word " * PIECES

MOST_OVER_MEDIAN = 1.6
"""How much longer than the median the slowest turn may take. Taking turns one after the other would be 2."""

MOST_OVER_CALM = 3.0
"""How much longer a turn may take beside a flood than before it: the flood's sender takes one of the cores, too."""

MOST_RSS_GROWTH = 96 * 1024 * 1024
"""Bytes that 200 sessions with a viewer each may add: half a megabyte a session."""


def a_slow_agent() -> AgentDefinition:
    delay = timedelta(seconds=PIECE_SECONDS)
    model = ScriptedModel(lambda _: TEXT, chunk=len(TEXT) // PIECES, delay=delay)
    return AgentDefinition(name="slow", model=model)


@asynccontextmanager
async def a_slow_server(folder: Path) -> AsyncIterator[str]:
    runtime = EmbeddedRuntime(folder / "sessions.db", [a_slow_agent()], grace_seconds=0)
    async with runtime, a_server(runtime.service) as url:
        yield url


@asynccontextmanager
async def a_client(url: str) -> AsyncIterator[httpx.AsyncClient]:
    # No connection is used twice: an idle one may be closed by the server at the very moment of its next use.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
        yield client


@dataclass(frozen=True)
class StreamedTurn:
    """When a turn began, showed its first text and ended, in seconds of one clock."""

    began: float
    spoke: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


async def a_streamed_turn(http: httpx.AsyncClient, session: str, number: int) -> StreamedTurn:
    """Send a message and follow the stream of events to the turn's end."""
    began = time.perf_counter()
    spoke = None
    sent = await http.post(f"/v1/sessions/{session}/inputs", json={"text": f"go {number}"})
    assert sent.status_code == 202, sent.text
    text = ""
    query = {"after": sent.json()["cursor"]}
    accept = {"accept": "text/event-stream"}
    async with http.stream("GET", f"/v1/sessions/{session}/events", params=query, headers=accept) as stream:
        assert stream.status_code == 200
        async for line in stream.aiter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line.removeprefix("data: "))
            if event["type"] == "text_delta":
                text += event["payload"]["text"]
                spoke = spoke or time.perf_counter()
            if event["type"] == "turn_completed":
                break
    assert text in ("", TEXT) or TEXT.endswith(text)  # a viewer that came late sees the rest
    ended = time.perf_counter()
    return StreamedTurn(began=began, spoke=spoke or ended, ended=ended)


def slowest(turns: Sequence[StreamedTurn]) -> float:
    return max(turn.seconds for turn in turns)


async def test_of_two_hundred_slow_streams_none_starves_and_memory_stays_bounded(tmp_path: Path) -> None:
    async with a_slow_server(tmp_path) as url, a_client(url) as http:
        await a_streamed_turn(http, "warm", 0)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

        first = await asyncio.gather(*(a_streamed_turn(http, f"s-{n}", 1) for n in range(SESSIONS)))
        second = await asyncio.gather(*(a_streamed_turn(http, f"s-{n}", 2) for n in range(SESSIONS)))

        for turns in (first, second):
            assert slowest(turns) <= MOST_OVER_MEDIAN * statistics.median(turn.seconds for turn in turns)
            # The last one hears its model while most others are still being answered: nobody waits for a free place.
            assert max(turn.spoke for turn in turns) < statistics.median(turn.ended for turn in turns)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
        assert grown <= MOST_RSS_GROWTH


async def test_a_busy_session_gets_no_more_of_the_server_than_the_others(tmp_path: Path) -> None:
    async with a_slow_server(tmp_path) as url, a_client(url) as http:
        await a_streamed_turn(http, "warm", 0)
        queued = [http.post("/v1/sessions/busy/inputs", json={"text": f"go {n}"}) for n in range(12)]
        assert {sent.status_code for sent in await asyncio.gather(*queued)} == {202}

        others = await asyncio.gather(*(a_streamed_turn(http, f"s-{n}", 1) for n in range(SESSIONS // 4)))

        snapshot = (await http.get("/v1/sessions/busy")).json()
        assert slowest(others) <= MOST_OVER_MEDIAN * statistics.median(turn.seconds for turn in others)
        rounds = slowest(others) / (PIECES * PIECE_SECONDS)
        assert snapshot["state"]["turn_count"] <= 2 + rounds  # one turn at a time, whatever is queued


async def test_a_flooding_client_gets_429_and_harms_only_itself(tmp_path: Path) -> None:
    async with a_slow_server(tmp_path) as url, a_client(url) as http:
        await a_streamed_turn(http, "warm", 0)
        calm = await asyncio.gather(*(a_streamed_turn(http, f"s-{n}", 1) for n in range(20)))

        async with a_flood(url, "flooded") as flood:
            others = await asyncio.gather(*(a_streamed_turn(http, f"s-{n}", 2) for n in range(20)))
        seen = json.loads(await flood.stdout.read())

        assert seen["statuses"]["429"] > seen["statuses"]["202"]
        assert set(seen["statuses"]) <= {"202", "413", "429"}  # 413: its inbox is full, too
        error = json.loads(seen["answer"])["error"]
        assert (error["code"], error["retryable"]) == ("too_many_requests", True)
        assert int(seen["retry_after"]) >= 1
        snapshot = (await http.get("/v1/sessions/flooded")).json()
        accepted = snapshot["state"]["turn_count"] + len(snapshot["inbox"])
        assert accepted == seen["statuses"]["202"]  # nothing came of those that were refused
        assert slowest(others) <= MOST_OVER_CALM * slowest(calm)


@asynccontextmanager
async def a_flood(url: str, session: str) -> AsyncIterator[Any]:
    """Have a process of its own send to one session over 100 connections for as long as the others need."""
    command = [sys.executable, str(Path(__file__).with_name("flood.py")), url.removesuffix("/"), session, "4", "100"]
    flood = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        yield flood
        await asyncio.wait_for(flood.wait(), 60)
    finally:
        if flood.returncode is None:
            flood.kill()
