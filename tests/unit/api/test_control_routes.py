"""The routes that control a session, over a real service: replies, codes, keys, and that a refusal changes nothing."""

from typing import Any

import pytest

from perdure.api import result_shapes, shapes
from perdure.api.routes import ROUTES
from tests.unit.api.builders import JSON, Api, Desk, code, read
from tests.unit.api.test_openapi import fit_their_types, fits

SESSION = "/v1/sessions/s-1"
KEPT = ("inject", "steer", "passive")
"""Deliveries that a waiting message keeps; the others are done once the running turn is told to stop."""


async def thinking(api: Api, *waiting: str) -> list[str]:
    """Have a turn run that ends when the gate opens, and messages wait behind it; return their ids."""
    await api.post(f"{SESSION}/inputs", {"text": "think"})
    ids = []
    for text in waiting:
        _, receipt = await api.post(f"{SESSION}/inputs", {"text": text})
        ids.append(receipt["message_id"])
    return ids


async def texts(api: Api) -> list[str]:
    _, inbox = await api.get(f"{SESSION}/inbox")
    fits(shapes.Inbox, inbox)
    return [entry["text"] for entry in inbox["entries"]]


async def failed(api: Api) -> None:
    """Have a turn fail, and a message be held behind it."""
    await api.post(f"{SESSION}/inputs", {"text": "fail"})
    await api.until("s-1", "turn_failed")
    await api.post(f"{SESSION}/inputs", {"text": "later"})


async def state(api: Api) -> Any:
    _, snapshot = await api.get(SESSION)
    fits(shapes.Snapshot, snapshot)
    return snapshot["state"]


# --- inputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "delivery", ["queue", "inject", "steer", "interrupt", "interrupt_next", "supersede", "passive"]
)
async def test_every_delivery_mode_is_taken_and_told(api: Api, desk: Desk, delivery: str) -> None:
    await thinking(api)

    status, receipt = await api.post(f"{SESSION}/inputs", {"text": "more", "delivery": delivery})

    assert (status, receipt["delivered_as"]) == (202, delivery)
    fits(shapes.Receipt, receipt)
    _, inbox = await api.get(f"{SESSION}/inbox")
    states = {"steer": "steered", "passive": "passive"}
    shown = [(entry["delivery"], entry["state"]) for entry in inbox["entries"]]
    assert shown in ([], [(delivery if delivery in KEPT else "queue", states.get(delivery, "queued"))])
    assert bool(shown) or delivery in ("interrupt", "interrupt_next", "supersede")


async def test_an_answer_that_was_superseded_says_so(api: Api) -> None:
    await api.refund_that_waits("s-1")

    await api.post(f"{SESSION}/inputs", {"text": "hello", "delivery": "supersede"})
    await api.until("s-1", "turn_completed")

    _, page = await api.get(f"{SESSION}/messages")
    fits(shapes.MessagePage, page)
    said = {m["parts"][0]["text"]: m.get("status") for m in page["messages"] if m["role"] == "assistant"}
    assert said == {"One moment.": "superseded", "You said: hello": None}


async def test_without_a_running_turn_a_steer_is_an_ordinary_message(api: Api) -> None:
    _, receipt = await api.post(f"{SESSION}/inputs", {"text": "hi", "delivery": "steer"})

    assert (receipt["delivered_as"], receipt["turn_id"]) == ("queue", "turn-1")


async def test_settings_come_with_a_message_or_replace_all_of_them(api: Api) -> None:
    await api.post(f"{SESSION}/inputs", {"text": "hi", "settings": {"tone": "dry"}, "run_settings": {"effort": "low"}})
    _, first = await api.get(SESSION)

    replaced = await api.command("PUT", f"{SESSION}/settings", {"language": "nl"})
    _, second = await api.get(SESSION)

    assert first["settings"] == {"tone": "dry"}
    assert replaced == (200, {"result": "recorded"})
    assert second["settings"] == {"language": "nl"}


@pytest.mark.parametrize("settings", [{"text": "x" * 17_000}, {"approval_mode": "never"}])
async def test_settings_that_can_not_be_kept_are_refused(api: Api, settings: dict[str, Any]) -> None:
    await api.post(f"{SESSION}/inputs", {"text": "hi"})
    await api.until("s-1", "turn_completed")
    before = await api.everything("s-1")

    assert code(await api.command("PUT", f"{SESSION}/settings", settings)) == (400, "invalid_request")
    assert code(await api.post(f"{SESSION}/inputs", {"text": "a", "settings": settings})) == (400, "invalid_request")
    assert await api.everything("s-1") == before


