"""What follows a model step: an answer, calls, a failure, or nothing any more."""

from datetime import timedelta

import pytest

from perdure.core import texts
from perdure.core.commands import Reconnect
from perdure.core.history import ModelItem, ToolResultItem, wire_ids
from perdure.core.size import head_bytes
from perdure.core.usage import CallUsage
from tests.unit.core.builders import (
    GOES_ON,
    NOON,
    SOME_USAGE,
    a_call,
    a_read,
    a_session,
    a_single_write,
    asked_for,
    text_part,
)


def test_a_step_that_asks_for_no_tool_ends_the_turn_in_one_commit() -> None:
    # SESS-07, MODEL-05
    play = a_session()

    play.model_answers("4100")

    assert play.head.turn is None
    assert play.head.status == "waiting_for_user_message"
    assert [m.role for m in play.last.messages] == ["assistant"]
    assert [e.type for e in play.last.events] == ["model_started", "usage_recorded", "model_finished", "turn_completed"]
    assert play.last.events[-1].payload == {"message_count": 1}
    assert play.head.preview == "4100"


def test_a_completed_turn_counts_every_message_after_its_users() -> None:
    # SESS-07: incremental ones included.
    play, (call,) = asked_for(a_read())
    play.runs(call)

    play.model_answers()

    assert play.last.events[-1].payload == {"message_count": 3}


def test_calls_run_when_the_finish_reason_says_stop_because_only_calls_count() -> None:
    # F011: the ending is told by the calls; a model that asks is asked again with the results.
    play, (call,) = asked_for(a_read("ping"))

    play.runs(call)

    assert play.status(call) == "succeeded"
    assert play.turn.step is not None


def test_asking_for_tools_without_naming_one_is_an_answer() -> None:
    # F011, the variant: no extra model call.
    play = a_session()

    play.model_asks(parts=(text_part("nothing to do"),))

    assert play.head.turn is None
    assert play.head.last_turn_error is None
    assert play.events("turn_completed")


def test_an_answer_without_any_text_still_ends_the_turn() -> None:
    play = a_session()

    play.model_ends("answer", parts=())

    assert play.head.turn is None
    assert len(play.messages) == 1
    assert play.last.events[-1].payload == {"message_count": 0}


def test_a_stop_policy_ends_the_turn_by_its_name_and_no_provider_call_is_told_of() -> None:
    # MODEL-18
    play, (call,) = asked_for(a_read())
    play.runs(call)
    asked_before = play.turn.model_calls

    play.model_ends("answer", stop_policy="enough", usage=())

    assert asked_before == 1
    assert play.head.turn is None
    assert [(e.type, e.payload) for e in play.last.events] == [
        ("turn_completed", {"message_count": 2, "reason": "policy_stop", "policy_name": "enough"})
    ]


def test_a_stop_that_was_recorded_first_wins_over_a_stop_policy() -> None:
    play, (call,) = asked_for(a_read())
    play.runs(call)
    play.stop()

    play.model_ends("answer", stop_policy="enough", usage=())

    assert [e.type for e in play.last.events] == ["turn_cancelled"]


def test_an_answer_that_is_not_accepted_fails_the_turn_and_is_never_shown_to_the_model() -> None:
    # SESS-17
    play = a_session()

    play.model_answers("no", ending="not_accepted", error_message="the check wants JSON")
    play.send("again")

    assert [(m.role, m.status) for m in play.messages[:2]] == [("user", None), ("assistant", "not_accepted")]
    error = play.events("turn_failed")[0].payload["error"]
    assert error == {"code": "not_accepted", "message": "the check wants JSON"}
    assert not [item for item in play.history() if isinstance(item, ModelItem)]


def test_calls_and_text_of_one_response_are_one_message_stored_with_the_calls() -> None:
    # MODEL-06, MODEL-10
    play = a_session()

    first, second = play.model_asks(
        a_read(provider_call_id="p1"),
        a_read("look", arguments=None, arguments_text="{oops", settled=("failed", "invalid look arguments: no JSON")),
        parts=(text_part("let me see"),),
        provider={"provider": "stub", "api": "chat", "item": {"signature": "S"}},
    )

    message = play.last.messages[0]
    assert message.provider == {"provider": "stub", "api": "chat", "item": {"signature": "S"}}
    assert message.parts == (
        text_part("let me see"),
        {
            "type": "tool_call",
            "tool_call_id": first,
            "tool_name": "lookup",
            "arguments": {"of": "lookup"},
            "provider_call_id": "p1",
        },
        {"type": "tool_call", "tool_call_id": second, "tool_name": "look", "arguments_text": "{oops"},
    )


