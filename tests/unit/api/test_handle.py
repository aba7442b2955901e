"""The routes, over a real service: what they answer, and that a refusal changes nothing."""

import asyncio
import json
from typing import Any

import pytest

from perdure._version import __version__
from perdure.api import ApiRequest, handle
from perdure.service import Caller
from tests.unit.api.builders import JSON, Api, Desk, Unreachable, a_caller, code, read


async def test_a_message_is_accepted_before_it_is_answered(api: Api, desk: Desk) -> None:
    """Field case F108: the answer may take longer than any gateway waits."""
    status, receipt = await api.post("/v1/sessions/s-1/inputs", {"text": "think hard"}, key="k-1")
    again, same = await api.post("/v1/sessions/s-1/inputs", {"text": "think hard"}, key="k-1")

    assert (status, again) == (202, 202)
    assert receipt == {
        "message_id": receipt["message_id"],
        "turn_id": "turn-1",
        "delivered_as": "queue",
        "duplicate": False,
        "cursor": receipt["cursor"],
    }
    assert same == {**receipt, "duplicate": True}
    desk.gate.set()
    assert (await api.until("s-1", "turn_completed"))["turn_id"] == "turn-1"


async def test_the_receipts_cursor_stands_right_before_the_first_event(api: Api, desk: Desk) -> None:
    await api.post("/v1/sessions/s-1/inputs", {"text": "think"})
    _, queued = await api.post("/v1/sessions/s-1/inputs", {"text": "next"})

    _, page = await api.get(f"/v1/sessions/s-1/events?after={queued['cursor']}&limit=1")

    assert [event["type"] for event in page["events"]] == ["message_queued"]
    assert page["events"][0]["payload"]["message_id"] == queued["message_id"]
    assert "turn_id" not in queued


async def test_simultaneous_sends_with_one_key_are_one_message(api: Api) -> None:
    """Field case F136."""
    replies = await asyncio.gather(
        *(api.post("/v1/sessions/s-1/inputs", {"text": "hello"}, key="m-1-1") for _ in range(5))
    )

    assert {status for status, _ in replies} == {202}
    assert len({body["message_id"] for _, body in replies}) == 1
    assert sorted(body["duplicate"] for _, body in replies) == [False, True, True, True, True]


async def test_files_go_with_a_message_and_come_back_with_it(api: Api) -> None:
    cat = {"reference": "uploads/cat.png", "media_type": "image/png"}
    status, _ = await api.post("/v1/sessions/s-1/inputs", {"text": "look", "files": [cat]})
    refused = await api.post("/v1/sessions/s-1/inputs", {"text": "look", "files": [cat | {"data": "aGk="}]})

    _, snapshot = await api.get("/v1/sessions/s-1")

    assert status == 202
    assert code(refused) == (400, "invalid_request")
    assert snapshot["messages"][0]["parts"] == [{"type": "text", "text": "look"}, {"type": "file", **cat}]


async def test_a_key_with_other_content_is_a_mismatch(api: Api) -> None:
    await api.post("/v1/sessions/s-1/inputs", {"text": "one"}, key="k")

    reply = await api.post("/v1/sessions/s-1/inputs", {"text": "two"}, key="k")

    assert code(reply) == (409, "idempotency_mismatch")


@pytest.mark.parametrize("text", ["a\x00b", "\u2028\x85x", "\U0001f600", "  indented\n", "e\u0301", "\ufeffb"])
async def test_text_comes_back_exactly_as_it_was_sent(api: Api, text: str) -> None:
    await api.post("/v1/sessions/s-1/inputs", {"text": text})
    await api.until("s-1", "turn_completed")

    _, page = await api.get("/v1/sessions/s-1/messages")

    assert page["messages"][0]["parts"] == [{"type": "text", "text": text}]
    assert page["messages"][1]["parts"] == [{"type": "text", "text": f"You said: {text}"}]


async def test_an_approval_runs_the_call_once_however_often_it_is_sent(api: Api, desk: Desk) -> None:
    """Field case F046."""
    interrupt_id = await api.refund_that_waits("s-1")
    path = f"/v1/sessions/s-1/interrupts/{interrupt_id}"

    both = await asyncio.gather(api.post(path, {"approved": True}), api.post(path, {"approved": True}))
    rejected = await api.post(path, {"approved": False})
    await api.until("s-1", "turn_completed")

    assert sorted(status for status, _ in both) == [200, 409]
    assert (200, {"result": "resolved"}) in both
    assert code(rejected) == (409, "not_pending")
    assert desk.refunds == ["7"]


async def test_a_repeated_decision_with_its_key_gets_the_first_reply(api: Api, desk: Desk) -> None:
    """Field case F049: a client that repeats itself after a lost answer loops into nothing."""
    interrupt_id = await api.refund_that_waits("s-1")
    path = f"/v1/sessions/s-1/interrupts/{interrupt_id}"

    replies = [await api.post(path, {"approved": True}, key="decision") for _ in range(3)]
    await api.until("s-1", "turn_completed")

    assert replies == [(200, {"result": "resolved"})] * 3
    assert desk.refunds == ["7"]