# --- stop, retry, pause -------------------------------------------------------------------------


async def test_a_stop_takes_the_cursor_of_what_was_shown(api: Api) -> None:
    await thinking(api)
    _, page = await api.get(f"{SESSION}/events")

    assert await api.post(f"{SESSION}/stop", {"frontier": page["cursor"]}) == (200, {"result": "recorded"})
    assert (await api.until("s-1", "turn_cancelled"))["payload"]["frontier"]["version"] == 1
    fit_their_types((await api.get(f"{SESSION}/events"))[1]["events"])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"frontier": "broken"}, "invalid_cursor"),
        ({"turn_id": "turn-1", "message_id": "m"}, "invalid_request"),
        ({"disposition": "shred"}, "invalid_request"),
    ],
)
async def test_a_stop_that_makes_no_sense_changes_nothing(api: Api, body: dict[str, Any], expected: str) -> None:
    await thinking(api)

    assert code(await api.post(f"{SESSION}/stop", body)) == (400, expected)
    assert "stopping" not in await state(api)


@pytest.mark.parametrize(
    ("body", "result"),
    [({"turn_id": "turn-9"}, "other_turn"), ({"step_execution_id": "step-9"}, "other_turn"), ({}, "recorded")],
)
async def test_a_stop_means_exactly_what_it_names(api: Api, body: dict[str, Any], result: str) -> None:
    await thinking(api)

    assert await api.post(f"{SESSION}/stop", body) == (200, {"result": result})


async def test_a_failed_turn_is_retried_once_per_id(api: Api, desk: Desk) -> None:
    await failed(api)
    held = await state(api)
    desk.mended = True

    recorded = await api.post(f"{SESSION}/retry", {"retry_id": "click-1"})
    again = await api.post(f"{SESSION}/retry", {"retry_id": "click-1"})

    assert held["held"] is True
    assert held["last_turn_error"] == {"code": "provider", "message": "the model says no"}
    assert recorded == (200, {"result": "recorded", "turn_id": "turn-2"})
    assert again == (200, {"result": "already_recorded", "turn_id": "turn-2"})
    fit_their_types((await api.get(f"{SESSION}/events"))[1]["events"])
    fits(result_shapes.RetryResult, again[1])


async def test_a_retry_needs_a_turn_that_failed(api: Api) -> None:
    await api.post(f"{SESSION}/inputs", {"text": "hi"})
    await api.until("s-1", "turn_completed")

    assert code(await api.post(f"{SESSION}/retry", {"retry_id": "click-1"})) == (409, "not_failed")


async def test_a_failed_turn_is_dismissed_by_a_stop(api: Api) -> None:
    await failed(api)

    assert await api.post(f"{SESSION}/stop", {}) == (200, {"result": "recorded"})

    released = await api.until("s-1", "hold.released")
    assert released["payload"]["actor"] == {"issuer": "local", "subject": "local"}
    assert (await api.until("s-1", "turn_completed"))["turn_id"] == "turn-2"


async def test_a_paused_session_begins_nothing_until_it_is_resumed(api: Api) -> None:
    await thinking(api)
    paused = await api.post(f"{SESSION}/pause", {})
    again = read(await api.send("POST", f"{SESSION}/pause"))
    shown = await state(api)
    _, listed = await api.get("/v1/sessions")

    resumed = await api.post(f"{SESSION}/resume", {})

    assert (paused, again) == ((200, {"result": "recorded"}), (200, {"result": "already_recorded"}))
    assert shown["paused"] is True
    assert listed["sessions"][0]["paused"] is True
    fits(shapes.SessionPage, listed)
    assert resumed == (200, {"result": "recorded"})
    assert "paused" not in await state(api)


async def test_a_pause_takes_no_form_of_a_web_page(api: Api) -> None:
    await thinking(api)
    form = {"content-type": "application/x-www-form-urlencoded"}

    for body in (b"", b"a=b"):
        assert code(read(await api.send("POST", f"{SESSION}/pause", headers=form, body=body)))[0] == 415
    assert code(read(await api.send("POST", f"{SESSION}/pause", body=b"{}")))[0] == 415
    assert "paused" not in await state(api)


