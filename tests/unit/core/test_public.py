"""The public form of what the log and HEAD hold."""

from datetime import timedelta
from typing import Any

import pytest

from perdure.core.cursor import Cursor
from perdure.core.head import Head
from perdure.core.ids import content_hash
from perdure.core.public import public_event, public_interrupts, public_state, public_summary, public_usage
from tests.unit.core.builders import NOON, a_read, a_session, a_single_write, asked_for, deliver, text_part

HOUR = timedelta(hours=1)


def test_a_session_that_was_never_written_has_no_state() -> None:
    # SESS-02, STORE-09
    assert public_state(Head()) is None
    assert public_state(Head(version=40, turn_count=7)) is None  # purged
    assert public_usage(Head())["model_calls"] == 0


def test_the_state_of_a_session_at_rest() -> None:
    # SESS-03
    play = a_session()
    play.model_answers()

    assert public_state(play.head) == {
        "status": "waiting_for_user_message",
        "turn_count": 1,
        "interaction_mode": "chat",
        "version": 2,
        "last_turn": {"turn_id": "turn-1", "outcome": "completed"},
    }


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        (lambda play: play.model_ends("truncated"), {"outcome": "failed", "reason": "truncated"}),
        (
            lambda play: play.model_ends("failed", error_code="timeout", error_message="late"),
            {"outcome": "failed", "reason": "timeout"},
        ),
        (lambda play: (play.stop(), play.model_ends("aborted")), {"outcome": "cancelled", "reason": "stopped"}),
        (lambda play: play.model_ends(stop_policy="enough"), {"outcome": "completed", "reason": "policy_stop"}),
        (lambda play: (deliver(play, "no", "interrupt"), play.model_ends("aborted")), {"outcome": "interrupted"}),
        (lambda play: (deliver(play, "no", "supersede"), play.model_ends("aborted")), {"outcome": "superseded"}),
        (
            lambda play: (play.model_asks(a_single_write(gated=True)), deliver(play, "no", "steer")),
            {"outcome": "steered"},
        ),
    ],
)
def test_the_state_says_how_the_latest_turn_ended(end: Any, shown: dict[str, Any]) -> None:
    # SESS-10
    play = a_session()

    end(play)

    assert (public_state(play.head) or {})["last_turn"] == {"turn_id": "turn-1", **shown}


def test_the_state_says_whom_a_turn_waits_for_since_when_and_until_when() -> None:
    # APPR-01, APPR-03
    play, (first, second) = asked_for(
        a_single_write("a", gated=True), a_single_write("b", gated=True, approval_deadline=HOUR)
    )

    assert public_state(play.head) == {
        "status": "running_tools",
        "turn_count": 1,
        "interaction_mode": "chat",
        "version": 2,
        "turn_id": "turn-1",
        "waiting_for": [
            {"kind": "approval", "id": first, "since": "2026-01-15T12:00:00.020Z"},
            {
                "kind": "approval",
                "id": second,
                "since": "2026-01-15T12:00:00.020Z",
                "until": "2026-01-15T13:00:00.020Z",
            },
        ],
    }


def test_the_state_names_the_model_step_that_runs_or_is_expected_with_the_times_of_its_attempts() -> None:
    # SESS-16
    play = a_session()
    first = play.step.step_id
    expected = (public_state(play.head) or {})["operation"]
    play.wait(HOUR / 6)
    play.loses(first)
    again = (public_state(play.head) or {})["operation"]
    (look,) = play.model_asks(a_read())

    assert expected == {
        "kind": "model",
        "phase": "queued",
        "step_execution_id": first,
        "attempt": 1,
        "since": "2026-01-15T12:00:00.010Z",
        "first_since": "2026-01-15T12:00:00.010Z",
    }
    assert again == expected | {"attempt": 2, "since": "2026-01-15T12:10:00.020Z"}
    assert "operation" not in (public_state(play.head) or {})
    play.runs(look)
    assert (public_state(play.head) or {})["operation"]["step_execution_id"] == play.step.step_id != first


def test_the_state_shows_a_stop_and_a_failure() -> None:
    # STOP-01, SESS-09
    play = a_session()
    play.stop()
    assert (public_state(play.head) or {})["stopping"] is True
    play.model_ends("aborted")
    play.send("more")
    play.model_ends("failed", error_code="auth", error_message="wrong key")

    state = public_state(play.head) or {}
    assert state["last_turn_error"] == {"code": "auth", "message": "wrong key"}
    assert "stopping" not in state


def test_messages_leave_out_what_only_a_provider_may_see() -> None:
    # STORE-09
    play = a_session("hi")
    (call,) = play.model_asks(
        a_read(provider_call_id="g1"),
        parts=(text_part("look"),),
        provider={"provider": "stub", "api": "chat", "item": "secret"},
        run_state={"model_calls": 1},
    )
    play.runs(call, "found")

    user, asked, result = play.public_messages()
    assert user == {
        "message_id": "message-1-0",
        "sequence": 1,
        "turn_id": "turn-1",
        "role": "user",
        "parts": [{"type": "text", "text": "hi"}],
        "created_at": "2026-01-15T12:00:00.010Z",
        "source": "person",
        "actor": {"issuer": "https://login.example", "subject": "alice"},
    }
    assert asked["parts"] == [
        {"type": "text", "text": "look"},
        {"type": "tool_call", "tool_call_id": call, "tool_name": "lookup", "arguments": {"of": "lookup"}},
    ]
    assert result["role"] == "tool"
    assert "secret" not in str(play.public_messages())


