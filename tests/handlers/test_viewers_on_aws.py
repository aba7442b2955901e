"""WebSocket viewers on the deployment: who gets in, what they hear, and that nothing is missed."""

from __future__ import annotations

import dataclasses
import threading
from datetime import timedelta
from typing import Any

import pytest

from perdure.testing.gateway import Connection
from perdure.testing.lambda_harness import LambdaHarness
from tests.handlers.agents import SESSION, send, snapshot
from tests.unit.aws.builders import LostAnswers

LOOK_UP = "Where is order 7?"
STEPS = ("run_model", "call_tool")
SUBSCRIBE = {"type": "subscribe", "session_id": "case-42"}


def a_ticket(harness: LambdaHarness, **who: Any) -> str:
    reply = harness.gateway.http("POST", "/v1/socket-tickets", {}, **who)
    assert reply.status in (200, 201), reply.body
    return str(reply.body["ticket"])


def a_viewer(harness: LambdaHarness, **who: Any) -> Connection:
    connection = harness.gateway.connect(a_ticket(harness, **who))
    assert connection is not None
    return connection


def heard(connection: Connection) -> list[int]:
    """Return the versions that a viewer was told of."""
    return [frame["version"] for frame in connection.frames if frame["type"] == "changed" and "version" in frame]


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

    answer = harness.gateway.send(viewer, SUBSCRIBE)
    harness.settle()

    assert answer == {"type": "subscribed", "session_id": "case-42"}
    assert heard(viewer) == [2, 3, 4]


def test_a_viewer_gets_no_session_of_somebody_else(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    others = [a_viewer(harness, subject="bob"), a_viewer(harness, tenant="other")]

    answers = [harness.gateway.send(viewer, SUBSCRIBE) for viewer in others]
    harness.settle()

    assert [(answer["type"], answer["code"]) for answer in answers] == [("error", "session_not_found")] * 2
    assert [heard(viewer) for viewer in others] == [[], []]


def test_a_frame_that_is_not_understood_gets_an_error_and_the_connection_stays(harness: LambdaHarness) -> None:
    viewer = a_viewer(harness)
    frames = ["", "{", "[]", "1", '{"type":"approve"}', '{"type":"subscribe"}', '{"type":"subscribe","session_id":7}']

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

    first, second = (harness.gateway.send(viewer, SUBSCRIBE) for _ in range(2))
    harness.settle()

    assert (first["type"], first["code"]) == ("error", "store_unavailable")
    assert second == {"type": "subscribed", "session_id": "case-42"}
    assert heard(viewer) == [2, 3, 4]


def test_a_viewer_that_unsubscribes_hears_no_more(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    viewer = a_viewer(harness)
    harness.gateway.send(viewer, SUBSCRIBE)

    answer = harness.gateway.send(viewer, {"type": "unsubscribe", "session_id": "case-42"})
    harness.settle()

    assert answer == {"type": "unsubscribed", "session_id": "case-42"}
    assert heard(viewer) == []


# --- nothing is missed -------------------------------------------------------------------------------------------


def test_x13_a_viewer_that_subscribes_just_before_the_last_commit_hears_of_it(harness: LambdaHarness) -> None:
    """races.md X13: had the list been read before the commit, nobody would ever tell this viewer."""
    viewer = a_viewer(harness)
    send(harness, LOOK_UP)
    seen: list[int] = []

    def before_commit(params: dict[str, Any], **_: Any) -> None:
        last = [done.function for done in harness.invocations if done.function in STEPS] == ["run_model", "call_tool"]
        writes_head = b'"HEAD"' in params["body"] and b":state" in params["body"]
        if last and writes_head and not seen and threading.current_thread() is not threading.main_thread():
            seen.append(0)  # once, and not for what follows here
            harness.gateway.send(viewer, SUBSCRIBE)
            seen[0] = snapshot(harness)["state"]["version"]

    events = harness.aws.clients.dynamodb.meta.events
    events.register("before-call.dynamodb.UpdateItem", before_commit)
    harness.settle()
    events.unregister("before-call.dynamodb.UpdateItem", before_commit)

    assert seen == [3], "the viewer read the session before the last commit"
    assert snapshot(harness)["state"]["version"] == 4
    assert heard(viewer) == [4]


def test_a_viewer_that_is_gone_is_forgotten_and_harms_nobody(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    stays, goes = a_viewer(harness), a_viewer(harness)
    for viewer in (stays, goes):
        harness.gateway.send(viewer, SUBSCRIBE)
    harness.gateway.disconnect(goes, noticed=False)

    harness.settle()

    assert heard(stays) == [2, 3, 4]
    assert harness.gateway.posts_to_gone == 1
    assert snapshot(harness)["state"]["status"] == "waiting_for_user_message"


def test_a_viewer_that_disconnects_leaves_nothing_behind(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    viewer = a_viewer(harness)
    harness.gateway.send(viewer, SUBSCRIBE)

    harness.gateway.disconnect(viewer)
    harness.settle()

    assert harness.gateway.posts_to_gone == 0


def test_a_disconnect_that_the_table_can_not_carry_out_now_is_no_failed_function(harness: LambdaHarness) -> None:
    send(harness, LOOK_UP)
    viewer = a_viewer(harness)
    harness.gateway.send(viewer, SUBSCRIBE)
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
    harness.gateway.send(viewer, SUBSCRIBE)
    harness.settle()
    before = heard(viewer)

    harness.advance(timedelta(seconds=601))
    send(harness, LOOK_UP)
    harness.settle()
    answer = harness.gateway.send(viewer, SUBSCRIBE)

    assert before == [2, 3, 4]
    assert heard(viewer) == before
    assert answer["code"] == "unauthorized"
    assert harness.gateway.http("GET", SESSION).status == 200
