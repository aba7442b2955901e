"""Schedules and approvals ahead: the same in the process of the runtime and over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.client import Client
from perdure.errors import ForbiddenError, InvalidRequestError, NotFoundError, RequestConflictError
from perdure.session import Session
from tests.unit.api.builders import Api, code

WEEKDAYS = {"every": "0 9 * * mon-fri", "time_zone": "Europe/Berlin"}
SCHEDULES = "/v1/sessions/s-1/schedules"


async def test_a_schedule_is_set_listed_changed_and_cancelled(runtime: Any) -> None:
    session: Session = runtime.session("s-1")
    tomorrow = datetime.now(UTC) + timedelta(days=1)

    made = await session.schedule("report", at=tomorrow, schedule_id="r", metadata={"to": "me"}, delivery="inject")
    assert made["schedule_id"] == "r"
    (shown,) = await session.schedules()
    assert (shown["text"], shown["metadata"], shown["delivery"], shown["recurring"]) == (
        "report",
        {"to": "me"},
        "inject",
        False,
    )

    await session.change_schedule("r", text="daily report", every="0 9 * * mon-fri", time_zone="Europe/Berlin")
    (shown,) = await session.schedules()
    assert (shown["text"], shown["when"], shown["metadata"]) == ("daily report", WEEKDAYS, {"to": "me"})

    assert await session.cancel_schedule("r") == {"result": "recorded"}
    assert await session.schedules() == []
    with pytest.raises(NotFoundError) as caught:
        await session.cancel_schedule("r")
    assert caught.value.code == "schedule_not_found"


async def test_times_are_given_as_python_has_them(runtime: Any) -> None:
    session: Session = runtime.session("s-1")

    await session.schedule("a", after=timedelta(hours=2), schedule_id="a")
    await session.schedule("b", every=timedelta(minutes=90), time_zone="UTC", schedule_id="b")
    await session.schedule("c", after={"days": 1, "hours": 1}, schedule_id="c")

    whens = {each["schedule_id"]: each["when"] for each in await session.schedules()}
    assert whens == {
        "a": {"after": {"seconds": 7200}},
        "b": {"every": {"seconds": 5400}, "time_zone": "UTC"},
        "c": {"after": {"days": 1, "hours": 1}},
    }
    with pytest.raises(InvalidRequestError, match="whole seconds"):
        await session.schedule("d", after=timedelta(milliseconds=1500))


async def test_what_is_refused_is_so_in_the_same_class(runtime: Any) -> None:
    session: Session = runtime.session("s-1")
    await session.schedule("a", after=timedelta(hours=2), schedule_id="a")

    with pytest.raises(RequestConflictError) as caught:
        await session.schedule("b", after=timedelta(hours=2), schedule_id="a")
    assert caught.value.code == "schedule_exists"
    with pytest.raises(InvalidRequestError, match="exactly one"):
        await session.schedule("c")
    with pytest.raises(NotFoundError) as missing:
        await session.revoke_grant("grant-1-0")
    assert missing.value.code == "grant_not_found"


async def test_it_is_a_wait_that_can_be_moved_and_had_now(runtime: Any) -> None:
    session: Session = runtime.session("s-1")
    await session.schedule("say hello", after=timedelta(hours=2), schedule_id="a")
    later = datetime.now(UTC) + timedelta(hours=5)

    (wait,) = await session.waits()
    assert (wait["kind"], wait["id"]) == ("schedule", "schedule:a")
    assert [call["path"] for call in wait["calls"]] == [
        "/v1/sessions/s-1/waits/schedule:a/skip",
        "/v1/sessions/s-1/waits/schedule:a",
        "/v1/sessions/s-1/waits/schedule:a",
    ]
    await session.change_wait("schedule:a", later)
    assert (await session.schedules())[0]["next_at"][:16] == later.isoformat()[:16]
    await session.skip_wait("schedule:a")

    async for event in session.events():
        if event.type == "turn_completed":
            break
    assert await session.schedules() == []
    assert [m["parts"][0]["text"] for m in (await session.messages())["messages"]] == [
        "say hello",
        "You said: say hello",
    ]


async def test_only_trusted_code_asks_people_for_values(runtime: Any) -> None:
    session: Session = runtime.session("s-1")
    await session.send("hello")

    if isinstance(runtime, Client):
        with pytest.raises(ForbiddenError, match=r"perdure\.open"):
            await session.request_value("address", "Where to?")
        return
    made = await session.request_value("address", "Where to?")
    assert made == {"interrupt_id": "input:address"}
    await session.give("input:address", {"street": "1 Road"})
    await session.request_value("address", "And now?")
    await session.withdraw_request("address")


@pytest.mark.parametrize(
    "body",
    [
        {"text": "x"},
        {"text": "x", "after": {"hours": 1}, "at": "2027-01-01T00:00:00Z"},
        {"text": "x", "after": {"hours": "1"}},
        {"text": "x", "after": {"hours": 1.5}},
        {"text": "x", "every": 5, "time_zone": "UTC"},
        {"text": "x", "after": {"hours": 1}, "who": "me"},
        {"after": {"hours": 1}},
        {"text": "x", "after": {"hours": 1}, "delivery": "soon"},
    ],
)
async def test_a_body_that_is_none_is_refused(api: Api, body: dict[str, Any]) -> None:
    assert code(await api.post(SCHEDULES, body)) == (400, "invalid_request")


async def test_a_duration_that_is_a_text_is_told_to_be_an_object(api: Api) -> None:
    status, reply = await api.post(SCHEDULES, {"text": "x", "after": "3 days"})
    assert status == 400
    assert reply["error"]["message"] == "`after` has to be a JSON object, {…}, not another value"


async def test_a_key_gives_the_first_reply_again(api: Api) -> None:
    body = {"text": "x", "after": {"hours": 1}}

    first = await api.post(SCHEDULES, body, key="k")
    again = await api.post(SCHEDULES, body, key="k")

    assert first == again
    assert first[0] == 200
    assert code(await api.post(SCHEDULES, body | {"text": "y"}, key="k")) == (409, "idempotency_mismatch")
    assert len((await api.get(SCHEDULES))[1]["schedules"]) == 1


async def test_a_session_that_was_never_written_has_none(api: Api) -> None:
    assert await api.get(SCHEDULES) == (200, {"schedules": []})


async def test_an_approval_grants_and_the_grant_is_shown_and_revoked(api: Api) -> None:
    interrupt_id = await api.refund_that_waits("s-1")
    path = f"/v1/sessions/s-1/interrupts/{interrupt_id}"

    assert code(await api.post(path, {"approved": False, "grant": {"lasts_seconds": 60}})) == (400, "invalid_request")
    assert code(await api.post(path, {"approved": True, "grant": {"lasts_seconds": "60"}})) == (400, "invalid_request")
    grant = {"lasts_seconds": 60, "fields": ["order_id"], "max_uses": 2}
    assert await api.post(path, {"approved": True, "grant": grant}) == (200, {"result": "resolved"})

    (shown,) = (await api.get("/v1/sessions/s-1"))[1]["state"]["grants"]
    assert (shown["tool_name"], shown["uses_left"]) == ("refund_order", 2)
    revoked = await api.command("DELETE", f"/v1/sessions/s-1/grants/{shown['grant_id']}")
    assert revoked == (200, {"result": "recorded"})
