"""Pause, retry, hold, settings, close and seed: what people and trusted code do to a session (spec U-6, U-9, U-13)."""

from datetime import timedelta
from typing import Any

import pytest

from perdure.core import texts
from perdure.core.commands import AttemptPutOff, ModelWaits, Reconnect, StopTurn
from perdure.core.control_commands import (
    CloseSession,
    CredentialChanged,
    PauseSession,
    ResumeSession,
    RetryTurn,
    SeededMessage,
    SeedHistory,
    UpdateSettings,
)
from perdure.core.expected import awaited_steps, expected_timers, sweep_due_at
from perdure.core.fates import fates_of
from perdure.core.head import Frontier
from perdure.core.history import HistoryOptions, ModelItem, Transcript, UserItem, history
from perdure.core.public import public_state
from perdure.core.settings import APPROVAL_MODES
from perdure.errors import InvalidRequestError, RequestConflictError
from tests.unit.core.builders import (
    ALICE,
    BOB,
    GOES_ON,
    SOME_USAGE,
    Play,
    a_claim,
    a_read,
    a_safe_write,
    a_session,
    a_single_write,
    asked_for,
    text_part,
)


def pause(play: Play) -> str:
    return str(play.apply(PauseSession(actor=ALICE)).reply["result"])


def resume(play: Play) -> str:
    return str(play.apply(ResumeSession(actor=ALICE)).reply["result"])


def retry(play: Play, retry_id: str = "r-1") -> dict[str, Any]:
    return play.apply(RetryTurn(actor=BOB, retry_id=retry_id, receipts=(a_claim(retry_id),))).reply


def waits(play: Play, seconds: int = 40, **changes: Any) -> None:
    reconnect = Reconnect(at=play.now, retry_in_ms=seconds * 1000, number=1, reason="rate_limited", partial=True)
    play.apply(
        ModelWaits(
            turn_id=play.turn.turn_id,
            step_id=play.step.step_id,
            attempt=play.step.attempt,
            started_at=play.now,
            retry_in=timedelta(seconds=seconds),
            usage=(SOME_USAGE,),
            reconnects=(reconnect,),
            **changes,
        )
    )


# --- pause -----------------------------------------------------------------------------------------------------


def test_a_pause_lets_nothing_begin_and_what_runs_finishes() -> None:
    # INBOX-15, U-13
    play, (write, look) = asked_for(a_safe_write(), a_read())
    assert play.starts(write)
    assert pause(play) == "recorded"
    assert pause(play) == "already_recorded"

    assert play.dispatches == ()
    assert sweep_due_at(play.head) is None
    play.finishes(write)
    play.finishes(look)

    assert play.turn.step is not None
    assert play.dispatches == ()
    state = public_state(play.head)
    assert state is not None
    assert state["paused"] is True
    assert resume(play) == "recorded"
    assert resume(play) == "already_recorded"
    assert [d.kind for d in play.dispatches] == ["run_model"]


def test_a_tool_does_not_begin_after_a_pause_and_begins_with_the_next_attempt_when_it_ends() -> None:
    # U-13: its claim can't be taken again, so the attempt is numbered anew; that costs no attempt of its budget.
    play, (write,) = asked_for(a_single_write())
    pause(play)

    assert not play.starts(write)

    assert (play.call(write).attempt, play.call(write).spared) == (2, 1)
    resume(play)
    assert play.starts(write)
    play.loses(write)
    assert play.messages[-1].parts[0]["status"] == "outcome_unknown"


def test_a_step_whose_claim_came_too_late_is_numbered_anew_and_keeps_its_budget() -> None:
    play = a_session()
    pause(play)
    for attempt in (1, 2, 3, 4):
        play.apply(AttemptPutOff(step_id="model-1-0", attempt=attempt))
    play.apply(AttemptPutOff(step_id="model-1-0", attempt=1))
    assert play.step.attempt == 5
    resume(play)

    play.loses("model-1-0")

    assert play.step.attempt == 6  # the second of three


def test_calls_that_are_decided_in_a_pause_begin_when_it_ends() -> None:
    play, (asked,) = asked_for(a_single_write(requires_approval=True))
    pause(play)

    play.approve(asked)

    assert awaited_steps(play.head) == ()
    resume(play)
    assert play.dispatched == [asked]


def test_messages_wait_while_paused_and_a_stop_still_works() -> None:
    # U-13: stop, steer and queue edits still work
    play = Play()
    play.send("one")
    pause(play)
    assert play.send("two").reply["delivered_as"] == "queue"
    play.stop()
    assert [d.kind for d in play.dispatches] == ["run_model"]  # somebody has to end it
    play.model_ends("aborted")

    assert play.head.turn is None
    assert [m.message_id for m in play.head.inbox] == ["message-3-0"]
    resume(play)
    assert play.turn.message_id == "message-3-0"


def test_the_times_of_what_waited_count_from_the_end_of_the_pause() -> None:
    play, _ = asked_for(a_read())
    pause(play)
    play.wait(timedelta(days=30))
    resume(play)

    assert play.turn.calls[0].first_attempt_at == play.now
    due = sweep_due_at(play.head)
    assert due is not None
    assert due > play.now


