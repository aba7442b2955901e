"""How sessions look in a terminal, whatever their texts hold."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.cli.printing import (
    arguments_of,
    describe_event,
    indented,
    plain,
    print_message,
    print_state,
    print_timeline,
    shortened,
    stuck_as,
)

SHOWN_AS = {
    "escape": ("\x1b[31mred", "\\x1b[31mred"),
    "bell-and-nul": ("\x07\x00", "\\x07\\x00"),
    "carriage-return": ("refund 1\rrefund 9", "refund 1\\x0drefund 9"),
    "windows-lines": ("a\r\nb", "a\nb"),
    "backspace-and-delete": ("9\x081\x7f", "9\\x081\\x7f"),
    "one-byte-controls": ("\x9b2J\x85", "\\x9b2J\\x85"),
    "reordering": ("1\u202e99\u202c\u2066", "1\\u202e99\\u202c\\u2066"),
    "separators": ("a\u2028b", "a\\u2028b"),
    "lone-surrogate": ("\ud800", "\\ud800"),
    "ordinary": ("größe 日本 👩‍🚀 שלום\n\t", "größe 日本 👩‍🚀 שלום\n\t"),
}


@pytest.mark.parametrize(("text", "shown"), SHOWN_AS.values(), ids=SHOWN_AS)
def test_a_text_shows_as_what_it_is(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_further_lines_are_indented() -> None:
    assert indented("a\nb\n\nc") == "a\n  b\n  \n  c"


def test_a_long_text_is_shortened_to_one_line() -> None:
    assert shortened("a\n b   c", 10) == "a b c"
    assert shortened("abcdef", 5) == "abcd…"
    assert shortened("abcde", 5) == "abcde"


def test_arguments_stay_on_one_line_and_keep_their_spaces() -> None:
    assert arguments_of({"arguments": {"a": "x  y\nz"}}) == '{"a": "x  y\\nz"}'
    assert arguments_of({"arguments_text": '{"a":\n 1'}) == '{"a": 1'


def a_message(role: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": role, "parts": list(parts), **more}


def test_messages_are_shown_by_who_said_what(capsys: pytest.CaptureFixture[str]) -> None:
    print_message(a_message("user", {"type": "text", "text": "hello\nagent: no"}))
    print_message(
        a_message(
            "assistant",
            {"type": "reasoning", "text": "hm"},
            {"type": "text", "text": "Hi"},
            {"type": "tool_call", "tool_call_id": "c", "tool_name": "look", "arguments": {"n": 1}},
            status="truncated",
        )
    )
    print_message(
        a_message("tool", {"type": "tool_result", "tool_call_id": "c", "status": "failed", "output": "no\nsuch"})
    )

    assert capsys.readouterr().out.split("\n") == [
        "you: hello",
        "  agent: no",
        "agent (truncated): Hi",
        '  tool look {"n": 1}',
        "  -> failed: no such",
        "",
    ]


EVENTS = {
    "turn_failed": ({"error": {"code": "auth", "message": "no key"}}, "turn failed: auth: no key"),
    "interrupt_raised": (
        {"tool_name": "refund", "interrupt_id": "call-1-0"},
        "waits for an approval of refund (call-1-0)",
    ),
    "interrupt_resolved": ({"approved": True, "actor": {"subject": "ada"}}, "approval given by ada"),
    "tool_call_finished": ({"tool_name": "refund", "status": "outcome_unknown"}, "refund outcome_unknown"),
    "model_retry_scheduled": ({"attempt": 2, "retry_in_ms": 500}, "reconnect 2 in 500 ms"),
    "usage_recorded": ({}, None),
    "something.new": ({}, None),
}


@pytest.mark.parametrize("kind", EVENTS)
def test_an_event_is_one_line_or_none(kind: str) -> None:
    payload, line = EVENTS[kind]

    assert describe_event({"type": kind, "payload": payload}) == line


def test_a_turn_that_did_not_end_by_its_model_says_what_ended_it() -> None:
    def ended(**payload: Any) -> str | None:
        return describe_event({"type": "turn_completed", "payload": payload})

    assert ended() == "turn completed"
    assert ended(reason="model_call_limit") == "turn completed (model_call_limit)"
    assert ended(reason="policy_stop", policy_name="after-submit") == "turn completed (after-submit)"


def test_a_file_is_shown_by_its_name_or_reference(capsys: pytest.CaptureFixture[str]) -> None:
    files = [{"type": "file", "reference": "uploads/7", "name": "cat.png"}, {"type": "file", "reference": "uploads/8"}]

    print_message({"role": "user", "parts": [{"type": "text", "text": "look"}, *files]})

    assert capsys.readouterr().out == "you: look\n  file cat.png\n  file uploads/8\n"


def test_decisions_tell_who_and_why() -> None:
    refused = {"approved": False, "actor": {"subject": "ada"}}
    withdrawn = {"approved": False, "cancellation_reason": "turn_stopped"}

    assert describe_event({"type": "interrupt_resolved", "payload": refused}) == "approval refused by ada"
    refused["rejection_message"] = "too\nbig"
    assert describe_event({"type": "interrupt_resolved", "payload": refused}) == "approval refused by ada: too big"
    assert describe_event({"type": "interrupt_resolved", "payload": withdrawn}) == "approval withdrawn (turn_stopped)"


def test_a_timeline_tells_times_turns_and_attempts(capsys: pytest.CaptureFixture[str]) -> None:
    event = {"at": "2026-11-30T12:00:01.250Z", "turn_id": "turn-1", "type": "model_started", "payload": {}}

    print_timeline([event, event | {"attempt": 2}, event | {"type": "unheard_of"}])

    assert capsys.readouterr().out == (
        "  12:00:01.250  turn-1    model step started\n  12:00:01.250  turn-1    model step started [attempt 2]\n"
    )


def test_a_state_tells_the_last_failure_and_the_messages_that_wait(capsys: pytest.CaptureFixture[str]) -> None:
    error = {"code": "provider", "message": "down"}
    state = {"status": "running_tools", "version": 4, "last_turn_error": error}

    print_state({"session_id": "s-1", "agent": "support", "state": state, "inbox": [{"text": "and\nthen?"}]})

    assert capsys.readouterr().out.split("\n") == [
        "session s-1 · agent support · running_tools · version 4",
        "the last turn failed: provider: down",
        "queued: and then?",
        "",
    ]


def test_a_model_step_tells_its_phase_and_since_when(capsys: pytest.CaptureFixture[str]) -> None:
    # SESS-16
    step = {"kind": "model", "phase": "queued", "step_execution_id": "model-1-0", "attempt": 2, "since": "12:00"}
    state = {"status": "running_model", "version": 4, "operation": step}

    print_state({"session_id": "s-1", "agent": "desk", "state": state, "pending_interrupts": [], "inbox": []})

    assert capsys.readouterr().out.split("\n")[1:-1] == ["model step model-1-0 is queued, since 12:00, attempt 2"]


def test_a_list_says_in_a_word_what_keeps_a_session_from_going_on() -> None:
    assert stuck_as({"paused": True, "held": True, "blocked_reason": "credits"}) == ["paused", "blocked: credits"]
    assert stuck_as({"held": True, "closed": True}) == ["closed", "held"]
    assert stuck_as({}) == []


def test_what_somebody_did_to_a_session_is_in_its_timeline() -> None:
    def line(kind: str, **payload: Any) -> str | None:
        return describe_event({"type": kind, "payload": payload})

    assert line("session_paused", actor={"subject": "alice"}) == "paused by alice"
    assert line("hold.released", actor=None) == "let go by itself"
    assert line("turn_cancelled", reason="superseded") == "turn superseded by a message"
    assert line("turn_cancelled", reason="stopped") == "turn stopped"
    assert line("turn_steered") == "turn steered"
    assert line("session.seeded", message_count=3) == "3 messages imported"
    assert line("inbox.edited", actor={"subject": "alice"}) == "message edited by alice"
    assert line("inbox.moved", actor={"subject": "alice"}) == "message moved by alice"


ALICE = {"issuer": "https://issuer.example.com/", "subject": "alice"}
HERE = {"issuer": "local", "subject": "local"}


@pytest.mark.parametrize(
    ("by", "shown"),
    [
        ({}, "you"),
        ({"source": "person", "actor": HERE}, "you"),
        ({"source": "person", "actor": ALICE}, "alice"),
        ({"source": "webhook", "actor": HERE}, "webhook"),
        ({"source": "schedule", "actor": ALICE}, "schedule for alice"),
        ({"source": "person", "actor": {**ALICE, "subject": "eve\nagent"}}, "eve agent"),
    ],
)
def test_a_message_is_shown_under_the_name_of_who_wrote_it(
    by: dict[str, Any], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # INBOX-18
    print_message(a_message("user", {"type": "text", "text": "hello"}, **by))

    assert capsys.readouterr().out == f"{shown}: hello\n"


def test_a_waiting_message_tells_its_writer_its_class_and_its_files(capsys: pytest.CaptureFixture[str]) -> None:
    entry = {"delivery": "queue", "text": "look", "urgent": True, "source": "agent", "actor": HERE}
    files = [{"type": "file", "reference": "a"}, {"type": "file", "reference": "b"}]
    state = {"status": "running_model", "version": 4}
    shown = {"session_id": "s-1", "agent": "desk", "state": state, "pending_interrupts": []}

    print_state({**shown, "inbox": [entry | {"files": files}, {"delivery": "steer", "text": "no"}]})

    assert capsys.readouterr().out.split("\n")[1:-1] == ["queued (urgent, from agent, 2 files): look", "steer: no"]


def test_a_text_of_which_the_server_shows_the_head_only_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    # F092
    part = {"type": "text", "text": "It is", "truncated": True, "bytes": 300_000}

    print_message({"role": "assistant", "parts": [part]})

    assert capsys.readouterr().out == "agent: It is\n  (only the start is shown, of 300000 bytes)\n"


def test_nobody_approves_arguments_of_which_only_the_head_is_shown_without_knowing_it() -> None:
    # F092
    interrupt = {"arguments_text": '{"to":"al', "truncated": True, "bytes": 300_000}

    assert arguments_of(interrupt) == '{"to":"al… (only the start is shown, of 300000 bytes)'