def test_run_state_is_kept_with_the_calls_and_found_by_the_version_of_their_commit() -> None:
    # MODEL-05, MODEL-23
    play = a_session()

    play.model_asks(a_read(), run_state={"model_calls": 1})

    assert play.last.run_state == {"model_calls": 1}
    assert play.turn.model_version == play.last.version


def test_run_state_does_not_outlive_the_turn() -> None:
    # MODEL-23
    play = a_session()

    play.model_answers(run_state={"model_calls": 1})

    assert play.last.run_state is None


def test_two_calls_with_one_provider_id_are_two_calls() -> None:
    # F008
    play = a_session()

    first, second = play.model_asks(
        a_call("weather", arguments={"city": "A"}, provider_call_id="call_0", gated=True),
        a_call("weather", arguments={"city": "B"}, provider_call_id="call_0", gated=True),
        provider={"provider": "stub", "api": "chat"},
    )
    play.approve(first)

    assert first != second
    assert play.dispatched == [first]
    assert play.pending == [second]
    play.runs(first, "sunny")
    play.approve(second)
    play.runs(second, "rainy")
    results = [item.output for item in play.history() if isinstance(item, ToolResultItem)]
    assert results == ["sunny", "rainy"]
    assert len(set(wire_ids(play.history(), "stub").values())) == 2


def test_an_unknown_tool_fails_at_once_and_the_turn_goes_on() -> None:
    # F130, TOOL-10
    unknown = a_read("get_tiem", settled=("failed", "unknown tool get_tiem; available tools: get_time"))
    play, (bad, good) = asked_for(unknown, a_read("get_time"))

    assert play.result(bad)["output"].startswith("unknown tool get_tiem")
    assert play.status(bad) == "failed"
    assert play.dispatched == [good]
    assert [e.payload["status"] for e in play.events("tool_call_finished")] == ["failed"]


def test_a_response_of_unknown_tools_only_asks_the_model_again_in_the_same_commit() -> None:
    # F130: bounded by the turn's limit of model calls.
    play, _ = asked_for(*[a_read("get_tiem", settled=("failed", "unknown tool get_tiem"))] * 2)

    assert play.dispatched == [play.step.step_id]
    assert play.turn.model_calls == 1


def test_a_call_that_is_over_before_it_begins_needs_no_approval() -> None:
    # TOOL-10
    play, (call,) = asked_for(a_single_write(gated=True, settled=("failed", "invalid pay arguments: amount")))

    assert play.pending == []
    assert play.status(call) == "failed"


def test_calls_beyond_sixty_four_are_not_run_and_say_so() -> None:
    play, ids = asked_for(*(a_read(f"look{n}") for n in range(70)))

    assert play.dispatched == ids[:64]
    assert [play.result(i)["output"] for i in ids[64:]] == [texts.TOO_MANY_CALLS.format(limit=64)] * 6


def test_a_response_with_thousands_of_calls_leaves_a_small_head() -> None:
    # STORE-03: HEAD has to fit one item whatever a model sends.
    play, ids = asked_for(*(a_read(f"look{n}") for n in range(1000)))

    assert len(play.results) == 1000 - 64
    assert len(play.turn.calls) == 64
    assert head_bytes(play.head) < 16 * 1024
    assert len(play.public_calls()) == len(ids)


def test_at_the_cap_of_model_calls_the_turn_ends_and_every_call_is_told_why() -> None:
    # SESS-08
    play = a_session()

    ids = play.model_asks(a_read(), a_single_write(gated=True), limit_reached=True, call_limit=100)

    assert play.head.turn is None
    text = "The tool call was not run: this turn reached its limit of 100 model calls."
    assert [play.result(i)["output"] for i in ids] == [text, text]
    assert play.last.events[-1].type == "turn_completed"
    assert play.last.events[-1].payload == {"message_count": 3, "reason": "model_call_limit"}
    assert not play.events("interrupt_raised")


@pytest.mark.parametrize("ending", ["truncated", "filtered", "refused"])
def test_half_an_answer_fails_the_turn_and_stays_as_a_marked_message(ending: str) -> None:
    # surface §4.2
    play = a_session()

    play.model_ends(ending, parts=(text_part("The total is 41"),), calls=(a_read(),))

    error = play.head.last_turn_error
    assert error is not None
    assert error.code == ending
    assert play.messages[-1].status == ending
    assert play.results == []
    assert not any(isinstance(item, ModelItem) for item in play.history())


def test_an_empty_refusal_is_one_request_and_a_failed_turn_and_nothing_is_sent_by_itself() -> None:
    # F021
    play = a_session()

    play.model_ends("refused", parts=())

    assert play.head.last_turn_error is not None
    assert play.head.last_turn_error.code == "refused"
    assert play.dispatches == ()
    assert len(play.messages) == 1


