"""Searching the session list: bounded in what it looks at, and complete page by page."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import listing
from perdure.core.entries import Actor
from perdure.errors import InvalidRequestError
from perdure.service import LOCAL_CALLER, Caller
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.desk import Desk, booking
from tests.unit.steps.builders import an_agent

SOMEBODY = Caller(tenant="local", actor=Actor(issuer="local", subject="u2"))


async def found(stage: Stage, *, limit: int = 50, caller: Caller = LOCAL_CALLER, **search: Any) -> list[list[str]]:
    """Return the ids of a search, page by page."""
    pages = []
    cursor = None
    while True:
        page = await stage.service.list_sessions(caller, cursor=cursor, limit=limit, **search)
        pages.append([row["session_id"] for row in page["sessions"]])
        cursor = page.get("next_cursor")
        if cursor is None:
            return pages


async def a_stage_of(stage: Stage, count: int) -> None:
    """Have sessions s-0, s-1 …, the newest last; every third one asks for a pear."""
    for number in range(count):
        await stage.clock.advance(1)
        await stage.send("a Pear" if number % 3 == 0 else "an apple", f"s-{number}")


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
@pytest.mark.parametrize("examined", [1, 2, 4, 500])
async def test_a_search_finds_each_match_once_however_little_it_looks_at(
    monkeypatch: pytest.MonkeyPatch, limit: int, examined: int
) -> None:
    monkeypatch.setattr(listing, "MOST_EXAMINED", examined)
    monkeypatch.setattr(listing, "PAGE", 7)
    async with open_stage(an_agent()) as stage:
        await a_stage_of(stage, 10)

        pages = await found(stage, limit=limit, query="PEAR")

        assert [session for page in pages for session in page] == ["s-9", "s-6", "s-3", "s-0"]
        assert max(map(len, pages)) <= limit


async def test_a_search_looks_at_so_many_sessions_and_says_that_there_are_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "MOST_EXAMINED", 4)
    async with open_stage(an_agent()) as stage:
        await a_stage_of(stage, 10)

        assert await found(stage, query="s-0") == [[], [], ["s-0"]]


async def test_the_last_match_of_a_full_page_is_not_followed_by_an_empty_page_that_was_not_needed() -> None:
    async with open_stage(an_agent()) as stage:
        await a_stage_of(stage, 4)

        assert await found(stage, limit=4) == [["s-3", "s-2", "s-1", "s-0"]]
        assert await found(stage, limit=2, query="pear") == [["s-3", "s-0"]]


async def test_sessions_that_wait_for_an_approval_and_those_that_are_active_are_found() -> None:
    async with open_stage(Desk().agent(booking("r1"))) as stage:
        await stage.send("go", "waits")
        await stage.run_all()
        await stage.clock.advance(1)
        await stage.send("go", "runs")

        assert await found(stage, waiting_for="approval") == [["waits"]]
        assert await found(stage, waiting_for="any") == [["waits"]]
        assert await found(stage, waiting_for="timer") == [[]]
        assert await found(stage, status="running_model") == [["runs"]]
        assert await found(stage, status="active") == [["runs", "waits"]]
        assert await found(stage, status="waiting_for_user_message") == [[]]
        assert await found(stage, agent="support") == [["runs", "waits"]]
        assert await found(stage, agent="nobody") == [[]]


async def test_a_search_finds_nothing_of_others() -> None:
    async with open_stage(an_agent()) as stage:
        await a_stage_of(stage, 4)

        assert await found(stage, caller=SOMEBODY, query="s-") == [[]]


@pytest.mark.parametrize(
    ("search", "complaint"),
    [
        ({"query": ""}, "query has 1 to 200"),
        ({"query": "  "}, "query has 1 to 200"),
        ({"query": "x" * 201}, "query has 1 to 200"),
        ({"query": "\ud800"}, "lone surrogate"),
        ({"waiting_for": "godot"}, "waiting_for 'godot' is unknown: use one of approval, "),
        ({"status": "idle"}, "status 'idle' is unknown: use one of active, "),
    ],
)
async def test_a_search_for_what_can_not_be_is_refused(search: dict[str, Any], complaint: str) -> None:
    async with open_stage(an_agent()) as stage:
        with pytest.raises(InvalidRequestError, match=complaint):
            await stage.service.list_sessions(LOCAL_CALLER, **search)