async def test_a_decision_names_its_actor(api: Api) -> None:
    interrupt_id = await api.refund_that_waits("s-1")

    await api.post(f"/v1/sessions/s-1/interrupts/{interrupt_id}", {"approved": False})

    resolved = await api.until("s-1", "interrupt_resolved")
    assert resolved["payload"]["actor"] == {"issuer": "local", "subject": "local"}


async def test_stop_is_a_command_and_tells_what_it_found(api: Api, desk: Desk) -> None:
    """Field case F033."""
    await api.post("/v1/sessions/s-1/inputs", {"text": "think"})

    assert await api.post("/v1/sessions/s-1/stop", {"turn_id": "turn-9"}) == (200, {"result": "other_turn"})
    assert await api.post("/v1/sessions/s-1/stop", b"") == (200, {"result": "recorded"})
    await api.until("s-1", "turn_cancelled")
    assert await api.post("/v1/sessions/s-1/stop", {"turn_id": "turn-1"}) == (200, {"result": "already_recorded"})
    assert await api.post("/v1/sessions/s-1/stop", {}) == (200, {"result": "idle"})


async def test_sessions_are_listed_newest_first_in_pages(api: Api) -> None:
    for number in range(3):
        await api.post(f"/v1/sessions/s-{number}/inputs", {"text": "hi"})
        await api.until(f"s-{number}", "turn_completed")

    _, first = await api.get("/v1/sessions?limit=2")
    _, rest = await api.get(f"/v1/sessions?limit=2&cursor={first['next_cursor']}")

    assert [row["session_id"] for row in first["sessions"] + rest["sessions"]] == ["s-2", "s-1", "s-0"]
    assert "next_cursor" not in rest


@pytest.mark.parametrize("limit", [-3, 0, 1, 10**6])
async def test_a_limit_is_clamped(api: Api, limit: int) -> None:
    await api.post("/v1/sessions/s-1/inputs", {"text": "hi"})
    await api.until("s-1", "turn_completed")

    status, page = await api.get(f"/v1/sessions/s-1/messages?limit={limit}")

    assert status == 200
    assert len(page["messages"]) == (1 if limit <= 1 else 2)


async def test_a_session_that_was_never_written_reads_as_empty(api: Api) -> None:
    status, snapshot = await api.get("/v1/sessions/nobody")
    _, messages = await api.get("/v1/sessions/nobody/messages")
    _, events = await api.get("/v1/sessions/nobody/events")
    _, inbox = await api.get("/v1/sessions/nobody/inbox")

    assert (status, snapshot["state"], snapshot["messages"]) == (200, None, [])
    assert (messages, events["events"], inbox) == ({"messages": []}, [], {"entries": []})


async def test_whoever_asks_for_another_tenants_session_finds_nothing(api: Api) -> None:
    """Field cases F057 and F143."""
    owner = Api(api.service, a_caller("u-1", "t-1"))
    stranger = Api(api.service, a_caller("u-2", "t-2"))
    interrupt_id = await owner.refund_that_waits("s-1")
    before = await owner.everything("s-1")

    assert code(await stranger.post(f"/v1/sessions/s-1/interrupts/{interrupt_id}", {"approved": True}))[0] == 404
    assert code(await stranger.post("/v1/sessions/s-1/stop", {}))[0] == 404
    assert (await stranger.get("/v1/sessions/s-1"))[1]["state"] is None
    assert (await stranger.get("/v1/sessions/s-1/events"))[1]["events"] == []
    assert (await stranger.get("/v1/sessions"))[1]["sessions"] == []
    assert await owner.everything("s-1") == before


async def test_whoever_asks_for_a_colleagues_session_finds_nothing(api: Api) -> None:
    owner = Api(api.service, a_caller("u-1"))
    colleague = Api(api.service, a_caller("u-2"))
    interrupt_id = await owner.refund_that_waits("s-1")
    before = await owner.everything("s-1")

    attempts = [
        await colleague.post(f"/v1/sessions/s-1/interrupts/{interrupt_id}", {"approved": True}),
        await colleague.post("/v1/sessions/s-1/inputs", {"text": "hi"}),
        await colleague.post("/v1/sessions/s-1/stop", {}),
        await colleague.get("/v1/sessions/s-1"),
        await colleague.get("/v1/sessions/s-1/messages"),
        await colleague.get("/v1/sessions/s-1/events"),
        await colleague.get("/v1/sessions/s-1/inbox"),
    ]

    assert {code(reply) for reply in attempts} == {(404, "session_not_found")}
    assert (await colleague.get("/v1/sessions"))[1]["sessions"] == []
    assert await owner.everything("s-1") == before


# --- around the service -------------------------------------------------------------------------


async def test_health_names_the_addresses_of_what_is_elsewhere(api: Api) -> None:
    places = {"stream_url": "https://streams.example.com/live", "socket_url": "wss://sockets.example.com/live"}

    response = await Api(api.service, caller=None).send("GET", "/healthz", **places)

    assert json.loads(response.body) == {"status": "ok", "version": __version__} | places


