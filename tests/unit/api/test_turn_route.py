"""One turn by its id, over HTTP and with both clients."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import NotFoundError
from perdure.session import Session
from tests.unit.api.builders import Api, code


async def test_a_turn_is_read_by_its_id_and_its_events_follow_from_its_cursor(runtime: Any) -> None:
    session: Session = runtime.session("s-1")
    for text in ("one", "two"):
        receipt = await session.send(text)
        async for _ in session.events(after=receipt.cursor):
            pass

    shown = await session.turn("turn-1")

    assert shown["status"] == "completed"
    assert shown["answer"]["parts"] == [{"type": "text", "text": "You said: one"}]
    events = [event async for event in session.events(after=shown["cursor"])]
    assert {event.turn_id for event in events} == {"turn-1"}
    with pytest.raises(NotFoundError) as caught:
        await session.turn("turn-3")
    assert caught.value.code == "turn_not_found"


async def test_the_route_is_plain_json_and_knows_no_turn_of_what_was_never_written(api: Api) -> None:
    await api.refund_that_waits("s-1")

    status, shown = await api.get("/v1/sessions/s-1/turns/turn-1")

    assert (status, shown["status"], shown["tool_calls"]["total"]) == (200, "running", 1)
    assert code(await api.get("/v1/sessions/s-1/turns/turn-2")) == (404, "turn_not_found")
    assert code(await api.get("/v1/sessions/s-2/turns/turn-1")) == (404, "turn_not_found")
    assert code(await api.get("/v1/sessions/s%2F2/turns/turn-1")) == (400, "invalid_request")