# --- the inbox ----------------------------------------------------------------------------------


async def test_waiting_messages_are_edited_and_moved(api: Api) -> None:
    one, two, three = await thinking(api, "one", "two", "three")

    assert await api.command("PATCH", f"{SESSION}/inbox/{two}", {"text": "2"}) == (200, {"result": "recorded"})
    assert await texts(api) == ["one", "2", "three"]
    for change, order in (
        ({"before": one}, ["three", "one", "2"]),
        ({"after": one}, ["one", "three", "2"]),
        ({"position": "last"}, ["one", "2", "three"]),
        ({"position": "first"}, ["three", "one", "2"]),
    ):
        assert (await api.command("PATCH", f"{SESSION}/inbox/{three}", change))[0] == 200
        assert await texts(api) == order


async def test_a_message_that_is_taken_back_gives_its_content_every_time(api: Api) -> None:
    cat = {"reference": "uploads/cat.png"}
    await thinking(api)
    said = {"text": "wait", "message_id": "m/1 ä", "metadata": {"a": 1}, "files": [cat]}
    await api.post(f"{SESSION}/inputs", said)

    first = await api.command("DELETE", f"{SESSION}/inbox/m%2F1%20%C3%A4")
    again = await api.command("DELETE", f"{SESSION}/inbox/m%2F1%20%C3%A4")

    removed = {"result": "removed", "message_id": "m/1 ä", "text": "wait", "metadata": {"a": 1}}
    assert first == again == (200, removed | {"files": [{"type": "file", **cat}]})
    fits(result_shapes.Removed, first[1])
    assert await texts(api) == []


async def test_a_waiting_message_is_sent_now(api: Api) -> None:
    _, two = await thinking(api, "one", "two")

    status, delivered = await api.post(f"{SESSION}/inbox/{two}/deliver", {"delivery": "interrupt_next"})

    assert (status, delivered) == (200, {"message_id": two, "delivered_as": "interrupt_next"})
    fits(result_shapes.Delivered, delivered)
    assert (await api.until("s-1", "turn_started", (await api.get(SESSION))[1]["cursor"]))["payload"][
        "message_id"
    ] == two


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "inbox/{id}", {"text": "new"}),
        ("PATCH", "inbox/{id}", {"position": "first"}),
        ("DELETE", "inbox/{id}", None),
        ("POST", "inbox/{id}/deliver", {"delivery": "steer"}),
    ],
)
async def test_a_message_that_does_not_wait_is_told_from_one_that_never_was(
    api: Api, method: str, path: str, body: Any
) -> None:
    await api.post(f"{SESSION}/inputs", {"text": "think", "message_id": "taken"})
    await api.post(f"{SESSION}/inputs", {"text": "b", "message_id": "back"})
    await api.command("DELETE", f"{SESSION}/inbox/back")
    before = await api.everything("s-1")

    async def refusal(message_id: str) -> tuple[int, str]:
        return code(await api.command(method, f"{SESSION}/{path.format(id=message_id)}", body))

    assert await refusal("taken") == (409, "already_delivered")
    assert await refusal("never") == (404, "message_not_found")
    assert await refusal("message-1-9") == (404, "message_not_found")
    if method != "DELETE":
        assert await refusal("back") == (409, "not_pending")
    assert await api.everything("s-1") == before


@pytest.mark.parametrize("place", ["before", "after"])
async def test_a_message_is_not_moved_next_to_one_that_does_not_wait(api: Api, place: str) -> None:
    (one,) = await thinking(api, "one")
    _, snapshot = await api.get(SESSION)
    running = snapshot["messages"][0]["message_id"]

    for other in ("gone", running, one):
        refusal = await api.command("PATCH", f"{SESSION}/inbox/{one}", {place: other})
        assert code(refusal) == (409, "stale_revision")


# --- what holds for all of them -----------------------------------------------------------------

COMMANDS: list[tuple[str, str, Any]] = [
    ("POST", "stop", {}),
    ("POST", "retry", {"retry_id": "r"}),
    ("POST", "pause", {}),
    ("POST", "resume", {}),
    ("PUT", "settings", {}),
    ("PATCH", "inbox/m-1", {"text": "a"}),
    ("DELETE", "inbox/m-1", None),
    ("POST", "inbox/m-1/deliver", {"delivery": "queue"}),
]