@pytest.mark.parametrize(
    ("stream_url", "told"),
    [
        ("https://s.example.com/live", "open it at https://s.example.com/live/v1/sessions/s-1/events, or ask for JSON"),
        (None, "this address can't stream: ask for JSON here"),
    ],
)
async def test_a_stream_that_is_not_to_be_had_here_is_refused_with_its_address(
    api: Api, stream_url: str | None, told: str
) -> None:
    headers = {"accept": "text/event-stream"}
    response = await api.send("GET", "/v1/sessions/s-1/events", headers=headers, stream_url=stream_url)

    error = json.loads(response.body)["error"]
    assert (response.status, error["code"]) == (400, "invalid_request")
    assert told in error["message"]


async def test_health_and_the_document_need_no_caller(api: Api) -> None:
    nobody = Api(api.service, caller=None)

    assert await nobody.get("/healthz") == (200, {"status": "ok", "version": __version__})
    assert (await nobody.get("/openapi.json"))[0] == 200
    assert code(await nobody.get("/v1/sessions")) == (401, "unauthorized")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/v1"),
        ("GET", "/v2/sessions"),
        ("POST", "/v1/sessions"),
        ("DELETE", "/v1/sessions/s-1"),
        ("POST", "/v1/sessions/s-1/compact"),
        ("POST", "/v1/sessions/s-1/settings"),
        ("GET", "/v1/sessions/s-1/pause"),
        ("GET", "/v1/sessions/s-1/inbox/m-1"),
        ("POST", "/v1/socket-tickets"),
        ("POST", "/v1/chats"),
        ("GET", "/v1/sessions/s-1/inputs"),
        ("POST", "/v1/sessions/a/b/inputs"),
        ("OPTIONS", "/v1/sessions"),
    ],
)
async def test_a_missing_route_is_not_found(api: Api, method: str, path: str) -> None:
    assert code(read(await api.send(method, path, headers=JSON, body=b"{}"))) == (404, "not_found")


@pytest.mark.parametrize("session_id", ["", "a%2Fb", "a%20b", "%00", "%ff", "a" * 129, "ä", "a%23", "%2e%2e%2fx"])
async def test_a_malformed_session_id_is_refused(api: Api, session_id: str) -> None:
    reads = await api.get(f"/v1/sessions/{session_id}")
    sends = await api.post(f"/v1/sessions/{session_id}/inputs", {"text": "hi"})

    assert code(reads) == code(sends) == (400, "invalid_request")


@pytest.mark.parametrize("session_id", [".", "..", "a:b", "%61", "a" * 128, "A-Z_0.9"])
async def test_every_well_formed_session_id_works(api: Api, session_id: str) -> None:
    status, _ = await api.post(f"/v1/sessions/{session_id}/inputs", {"text": "hi"})

    assert status == 202


async def test_tickets_are_issued_where_the_host_has_an_issuer(api: Api) -> None:
    async def issue(caller: Caller) -> dict[str, Any]:
        return {"ticket": f"ticket of {caller.actor.subject}"}

    reply = read(await Api(api.service, tickets=issue).send("POST", "/v1/socket-tickets"))

    assert reply == (200, {"ticket": "ticket of local"})


async def test_a_stream_is_refused_where_the_host_can_not_stream(api: Api) -> None:
    reply = await api.get("/v1/sessions/s-1/events", accept="text/event-stream")

    assert code(reply) == (400, "invalid_request")
    assert "wait_seconds" in reply[1]["error"]["message"]


@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "*/*", "", "text/html"])
async def test_without_asking_for_a_stream_first_events_come_as_json(api: Api, accept: str) -> None:
    response = await api.send("GET", "/v1/sessions/s-1/events", headers={"accept": accept}, can_stream=True)

    assert read(response)[1]["events"] == []


async def test_a_store_without_an_answer_may_be_asked_again() -> None:
    status, body = await Api(Unreachable()).post("/v1/sessions/s-1/inputs", {"text": "hi"})

    assert (status, body["error"]["code"], body["error"]["retryable"]) == (503, "store_unavailable", True)


async def test_a_bug_is_an_internal_error_and_nothing_more() -> None:
    status, body = await Api(object()).get("/v1/sessions")

    assert (status, body["error"]["code"]) == (500, "internal")


async def test_a_long_poll_ends_when_the_host_closes(api: Api) -> None:
    closing = asyncio.Event()
    request = ApiRequest(method="GET", path="/v1/sessions/s-1/events", query="wait_seconds=20", closing=closing)
    polling = asyncio.create_task(handle(request, api.service, api.caller))

    closing.set()

    async with asyncio.timeout(5):
        status, page = read(await polling)
    assert (status, page["events"]) == (200, [])


async def test_a_long_poll_ends_with_the_first_event(api: Api) -> None:
    polling = asyncio.create_task(api.get("/v1/sessions/s-1/events?wait_seconds=20"))
    await asyncio.sleep(0)

    await api.post("/v1/sessions/s-1/inputs", {"text": "hi"})

    async with asyncio.timeout(5):
        _, page = await polling
    assert page["events"][0]["type"] == "turn_started"
