"""WebSocket viewers on the deployment: who gets in, what they hear, and that nothing is missed."""

from __future__ import annotations

import dataclasses
import threading
from datetime import timedelta
from typing import Any

import pytest

from perdure.aws.subscriptions import PUMP_LEASE, Subscription
from perdure.core.cursor import Cursor
from perdure.ports import SessionKey
from perdure.testing.gateway import Connection
from perdure.testing.lambda_harness import LambdaHarness
from tests.handlers.agents import SESSION, send, snapshot
from tests.unit.aws.builders import LostAnswers

LOOK_UP = "Where is order 7?"
STEPS = ("run_model", "call_tool")
ATTACH = {"type": "attach", "session_id": "case-42", "after": Cursor().encode("case-42")}


def a_ticket(harness: LambdaHarness, **who: Any) -> str:
    reply = harness.gateway.http("POST", "/v1/socket-tickets", {}, **who)
    assert reply.status in (200, 201), reply.body
    return str(reply.body["ticket"])


def a_viewer(harness: LambdaHarness, **who: Any) -> Connection:
    connection = harness.gateway.connect(a_ticket(harness, **who))
    assert connection is not None
    return connection


def heard(connection: Connection) -> list[int]:
    """Return the sequences of the durable events that a viewer was sent."""
    return connection.sequences


def all_of(harness: LambdaHarness) -> list[int]:
    """Return the sequences of the session's events."""
    events = harness.gateway.http("GET", f"{SESSION}/events").body["events"]
    assert events
    return [event["sequence"] for event in events]


# --- getting in --------------------------------------------------------------------------------------------------


def test_a_ticket_opens_one_connection(harness: LambdaHarness) -> None:
    ticket = a_ticket(harness)

    first, second = harness.gateway.connect(ticket), harness.gateway.connect(ticket)

    assert first is not None
    assert second is None


def test_a_ticket_is_good_for_a_minute(harness: LambdaHarness) -> None:
    early, late = a_ticket(harness), a_ticket(harness)
    harness.clock.advance(59)
    accepted = harness.gateway.connect(early)
    harness.clock.advance(2)
    refused = harness.gateway.connect(late)

    assert accepted is not None
    assert refused is None


def test_nobody_gets_in_with_an_invented_ticket_and_it_is_no_error(harness: LambdaHarness) -> None:
    assert harness.gateway.connect("invented") is None
    assert harness.invocations[-1].error is None


@pytest.mark.parametrize(
    ("allowed", "origin", "gets_in"),
    [
        ("https://app.example.com,https://b.example.com", "https://b.example.com", True),
        ("https://app.example.com", "https://app.example.com.evil.example", False),
        ("https://app.example.com", "null", False),
        ("https://app.example.com", None, True),  # no browser
        ("", "https://anywhere.example.com", True),  # the stack names no origins
    ],
)
def test_a_page_gets_in_from_an_allowed_origin_only(
    harness: LambdaHarness, allowed: str, origin: str | None, gets_in: bool
) -> None:
    harness._settings = dataclasses.replace(harness._settings, allowed_origins=allowed)

    connection = harness.gateway.connect(a_ticket(harness), origin=origin)

    assert (connection is not None) is gets_in
    assert harness.invocations[-1].error is None


def test_a_page_that_is_refused_has_not_used_the_ticket_up(harness: LambdaHarness) -> None:
    harness._settings = dataclasses.replace(harness._settings, allowed_origins="https://app.example.com")
    ticket = a_ticket(harness)

    assert harness.gateway.connect(ticket, origin="https://evil.example.com") is None
    assert harness.gateway.connect(ticket, origin="https://app.example.com") is not None


# --- asking ------------------------------------------------------------------------------------------------------