@pytest.mark.parametrize(("method", "path", "body"), COMMANDS)
async def test_commanding_a_session_that_was_never_written_is_not_found(
    api: Api, method: str, path: str, body: Any
) -> None:
    assert code(await api.command(method, f"{SESSION}/{path}", body)) == (404, "session_not_found")


@pytest.mark.parametrize(
    ("method", "path", "body", "other"),
    [
        ("POST", "stop", {}, {"disposition": "discard"}),
        ("POST", "pause", {}, None),
        ("PUT", "settings", {"a": 1}, {}),
        ("PATCH", "inbox/m-1", {"text": "new"}, {"position": "first"}),
        ("DELETE", "inbox/m-1", None, None),
        ("POST", "inbox/m-1/deliver", {"delivery": "steer"}, {"delivery": "queue"}),
    ],
)
async def test_a_key_gives_the_first_reply_again_and_refuses_other_content(
    api: Api, method: str, path: str, body: Any, other: Any
) -> None:
    await api.post(f"{SESSION}/inputs", {"text": "think"})
    await api.post(f"{SESSION}/inputs", {"text": "b", "message_id": "m-1"})

    if path == "stop":
        await api.post(f"{SESSION}/pause", {})  # so that no next turn begins when this one has ended

    first = await api.command(method, f"{SESSION}/{path}", body, key="k")
    if path == "stop":
        await api.until("s-1", "turn_cancelled")
    after_first = (await state(api))["version"]
    again = await api.command(method, f"{SESSION}/{path}", body, key="k")

    assert first == again
    assert first[0] == 200
    assert (await state(api))["version"] == after_first
    if other is not None:
        assert code(await api.command(method, f"{SESSION}/{path}", other, key="k")) == (409, "idempotency_mismatch")
    assert code(await api.command("POST", f"{SESSION}/resume", {}, key="k")) == (409, "idempotency_mismatch")


def test_every_command_under_a_session_takes_a_key() -> None:
    commands = [route for route in ROUTES if route.method != "GET" and "{session_id}" in route.path]

    assert len(commands) >= 10
    assert [route.operation for route in commands if not route.keyed] == []


async def test_a_closed_session_takes_no_message_and_says_so(api: Api) -> None:
    await api.post(f"{SESSION}/inputs", {"text": "hi"})
    await api.service.close_session(api.caller, "s-1")

    assert code(await api.post(f"{SESSION}/inputs", {"text": "again"})) == (409, "session_closed")
    assert (await state(api))["closed"] is True


async def test_the_events_of_every_control_have_types_that_the_document_names(api: Api, desk: Desk) -> None:
    one, two = await thinking(api, "one", "two")
    await api.post(f"{SESSION}/inputs", {"text": "join", "delivery": "inject"})
    await api.command("PATCH", f"{SESSION}/inbox/{one}", {"text": "fail"})
    await api.command("PATCH", f"{SESSION}/inbox/{one}", {"position": "last"})
    await api.command("DELETE", f"{SESSION}/inbox/{two}")
    await api.command("PUT", f"{SESSION}/settings", {"a": 1})
    await api.post(f"{SESSION}/inputs", {"text": "other way", "delivery": "steer"})
    desk.gate.set()
    await api.until("s-1", "turn_failed")
    await api.post(f"{SESSION}/stop", {})
    await api.post(f"{SESSION}/pause", {})
    await api.post(f"{SESSION}/resume", {})
    await api.service.close_session(api.caller, "s-1")
    await api.service.close_session(api.caller, "s-1", closed=False)

    _, page = await api.get(f"{SESSION}/events")

    types = {event["type"] for event in page["events"]}
    fit_their_types(page["events"])
    assert types >= {
        "message_removed",
        "inbox.edited",
        "inbox.moved",
        "settings.changed",
        "hold.released",
        "session_paused",
        "session_resumed",
        "session.closed",
        "session.reopened",
    }


async def test_pause_and_delete_need_no_content_type(api: Api) -> None:
    """Field case: whoever types `curl -X POST` sends none."""
    await thinking(api)
    await api.post(f"{SESSION}/inputs", {"text": "b", "message_id": "m-1"})

    assert (await api.send("POST", f"{SESSION}/pause")).status == 200
    assert (await api.send("DELETE", f"{SESSION}/inbox/m-1")).status == 200
    assert (await api.send("POST", f"{SESSION}/stop", headers=JSON)).status == 200
