"""The search in the session list, over HTTP and with both clients."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.builders import Api, code


async def test_sessions_are_searched_over_http(api: Api) -> None:
    await api.refund_that_waits("case-1")
    await api.post("/v1/sessions/case-2/inputs", {"text": "Hello there"})
    await api.until("case-2", "turn_completed")

    async def ids(query: str) -> list[str]:
        status, page = await api.get(f"/v1/sessions?{query}")
        assert status == 200
        return [row["session_id"] for row in page["sessions"]]

    assert await ids("query=hello%20THERE") == ["case-2"]
    assert await ids("waiting_for=approval") == ["case-1"]
    assert await ids("status=active&limit=1") == ["case-1"]
    assert await ids("query=CASE&status=waiting_for_user_message") == ["case-2"]
    assert await ids("agent=other") == []


@pytest.mark.parametrize("query", ["query=", "waiting_for=", "waiting_for=x", "status=idle", "query=a&query=b", "q=a"])
async def test_a_search_that_makes_no_sense_is_refused(api: Api, query: str) -> None:
    assert code(await api.get(f"/v1/sessions?{query}")) == (400, "invalid_request")


async def test_both_clients_search_alike(runtime: Any) -> None:
    for session_id in ("one", "two"):
        await runtime.session(session_id).send(f"this is {session_id}")

    page = await runtime.sessions(query="IS TWO", status=None)

    assert [row["session_id"] for row in page["sessions"]] == ["two"]