# --- reconnects that wait ---------------------------------------------------------------------------------------


def test_a_long_wait_holds_no_worker_and_says_until_when() -> None:
    # RETRY-01, U-7
    play = a_session()
    waits(play, partial="half an ans")

    (dispatch,) = play.dispatches
    assert (dispatch.attempt, dispatch.not_before) == (2, play.now + timedelta(seconds=40))
    state = public_state(play.head)
    assert state is not None
    assert [w["kind"] for w in state["waiting_for"]] == ["retry"]
    assert [e.type for e in play.last.events] == ["attempt_reset", "model_retry_scheduled", "usage_recorded"]
    assert play.turn.reconnects == 1
    transcript = Transcript()
    transcript.extend(play.log)
    assert transcript.partial == "half an ans"
    play.wait(timedelta(seconds=40))
    play.model_answers("done")
    transcript.extend(play.log)
    assert transcript.partial == ""


def test_retry_now_skips_the_wait_and_not_the_counter() -> None:
    # RETRY-03
    play = a_session()
    waits(play)

    assert retry(play) == {"result": "recorded"}

    (dispatch,) = play.dispatches
    assert (dispatch.attempt, dispatch.not_before) == (3, None)
    assert play.turn.reconnects == 1
    with pytest.raises(RequestConflictError) as caught:
        retry(play, "r-2")
    assert caught.value.code == "not_failed"


def test_a_stop_gives_a_waiting_reconnect_up_at_once() -> None:
    # RETRY-03, STOP-13
    play = a_session()
    waits(play)

    play.stop()

    assert play.head.turn is None
    assert play.events("turn_cancelled")


def test_a_wait_that_is_told_after_a_stop_or_a_steer_ends_the_turn() -> None:
    stopped, steered = a_session(), a_session()
    stopped.stop()
    steered.send("something else", delivery="steer")

    waits(stopped)
    waits(steered)

    assert stopped.events("turn_cancelled")
    assert steered.events("turn_steered")


# --- failed turns -----------------------------------------------------------------------------------------------


def test_a_turn_that_a_person_began_holds_the_inbox_when_it_fails_and_others_do_not() -> None:
    # U-6
    play, other = a_session(), a_session(source="webhook")
    for session in (play, other):
        session.send("next")
        session.model_ends("failed")

    assert play.head.turn is None
    state = public_state(play.head)
    assert state is not None
    assert state["held"] is True
    assert play.send("later").reply["delivered_as"] == "queue"
    assert other.turn.turn_id == "turn-2"


def test_a_dismissed_failure_lets_the_inbox_go_on() -> None:
    # U-6, RETRY-08
    play = a_session()
    play.send("next")
    play.model_ends("failed")

    assert play.stop().reply == {"result": "recorded"}

    assert play.turn.turn_id == "turn-2"
    assert play.events("hold.released")
    play.model_answers()
    assert play.stop().reply == {"result": "idle"}


@pytest.mark.parametrize("delivery", ["interrupt", "interrupt_next", "supersede"])
def test_an_interrupting_message_ends_a_hold(delivery: str) -> None:
    play = a_session()
    play.model_ends("failed")

    assert "turn_id" in play.send("now", delivery=delivery).reply


def test_a_retry_goes_on_from_the_failed_step_and_keeps_what_was_done() -> None:
    # RETRY-08: finished steps and tool results stay, and the failure is not told to the model.
    play, (look,) = asked_for(a_read("look"))
    play.send("next")
    play.runs(look)
    play.model_ends("failed")

    reply = retry(play)

    assert reply == {"result": "recorded", "turn_id": "turn-2"}
    assert play.events("turn_started")[-1].payload["retry_of"] == "turn-1"
    assert play.turn.model_calls == 2
    assert len(history(play.log)) == 3
    play.model_answers("done after all")
    assert history(play.log)[3] == ModelItem(text="done after all")
    assert play.turn.turn_id == "turn-3"  # the message that waited
    assert not any(m.role == "user" and m.turn_id == "turn-2" for m in play.messages)


def test_only_the_latest_turn_can_be_retried_and_only_if_it_failed() -> None:
    play = a_session(policies=GOES_ON)
    for session_state in ("running", "answered"):
        with pytest.raises(RequestConflictError) as caught:
            retry(play, session_state)
        assert caught.value.code == "not_failed"
        if session_state == "running":
            play.model_answers()


def test_a_refused_credential_blocks_until_there_is_another_one() -> None:
    # RETRY-05, U-6
    play = a_session(policies=GOES_ON)
    play.send("next", policies=GOES_ON)
    play.model_ends("failed", error_code="auth", credential="old")
    state = public_state(play.head)
    assert state is not None
    assert (state["held"], state["blocked_reason"]) == (True, "auth")
    assert sweep_due_at(play.head) is not None

    play.apply(CredentialChanged(credential="old"))
    assert play.head.turn is None
    play.apply(CredentialChanged(credential="new"))

    assert play.turn.turn_id == "turn-2"
    assert play.head.hold is None


