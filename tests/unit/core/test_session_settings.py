"""Settings, approval modes, close and seed (spec U-9, U-10)."""

from datetime import timedelta
from typing import Any

import pytest

from perdure.core import texts
from perdure.core.control_commands import (
    CloseSession,
    RetryTurn,
    SeededMessage,
    SeedHistory,
    UpdateSettings,
)
from perdure.core.expected import expected_timers
from perdure.core.history import Transcript, history
from perdure.core.settings import APPROVAL_MODES
from perdure.errors import InvalidRequestError, RequestConflictError
from tests.unit.core.builders import (
    ALICE,
    Play,
    a_read,
    a_safe_write,
    a_session,
    a_single_write,
)

# --- approvals: modes and order -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", APPROVAL_MODES)
def test_the_approval_mode_holds_for_the_calls_that_come_next(mode: str) -> None:
    # APPR-08, F028
    play = a_session()
    play.apply(UpdateSettings(settings={"approval_mode": mode}, actor=ALICE))

    look, note, pay = play.model_asks(a_read(), a_safe_write(), a_single_write(requires_approval=True))

    got = {call.call_id: call.status for call in play.turn.calls}
    done = {"awaiting_approval", "approved"}
    expected = {
        "ask": ["approved", "approved", "awaiting_approval"],
        "allow_all": ["approved", "approved", "approved"],
        "deny_all": ["approved", "approved", None],
        "read_only": ["approved", None, None],
        "always_ask": ["awaiting_approval"] * 3,
    }[mode]
    assert [got.get(call) if got.get(call) in done else None for call in (look, note, pay)] == expected
    blocked = [p for m in play.messages if m.role == "tool" for p in m.parts]
    assert all(p["output"] == texts.BLOCKED_BY_MODE.format(mode=mode) for p in blocked)
    reasons = {e.payload.get("cancellation_reason") for e in play.events("tool_call_finished")}
    assert reasons <= {"policy"}


def test_approvals_one_at_a_time_are_asked_in_the_models_order() -> None:
    # APPR-07
    play = a_session()
    gated = [a_single_write(f"pay{n}", requires_approval=True, approval_deadline=timedelta(minutes=5)) for n in (1, 2)]
    first, second = play.model_asks(*gated, one_by_one=True)
    assert play.pending == [first]
    assert [t.timer_id for t in expected_timers(play.head)] == [first]

    play.wait(timedelta(minutes=4))
    play.approve(first)

    assert play.pending == [second]
    (timer,) = expected_timers(play.head)
    assert timer.due_at == play.now + timedelta(minutes=5)
    play.approve(second)
    assert play.pending == []


# --- settings -----------------------------------------------------------------------------------------------------


def bound(play: Play) -> dict[str, Any]:
    transcript = Transcript()
    transcript.extend(play.log)
    return transcript.settings


def test_settings_bind_when_the_next_turn_starts_and_are_replaced_whole() -> None:
    # SET-01, SET-02
    play = a_session(settings={"model": "small", "level": 1})
    assert bound(play) == {"model": "small", "level": 1}

    play.apply(UpdateSettings(settings={"model": "large"}, actor=ALICE))
    assert bound(play) == {"model": "small", "level": 1}
    play.model_answers()
    play.send("more")
    assert bound(play) == {"model": "large"}
    assert play.turn.settings_version == 2
    play.apply(UpdateSettings(settings={}, actor=ALICE))
    play.model_answers()
    play.send("more")
    assert bound(play) == {}


def test_settings_of_one_message_hold_for_its_own_turn_only() -> None:
    # SET-06
    play = a_session(settings={"model": "small"}, run_settings={"level": 9})
    assert bound(play) == {"model": "small", "level": 9}

    play.model_answers()
    play.send("more")

    assert bound(play) == {"model": "small"}


@pytest.mark.parametrize("mode", ["read_only", "nonsense", None])
def test_an_approval_mode_for_one_message_is_refused_and_not_ignored(mode: str | None) -> None:
    # APPR-08: whoever asked for `read_only` must not see a write run.
    with pytest.raises(InvalidRequestError, match="setting of the session"):
        a_session(run_settings={"approval_mode": mode})


def test_a_retry_is_bound_to_the_settings_that_the_session_has_by_then() -> None:
    # SET-02: a person who chose another model after a failure gets it; what the message itself said still holds.
    play = a_session(settings={"model": "one", "tone": "dry"}, run_settings={"tone": "warm"})
    play.model_ends("failed")

    play.apply(UpdateSettings(settings={"model": "two"}, actor=ALICE))
    play.apply(RetryTurn(actor=ALICE, retry_id="r-1"))

    assert bound(play) == {"model": "two", "tone": "warm"}


def test_settings_are_small_and_name_a_known_approval_mode() -> None:
    # SET-04
    play = a_session()
    room = 16 * 1024 - len('{"a":""}')
    play.apply(UpdateSettings(settings={"a": "x" * room}, actor=ALICE))
    with pytest.raises(InvalidRequestError, match="16384"):
        play.apply(UpdateSettings(settings={"a": "x" * (room + 1)}, actor=ALICE))
    with pytest.raises(InvalidRequestError, match="never"):
        play.apply(UpdateSettings(settings={"approval_mode": "never"}, actor=ALICE))


# --- close and seed -----------------------------------------------------------------------------------------------


def test_a_closed_session_refuses_messages_until_it_is_opened_again() -> None:
    # SESS-19
    play = a_session()
    assert play.apply(CloseSession(actor=ALICE)).reply == {"result": "recorded"}
    with pytest.raises(RequestConflictError) as caught:
        play.send("more")
    assert caught.value.code == "session_closed"
    play.model_answers()

    play.apply(CloseSession(actor=ALICE, closed=False))
    play.send("more")
    assert play.turn.turn_id == "turn-2"


def seed(*messages: SeededMessage) -> SeedHistory:
    return SeedHistory(actor=ALICE, default_agent="support", messages=messages)


def test_a_history_is_imported_once_into_a_session_that_has_none() -> None:
    # STORE-14
    play = Play()
    play.apply(
        seed(
            SeededMessage(role="assistant", text="Welcome!"),
            SeededMessage(role="user", text="hi"),
            SeededMessage(role="assistant", text="hello"),
        )
    )
    assert play.head.turn is None
    play.send("again")

    assert [i.text for i in history(play.log)] == ["hi", "hello", "again"]  # type: ignore[union-attr]
    transcript = Transcript()
    transcript.extend(play.log)
    assert transcript.decisions[0].reason == "leading_assistant"
    assert [m["parts"][0]["text"] for m in play.public_messages()] == ["Welcome!", "hi", "hello", "again"]
    assert play.turn.turn_id == "turn-1"
    with pytest.raises(RequestConflictError) as caught:
        play.apply(seed(SeededMessage(role="user", text="x")))
    assert caught.value.code == "already_started"


def test_an_import_names_all_its_messages_or_none() -> None:
    # STORE-14
    named, unnamed = SeededMessage(role="user", text="a", message_id="m"), SeededMessage(role="user", text="b")
    for messages in ((named, unnamed), (named, named)):
        with pytest.raises(InvalidRequestError, match="message_id"):
            Play().apply(seed(*messages))