def test_a_viewer_hears_of_every_commit_of_its_session(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    viewer = a_viewer(harness)

    answer = harness.gateway.send(viewer, ATTACH)
    harness.settle()

    assert answer == {"type": "attached", "session_id": "case-42", "cursor": ATTACH["after"]}
    assert heard(viewer) == all_of(harness)


def test_a_viewer_gets_no_session_of_somebody_else(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    others = [a_viewer(harness, subject="bob"), a_viewer(harness, tenant="other")]

    answers = [harness.gateway.send(viewer, ATTACH) for viewer in others]
    harness.settle()

    assert [(answer["type"], answer["code"]) for answer in answers] == [("error", "session_not_found")] * 2
    assert [heard(viewer) for viewer in others] == [[], []]


def test_a_frame_that_is_not_understood_gets_an_error_and_the_connection_stays(harness: LambdaHarness) -> None:
    viewer = a_viewer(harness)
    frames = ["", "{", "[]", "1", '{"type":"approve"}', '{"type":"attach"}', '{"type":"attach","session_id":7}']

    codes = [harness.gateway.send(viewer, frame)["code"] for frame in frames]
    pong = harness.gateway.send(viewer, {"type": "ping"})

    assert codes == ["invalid_request"] * len(frames)
    assert pong == {"type": "pong"}


def test_a_frame_that_the_table_can_not_carry_out_now_is_answered_so_and_may_be_sent_again(
    harness: LambdaHarness,
) -> None:
    send(harness, LOOK_UP)
    viewer = a_viewer(harness)
    LostAnswers(harness.aws.clients.dynamodb, "PutItem", silently=False)

    first, second = (harness.gateway.send(viewer, ATTACH) for _ in range(2))
    harness.settle()

    assert (first["type"], first["code"], first["session_id"]) == ("error", "store_unavailable", "case-42")
    assert second == {"type": "attached", "session_id": "case-42", "cursor": ATTACH["after"]}
    assert heard(viewer) == all_of(harness)


def test_a_viewer_that_detaches_hears_no_more(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    viewer = a_viewer(harness)
    harness.gateway.send(viewer, ATTACH)

    before = heard(viewer)
    answer = harness.gateway.send(viewer, {"type": "detach", "session_id": "case-42"})
    harness.settle()

    assert before == [1]
    assert viewer.frames[-1] == {"type": "detached", "session_id": "case-42"}
    assert answer == viewer.frames[-1]
    assert heard(viewer) == before


def test_a_viewer_without_a_place_gets_the_session_first_and_then_what_follows(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    viewer = a_viewer(harness)

    harness.gateway.send(viewer, {"type": "attach", "session_id": "case-42"})
    harness.settle()

    attached, first, *rest = viewer.told
    assert (attached["type"], first["type"]) == ("attached", "snapshot")
    assert first["snapshot"]["state"]["status"] == "running_model"
    assert attached["cursor"] == first["snapshot"]["cursor"]
    assert {frame["type"] for frame in rest} == {"events"}
    assert heard(viewer) == all_of(harness)[1:]


def test_a_command_is_carried_out_once_and_acknowledged_as_over_http(harness: LambdaHarness) -> None:
    viewer = a_viewer(harness)
    command = {
        "type": "command",
        "request_id": "r1",
        "operation": "send_input",
        "session_id": "case-42",
        "body": {"text": LOOK_UP},
        "idempotency_key": "k1",
    }

    first, again = (harness.gateway.send(viewer, command) for _ in range(2))
    other = harness.gateway.send(viewer, command | {"request_id": "r2", "body": {"text": "other"}})
    harness.settle()

    assert (first["type"], first["request_id"], first["status"]) == ("ack", "r1", 202)
    assert again == first | {"body": first["body"] | {"duplicate": True}}
    assert (other["status"], other["body"]["error"]["code"]) == (409, "idempotency_mismatch")
    assert snapshot(harness)["state"]["turn_count"] == 1


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        ({"operation": "no_such_thing", "session_id": "s"}, "no operation 'no_such_thing'"),
        ({"operation": "stop"}, "needs `session_id`"),
        ({"operation": "resolve_interrupt", "session_id": "s"}, "needs `path.interrupt_id`"),
    ],
)
def test_a_command_that_is_no_operation_says_what_is_wrong(harness: LambdaHarness, frame: Any, said: str) -> None:
    viewer = a_viewer(harness)

    answer = harness.gateway.send(viewer, {"type": "command", "request_id": "r1", **frame})

    assert (answer["type"], answer["request_id"], answer["code"]) == ("error", "r1", "invalid_request")
    assert said in answer["message"]


# --- nothing is missed -------------------------------------------------------------------------------------------


def test_x13_a_viewer_that_attaches_just_before_the_last_commit_hears_of_it(harness: LambdaHarness) -> None:
    """races.md X13: had the list been read before the commit, nobody would ever tell this viewer."""
    viewer = a_viewer(harness)
    send(harness, LOOK_UP)
    seen: list[int] = []

    def before_commit(params: dict[str, Any], **_: Any) -> None:
        last = [done.function for done in harness.invocations if done.function in STEPS] == ["run_model", "call_tool"]
        writes_head = b'"HEAD"' in params["body"] and b":state" in params["body"]
        if last and writes_head and not seen and threading.current_thread() is not threading.main_thread():
            seen.append(0)  # once, and not for what follows here
            harness.gateway.send(viewer, ATTACH)
            seen[0] = snapshot(harness)["state"]["version"]

    events = harness.aws.clients.dynamodb.meta.events
    events.register("before-call.dynamodb.UpdateItem", before_commit)
    harness.settle()
    events.unregister("before-call.dynamodb.UpdateItem", before_commit)

    assert seen == [3], "the viewer read the session before the last commit"
    assert snapshot(harness)["state"]["version"] == 4
    assert heard(viewer) == all_of(harness)


def test_a_viewer_that_is_gone_is_forgotten_and_harms_nobody(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    stays, goes = a_viewer(harness), a_viewer(harness)
    for viewer in (stays, goes):
        harness.gateway.send(viewer, ATTACH)
    harness.gateway.disconnect(goes, noticed=False)

    harness.settle()

    assert heard(stays) == all_of(harness)
    assert harness.gateway.posts_to_gone == 1
    assert snapshot(harness)["state"]["status"] == "waiting_for_user_message"


def test_a_viewer_that_disconnects_leaves_nothing_behind(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    viewer = a_viewer(harness)
    harness.gateway.send(viewer, ATTACH)

    harness.gateway.disconnect(viewer)
    harness.settle()

    assert harness.gateway.posts_to_gone == 0


def test_a_disconnect_that_the_table_can_not_carry_out_now_is_no_failed_function(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    viewer = a_viewer(harness)
    harness.gateway.send(viewer, ATTACH)
    LostAnswers(harness.aws.clients.dynamodb, "Query", silently=False)

    harness.gateway.disconnect(viewer)
    error = harness.invocations[-1].error
    harness.settle()

    assert error is None
    assert harness.gateway.posts_to_gone == 1, "it was left behind, and is forgotten at the first post"
    assert snapshot(harness)["state"]["status"] == "waiting_for_user_message"


def test_a_viewer_hears_nothing_after_its_token_has_ended(harness: LambdaHarness) -> None:
    viewer = a_viewer(harness, token_seconds=600)
    send(harness, LOOK_UP)
    harness.gateway.send(viewer, ATTACH)
    harness.settle()
    before = heard(viewer)

    harness.advance(timedelta(seconds=601))
    send(harness, LOOK_UP)
    harness.settle()
    (denied,) = [frame for frame in viewer.frames if frame["type"] == "access_denied"]

    assert before
    assert heard(viewer) == before
    assert (denied["session_id"], denied["code"]) == ("case-42", "unauthorized")
    assert viewer.closed
    assert all_of(harness) > before


def test_a_connection_whose_token_has_ended_commands_nothing_and_is_closed(harness: LambdaHarness) -> None:
    viewer = a_viewer(harness, token_seconds=600)
    send(harness, LOOK_UP)
    harness.settle()
    before = snapshot(harness)

    harness.advance(timedelta(seconds=601))
    body = {"text": "too late"}
    command = {"type": "command", "request_id": "r1", "operation": "send_input", "session_id": "case-42", "body": body}
    answer = harness.gateway.send(viewer, command)

    assert (answer["code"], answer["request_id"]) == ("unauthorized", "r1")
    assert viewer.closed
    assert snapshot(harness) == before


# --- one pump at a time ------------------------------------------------------------------------------------------


def test_a_pump_that_died_is_replaced_at_the_viewers_next_ping_and_nothing_is_missing(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    viewer = a_viewer(harness)
    harness.gateway.send(viewer, ATTACH)
    (mine,) = watching(harness)
    container = harness._new_container("socket")
    assert container.run(container.subscriptions.take(mine, "a pump that dies")) is not None
    harness.settle()
    in_vain = heard(viewer)
    harness.gateway.send(viewer, {"type": "ping"})
    held = heard(viewer)

    harness.clock.advance(PUMP_LEASE.total_seconds() + 1)
    harness.gateway.send(viewer, {"type": "ping"})

    assert in_vain == held == [1]
    assert heard(viewer) == all_of(harness)


def test_who_finds_a_pump_at_work_leaves_the_rest_to_it(harness: LambdaHarness) -> None:
    """Many commits at once: what the second one is too late for, the first one's pump sends, in order."""
    send(harness, LOOK_UP)
    viewer = a_viewer(harness)
    harness.gateway.send(viewer, ATTACH)
    nested: list[str] = []

    def meanwhile(_connection_id: str) -> None:
        if not nested:
            nested.append("sent")
            running, harness.running = harness.running, None  # what follows is AWS's own doing
            send(harness, "And another thing.", key="m-2")
            harness.running = running

    harness.gateway.during_post = meanwhile
    harness.settle()

    assert nested
    assert heard(viewer) == all_of(harness), "each event once, in order"


def test_a_viewer_that_may_see_the_session_no_more_is_told_so_and_nothing_else(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    allowed = [True]
    made = harness._new_container

    def with_hook(function: str = "") -> Any:
        container = made(function)
        container.__dict__["authorize"] = lambda who, operation, facts: allowed[0] or None
        return container

    harness._new_container = with_hook  # type: ignore[method-assign]
    viewer = a_viewer(harness, subject="bob")
    harness.gateway.send(viewer, ATTACH)
    before = heard(viewer)
    allowed[0] = False

    harness.settle()

    assert before == [1]
    assert heard(viewer) == before
    assert [frame["code"] for frame in viewer.frames if frame["type"] == "access_denied"] == ["session_not_found"]
    assert watching(harness) == []


def watching(harness: LambdaHarness) -> list[Subscription]:
    container = harness._new_container("socket")
    return list(container.run(container.subscriptions.of_session(SessionKey("acme", "case-42"), strong=True)))