def test_the_next_message_looks_at_the_credential_too() -> None:
    play = a_session()
    play.model_ends("failed", error_code="credits", credential="old")
    assert "turn_id" not in play.send("still", credentials={"support": "old"}).reply

    play.send("again", credentials={"support": "new"})

    assert play.turn.turn_id == "turn-2"


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
    play.fires(second, timer.fence) if play.now >= timer.due_at else play.approve(second)
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


def test_settings_are_small_and_name_a_known_approval_mode() -> None:
    # SET-04
    play = a_session()
    room = 16 * 1024 - len('{"a":""}')
    play.apply(UpdateSettings(settings={"a": "x" * room}, actor=ALICE))
    with pytest.raises(InvalidRequestError, match="16384"):
        play.apply(UpdateSettings(settings={"a": "x" * (room + 1)}, actor=ALICE))
    with pytest.raises(InvalidRequestError, match="never"):
        play.apply(UpdateSettings(settings={"approval_mode": "never"}, actor=ALICE))


# --- stop: owners and frontier ------------------------------------------------------------------------------------


def test_a_stop_names_one_owner_and_a_stale_one_touches_nothing() -> None:
    # STOP-08, F031
    play, (look,) = asked_for(a_read())
    queued = play.send("next").reply["message_id"]

    for stale in ({"step_id": "model-1-0"}, {"message_id": "message-9-0"}, {"turn_id": "turn-9"}):
        assert play.apply(StopTurn(actor=ALICE, **stale)).reply == {"result": "other_turn"}
    assert play.apply(StopTurn(actor=ALICE, message_id=queued)).reply == {"result": "recorded"}
    assert play.head.inbox == ()
    assert play.turn.stop is None
    assert play.apply(StopTurn(actor=ALICE, step_id=look)).reply == {"result": "recorded"}


def test_text_behind_the_frontier_is_cut_and_effects_never_are() -> None:
    # STOP-05, U-4
    play = a_session()
    play.model_asks(a_safe_write("note"), parts=(text_part("I look."),))
    seen = play.head.version - 1
    call = play.turn.calls[0].call_id
    play.starts(call)
    play.stop(frontier=Frontier(version=seen, text=3, reasoning=0))
    assert fates_of(play.log, play.head)["turn-1"].lengths

    play.finishes(call)
    play.send("and?")

    model = next(item for item in history(play.log) if isinstance(item, ModelItem))
    assert (model.text, [c.tool_name for c in model.calls]) == ("I l", ["note"])
    shown = next(m for m in play.public_messages() if m["role"] == "assistant")
    assert [p.get("text", p["type"]) for p in shown["parts"]] == ["I l", "tool_call"]
    assert play.messages[1].parts[0]["text"] == "I look."  # the log keeps all of it


def test_a_partial_answer_is_cut_at_the_frontier_too() -> None:
    play = a_session()
    play.stop(frontier=Frontier(version=1, text=5, reasoning=None))

    play.model_ends("aborted", parts=({"type": "reasoning", "text": "hm"}, text_part("Once upon")))

    assert play.public_messages()[-1]["parts"] == [{"type": "reasoning", "text": "hm"}, text_part("Once ")]
    assert isinstance(history(play.log)[1], ModelItem)
    assert "Once \n" in history(play.log)[1].text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("marked", ModelItem(text=f"Once\n\n{texts.NOTE} The user stopped this answer here.")),
        ("note", UserItem(text=f"{texts.NOTE} The user stopped an answer that had come this far:\n\nOnce")),
        ("turn_aborted", UserItem(text="[turn_aborted]\nOnce\n[/turn_aborted]")),
        ("omit", None),
    ],
)
def test_a_stopped_answer_is_shown_to_the_model_as_the_agent_wants_it(how: Any, expected: Any) -> None:
    # STOP-10, U-5
    play = a_session()
    play.stop()
    play.model_ends("aborted", parts=(text_part("Once"),))

    items = history(play.log, HistoryOptions(interrupted_assistant=how))

    assert (expected in items) == (expected is not None)
    assert len(items) == (3 if expected else 2)


def test_failed_evidence_is_shown_marked_when_it_is_wanted() -> None:
    # MODEL-24, MODEL-25
    play = a_session()
    play.model_ends("truncated", parts=(text_part("half"),))
    play.stop()
    play.send("and?")
    transcript = Transcript(HistoryOptions(failed_evidence=True))
    transcript.extend(play.log)

    assert transcript.items()[1] == ModelItem(text=f"half\n\n{texts.NOTE} This is no answer: truncated.")
    assert "'truncated'" in transcript.items()[2].text  # type: ignore[union-attr]
    assert [(d.decision, d.reason) for d in transcript.decisions] == [("shown", None), ("marked", "truncated")]
    plain = Transcript()
    plain.extend(play.log)
    assert [(d.decision, d.reason) for d in plain.decisions] == [("shown", None), ("left_out", "truncated")]


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