def test_an_event_carries_its_cursor_step_attempt_and_time() -> None:
    # EVT-01, EVT-02
    play = a_session()
    play.model_answers(started_at=NOON)
    entry = play.last

    shown = public_event(entry.events[0], entry, 0, "s-1")

    assert shown == {
        "type": "model_started",
        "sequence": 2,
        "version": 2,
        "cursor": Cursor(version=2, index=1).encode("s-1"),
        "turn_id": "turn-1",
        "step_execution_id": "model-1-0",
        "attempt": 1,
        "at": "2026-01-15T12:00:00.000Z",
        "payload": {},
    }
    assert public_event(entry.events[-1], entry, 3, "s-1")["at"] == "2026-01-15T12:00:00.020Z"


def test_a_decision_is_made_after_its_call_and_before_its_output() -> None:
    # EVT-08
    play, (call,) = asked_for(a_single_write(gated=True))
    play.approve(call)
    play.runs(call)

    about = [e.type for e in play.events() if call in (e.payload.get("tool_call_id"), e.payload.get("interrupt_id"))]
    assert about == [
        "tool_call_deferred",
        "interrupt_raised",
        "interrupt_resolved",
        "tool_call_started",
        "tool_call_finished",
    ]


def test_calls_are_shown_in_the_models_order_with_what_is_known() -> None:
    # TOOL-04, STORE-09
    play, (asks, reads, failed) = asked_for(
        a_single_write("pay", gated=True), a_read("look"), a_read("nope", settled=("failed", "unknown tool nope"))
    )
    play.loses(reads)

    assert play.public_calls() == [
        {
            "tool_call_id": asks,
            "tool_name": "pay",
            "arguments": {"of": "pay"},
            "arguments_hash": content_hash({"of": "pay"}),
            "effect": "non_idempotent_write",
            "requires_approval": True,
            "status": "awaiting_approval",
            "attempt": 1,
        },
        {
            "tool_call_id": reads,
            "tool_name": "look",
            "arguments": {"of": "look"},
            "arguments_hash": content_hash({"of": "look"}),
            "effect": "read",
            "requires_approval": False,
            "status": "approved",
            "attempt": 2,
        },
        {
            "tool_call_id": failed,
            "tool_name": "nope",
            "arguments": {"of": "nope"},
            "arguments_hash": content_hash({"of": "nope"}),
            "effect": "read",
            "requires_approval": False,
            "status": "failed",
            "error": "unknown tool nope",
            "attempt": 1,
        },
    ]


def test_a_rejected_call_says_why_the_same_live_and_after_a_reload() -> None:
    # F050, APPR-16
    play, (call,) = asked_for(a_single_write(gated=True))
    play.reject(call, "no")
    play.model_answers()

    (shown,) = play.public_calls()
    assert (shown["status"], shown["cancellation_reason"]) == ("rejected", "denied")
    assert shown["error"] == "Tool call denied by user. They wrote: no"
    assert "output" not in shown


def test_a_call_that_succeeded_shows_its_output_and_the_attempt_that_did() -> None:
    play, (call,) = asked_for(a_read())
    play.loses(call)
    play.runs(call, "found")

    (shown,) = play.public_calls()
    assert (shown["status"], shown["attempt"], shown["output"]) == ("succeeded", 2, "found")


def test_calls_of_another_turn_are_not_shown() -> None:
    play, (call,) = asked_for(a_read())
    play.runs(call)
    play.model_answers()
    play.send("more")
    (other,) = play.model_asks(a_read())

    assert [c["tool_call_id"] for c in play.public_calls("turn-1")] == [call]
    assert [c["tool_call_id"] for c in play.public_calls("turn-2")] == [other]


def test_an_interrupt_shows_what_the_decision_is_about() -> None:
    # APPR-06, APPR-17
    play, (call, _) = asked_for(a_single_write(gated=True, approval_deadline=HOUR), a_read())

    assert public_interrupts(play.head, play.public_calls()) == [
        {
            "interrupt_id": call,
            "kind": "approval",
            "tool_call_id": call,
            "arguments_hash": content_hash({"of": "pay"}),
            "tool_name": "pay",
            "arguments": {"of": "pay"},
            "deadline": "2026-01-15T13:00:00.020Z",
        }
    ]
    assert play.public_calls()[0]["arguments_hash"] == play.turn.interrupts[0].arguments_hash


def test_what_was_decided_is_no_longer_shown_as_pending() -> None:
    # F045
    play, (call,) = asked_for(a_single_write(gated=True))
    play.approve(call)

    assert public_interrupts(play.head, play.public_calls()) == []
    assert "waiting_for" not in (public_state(play.head) or {})


def test_a_row_of_the_list_tells_who_waits_for_whom() -> None:
    # SESS-20
    play, (call,) = asked_for(a_single_write(gated=True))

    assert public_summary("s-1", play.head) == {
        "session_id": "s-1",
        "agent": "support",
        "status": "running_tools",
        "version": 2,
        "turn_count": 1,
        "preview": "hello",
        "created_at": "2026-01-15T12:00:00.010Z",
        "last_activity_at": "2026-01-15T12:00:00.010Z",
        "waiting_for": [{"kind": "approval", "id": call, "since": "2026-01-15T12:00:00.020Z"}],
    }