def test_a_failed_turn_keeps_its_users_message_and_names_the_reason() -> None:
    # SESS-09
    play = a_session("refund order 7")

    play.model_ends("failed", error_code="auth", error_message="wrong key")

    assert play.head.turn is None
    assert play.head.last_turn_error is not None
    assert (play.head.last_turn_error.code, play.head.last_turn_error.message) == ("auth", "wrong key")
    assert play.last.events[-1].payload == {
        "error": {"code": "auth", "message": "wrong key"},
        "message_count": 0,
        "held": True,
    }
    assert [m["role"] for m in play.public_messages()] == ["user"]


def test_a_reason_as_long_as_a_page_does_not_fill_head() -> None:
    # STORE-03
    play = a_session()

    play.model_ends("failed", error_code="provider", error_message="x" * 100_000)

    assert play.head.last_turn_error is not None
    assert play.head.last_turn_error.message == "x" * 999 + "…"
    assert play.last.events[-1].payload["error"]["message"] == "x" * 999 + "…"


def test_the_reason_of_a_failed_turn_goes_when_the_next_one_starts() -> None:
    # SESS-09
    play = a_session(policies=GOES_ON)
    play.model_ends("failed", error_code="provider", error_message="503")

    play.send("again")

    assert play.head.last_turn_error is None


def test_every_reconnect_is_announced_and_a_shown_partial_is_withdrawn() -> None:
    # F001, RETRY-02, RETRY-09, RETRY-11: reconnects are no attempts; the answer that stands is the last one alone.
    play = a_session()
    reconnects = (
        Reconnect(at=NOON, retry_in_ms=250, number=1, reason="malformed", partial=True),
        Reconnect(at=NOON + timedelta(seconds=1), retry_in_ms=500, number=2, reason="timeout"),
    )

    play.model_answers("The total is 4100.", reconnects=reconnects, usage=(CallUsage(), CallUsage(), SOME_USAGE))

    told = [(e.type, e.at, e.payload) for e in play.last.events[1:4]]
    assert told == [
        ("attempt_reset", NOON, {"reason": "malformed"}),
        ("model_retry_scheduled", NOON, {"retry_in_ms": 250, "attempt": 1, "reason": "malformed"}),
        (
            "model_retry_scheduled",
            NOON + timedelta(seconds=1),
            {"retry_in_ms": 500, "attempt": 2, "reason": "timeout"},
        ),
    ]
    assert {e.attempt for e in play.last.events[:-1]} == {1}
    assert play.messages[-1].parts == (text_part("The total is 4100."),)
    assert play.head.usage.model_calls == 3


def test_begin_and_end_bracket_the_step_with_the_time_it_began() -> None:
    # MODEL-16, EVT-02
    play = a_session()
    step = play.step.step_id

    play.model_answers(started_at=NOON)

    begin, end = play.events("model_started", "model_finished")
    assert (begin.at, begin.step_execution_id, begin.attempt) == (NOON, step, 1)
    assert (end.payload, end.step_execution_id, end.turn_id) == ({"status": "completed"}, step, "turn-1")


def test_usage_is_told_before_the_end_of_the_step_and_does_not_wait_for_tools() -> None:
    # MODEL-16, USE-01
    play, _ = asked_for(a_read())

    types = [e.type for e in play.last.events]

    assert types.index("usage_recorded") + 1 == types.index("model_finished")
    assert types[-1] == "tool_call_deferred"


def test_an_answer_of_an_older_attempt_is_dropped_and_its_usage_still_counted() -> None:
    # F104, F029, SESS-13
    play = a_session()
    step = play.step.step_id
    play.loses(step)

    decision = play.model_answers("late", step_id=step, attempt=1)

    assert decision.reply == {"accepted": False}
    assert play.head.turn is not None
    assert play.step.attempt == 2
    assert len(play.messages) == 1
    assert play.head.usage.model_calls == 1


def test_a_late_answer_without_usage_changes_nothing() -> None:
    play = a_session()
    step = play.step.step_id
    play.loses(step)

    decision = play.model_answers("late", step_id=step, attempt=1, usage=())

    assert decision.entry is None


def test_usage_of_a_turn_that_is_over_is_recorded_under_that_turn() -> None:
    # USE-06, STOP-06
    play = a_session()
    step = play.step.step_id
    play.stop()
    play.loses(step)
    play.send("next")

    play.model_answers("late", turn_id="turn-1", step_id=step, attempt=1)

    assert [(e.type, e.turn_id) for e in play.last.events] == [("usage_recorded", "turn-1")]
    assert play.turn.turn_id == "turn-2"
