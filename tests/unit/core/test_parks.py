"""What a tool does in steps of its own: recorded once, with waits between that hold no worker."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.core.commands import Taker
from perdure.core.expected import expected_timers
from perdure.core.limits import MAX_RECORDS
from perdure.core.wait_commands import OutputShown, ResultBrought, StepRecorded
from perdure.errors import NotFoundError, RequestConflictError
from tests.unit.core.builders import BOB, Play, a_call, a_read, a_safe_write, a_single_write, asked_for

DAY = timedelta(days=1)
CALL = "call-2-0"
EFFECTS = ("read", "idempotent_write", "non_idempotent_write", "unclassified")


def running(effect: str = "non_idempotent_write") -> Play:
    """Return a session in which a tool's first attempt runs; its call is `call-2-0`."""
    play, _ = asked_for(a_call("build", effect))
    play.begins(CALL)
    return play


def test_a_recorded_step_is_a_fact_of_its_call() -> None:
    # TOOL-25
    play = running()

    assert play.records(CALL, "fetch", {"n": 1})
    assert play.records(CALL, "store", [2])

    assert play.facts(CALL) == [("step", "fetch", {"n": 1}), ("step", "store", [2])]
    assert [e.payload["name"] for e in play.events("tool.step_recorded")] == ["fetch", "store"]
    play.finishes(CALL)
    assert (play.status(CALL), play.call(CALL).records) == ("succeeded", ())


def test_a_step_of_an_attempt_that_was_given_up_does_not_count() -> None:
    play = running("idempotent_write")
    play.loses(CALL)

    late = StepRecorded(turn_id="turn-1", call_id=CALL, attempt=1, name="fetch", value=1)

    assert play.apply(late).reply == {"recorded": False}


def test_the_next_attempt_keeps_what_a_lost_one_recorded() -> None:
    play = running("idempotent_write")
    play.records(CALL)

    play.loses(CALL)

    assert play.facts(CALL) == [("step", "first", 1)]
    play.runs(CALL)
    assert play.status(CALL) == "succeeded"


def test_a_step_is_still_recorded_while_its_turn_is_being_stopped() -> None:
    play = running()
    play.stop()

    assert play.records(CALL)
    play.finishes(CALL, outcome="error")
    assert (play.status(CALL), play.head.turn) == ("outcome_unknown", None)


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_sleep_inside_a_tool_holds_no_worker_and_the_tool_runs_again_behind_it(effect: str) -> None:
    # TOOL-25
    play = running(effect)

    play.parks(CALL, "nap", DAY)

    assert (play.dispatches, play.call(CALL).status) == ((), "waiting_for_timer")
    assert [timer_id for timer_id, _ in play.timers] == [CALL]
    play.wait(DAY)
    play.fires(CALL)
    (dispatch,) = play.dispatches
    assert (dispatch.step_id, dispatch.attempt) == (CALL, 2)
    assert play.call(CALL).first_attempt_at == play.now
    assert play.facts(CALL) == [("sleep", "nap", {"skipped": False})]
    play.runs(CALL)
    assert (play.status(CALL), len(play.results)) == ("succeeded", 1)


def test_a_tool_that_runs_once_is_tried_again_when_the_worker_behind_its_sleep_died_before_the_body() -> None:
    play = running()
    play.parks(CALL, "nap", DAY)
    play.wait(DAY)
    play.fires(CALL)

    play.loses(CALL)  # claimed, and never started
    assert play.call(CALL).attempt == 3
    play.begins(CALL)
    play.loses(CALL)

    assert play.status(CALL) == "outcome_unknown"


def test_a_person_may_skip_the_sleep_of_a_tool() -> None:
    play = running()
    play.parks(CALL, "nap", DAY)

    play.skip(CALL)

    assert play.dispatched == [CALL]
    assert play.facts(CALL) == [("sleep", "nap", {"skipped": True})]


def test_the_event_a_tool_waits_for_wakes_it_with_its_value() -> None:
    play = running()
    play.parks(CALL, "paid", event=True)
    assert (play.dispatches, play.timers, play.call(CALL).status) == ((), [], "waiting_for_event")

    play.arrives(CALL, "paid", {"by": "card"})

    assert play.dispatched == [CALL]
    assert play.facts(CALL) == [("event", "paid", {"value": {"by": "card"}})]
    assert play.events("tool.event_arrived")[0].payload["name"] == "paid"


def test_an_event_that_comes_before_the_tool_waits_is_kept_for_it() -> None:
    play = running()
    play.arrives(CALL, "paid", 1)
    assert play.dispatched == [CALL]

    play.parks(CALL, "paid", event=True)

    (dispatch,) = play.dispatches
    assert dispatch.attempt == 2


def test_another_event_does_not_wake_it() -> None:
    play = running()
    play.parks(CALL, "paid", event=True)

    play.arrives(CALL, "shipped")

    assert play.call(CALL).status == "waiting_for_event"


def test_an_event_comes_once() -> None:
    play = running()
    play.arrives(CALL, "paid")

    with pytest.raises(RequestConflictError) as caught:
        play.arrives(CALL, "paid")

    assert caught.value.code == "not_pending"


def test_an_event_that_comes_after_its_time_does_not_change_what_the_tool_saw() -> None:
    play = running()
    play.parks(CALL, "paid", DAY, event=True)
    play.wait(DAY)
    play.fires(CALL)
    assert play.facts(CALL) == [("event", "paid", {"timed_out": True})]

    with pytest.raises(RequestConflictError):
        play.arrives(CALL, "paid")

    assert len(play.facts(CALL)) == 1


def test_the_event_that_is_awaited_is_taken_even_when_the_call_holds_the_most_facts() -> None:
    play = running("read")
    for number in range(MAX_RECORDS - 1):
        play.records(CALL, f"s{number}")
    play.parks(CALL, "paid", event=True)
    play.arrives(CALL, "other")

    with pytest.raises(RequestConflictError):
        play.arrives(CALL, "third")
    play.arrives(CALL, "paid")

    assert play.dispatched == [CALL]


def test_a_call_has_a_limit_of_facts() -> None:
    play = running()
    for number in range(MAX_RECORDS):
        play.records(CALL, f"s{number}")

    play.parks(CALL, "nap", DAY)

    assert play.status(CALL) == "outcome_unknown"
    assert "more than 100 times" in play.result(CALL)["output"]


def test_events_go_to_open_calls_of_tools_only() -> None:
    play = running()
    play.finishes(CALL)
    with pytest.raises(RequestConflictError):
        play.arrives(CALL, "paid")
    with pytest.raises(NotFoundError):
        play.arrives("call-99-0", "paid")


@pytest.mark.parametrize(("effect", "status"), [("read", "rejected"), ("non_idempotent_write", "outcome_unknown")])
def test_a_stop_ends_a_parked_call_as_truly_as_can_be_told(effect: str, status: str) -> None:
    play = running(effect)
    play.parks(CALL, "nap", DAY)
    (timer,) = expected_timers(play.head)

    play.stop()

    assert (play.head.turn, play.status(CALL), play.reason(CALL)) == (None, status, "turn_cancelled")
    assert play.timers == []
    play.wait(DAY)
    assert play.fires(CALL, timer.fence).entry is None


@pytest.mark.parametrize(("effect", "status"), [("read", "rejected"), ("non_idempotent_write", "outcome_unknown")])
def test_a_tool_that_parks_while_its_turn_is_stopped_is_over(effect: str, status: str) -> None:
    play, (call, other) = asked_for(a_call("build", effect), a_single_write("other"))
    play.begins(call)
    play.begins(other)
    play.stop()

    if effect == "read":  # its result is dropped at once
        assert play.status(call) == status
    else:
        play.parks(call, "nap", DAY)
        assert play.status(call) == status
    play.finishes(other)
    assert play.head.turn is None


def test_a_steered_message_waits_for_a_tool_that_has_begun_its_sleep_included() -> None:
    # TASK-07 in spirit: what has begun is let finish
    play = running()
    play.send("other", delivery="steer")

    play.parks(CALL, "nap", DAY)
    assert play.turn.turn_id == "turn-1"

    play.wait(DAY)
    play.fires(CALL)
    play.runs(CALL)
    assert play.turn.turn_id == "turn-2"


def test_a_sleep_that_ends_during_a_pause_goes_on_behind_it() -> None:
    play = running()
    play.parks(CALL, "nap", DAY)
    play.pause()
    play.wait(DAY)
    play.fires(CALL)
    assert play.dispatches == ()

    play.resume()

    assert play.dispatched == [CALL]


def test_a_cancelled_sleep_leaves_unknown_what_the_tool_had_done() -> None:
    play = running()
    play.parks(CALL, "nap", DAY)

    play.cancel(CALL)

    assert (play.status(CALL), play.reason(CALL)) == ("outcome_unknown", "cancelled")


def test_a_hot_worker_does_not_take_what_goes_on_behind_a_sleep() -> None:
    play = running()
    play.parks(CALL, "nap", DAY)
    play.taker = Taker(owner="hot", any_tool=True)

    play.skip(CALL)

    (dispatch,) = play.dispatches
    assert dispatch.claimed_by is None


def test_what_a_tool_shows_is_an_event_and_its_call_runs_on() -> None:
    # TOOL-17
    play = running()

    play.apply(OutputShown(turn_id="turn-1", call_id=CALL, attempt=1, output="half"))

    (shown,) = play.events("tool.output")
    assert shown.payload == {"tool_call_id": CALL, "output": "half", "preliminary": True}
    assert play.call(CALL).status == "approved"
    assert "half" not in str(play.history())


# --- results that trusted code brings --------------------------------------------------------------------


def provided(effect: str = "read") -> Play:
    play, _ = asked_for(a_call("search", effect, brought=True))
    return play


def brought(play: Play, tool_name: str = "search", *, succeeded: bool = True) -> object:
    command = ResultBrought(call_id=CALL, tool_name=tool_name, actor=BOB, output="found", succeeded=succeeded)
    return play.apply(command).reply


@pytest.mark.parametrize(("succeeded", "status"), [(True, "succeeded"), (False, "failed")])
def test_trusted_code_brings_the_result_of_a_call_that_its_provider_runs(succeeded: bool, status: str) -> None:
    # TOOL-19
    play = provided()
    assert (play.dispatches, play.timers, play.call(CALL).status) == ((), [], "waiting_for_event")

    assert brought(play, succeeded=succeeded) == {"result": "recorded"}

    assert (play.status(CALL), play.result(CALL)["output"]) == (status, "found")
    assert play.turn.step is not None
    with pytest.raises(RequestConflictError):
        brought(play)


def test_a_result_is_checked_against_the_call_that_was_admitted() -> None:
    # TOOL-19
    with pytest.raises(RequestConflictError):
        brought(provided(), "another")
    play, _ = asked_for(a_read("search"))
    with pytest.raises(RequestConflictError):
        brought(play)
    with pytest.raises(RequestConflictError):
        provided().arrives(CALL, "search")


def test_a_wait_for_a_result_has_no_time() -> None:
    play = provided()

    with pytest.raises(RequestConflictError):
        play.skip(CALL)
    with pytest.raises(RequestConflictError):
        play.move(CALL, play.now + DAY)

    assert (play.timers, play.call(CALL).status) == ([], "waiting_for_event")


@pytest.mark.parametrize(("effect", "status"), [("read", "rejected"), ("idempotent_write", "outcome_unknown")])
@pytest.mark.parametrize("ending", ["stop", "cancel"])
def test_of_what_a_provider_writes_nobody_says_that_it_was_not_run(effect: str, status: str, ending: str) -> None:
    play = provided(effect)

    play.stop() if ending == "stop" else play.cancel(CALL)

    assert play.status(CALL) == status


def test_an_idempotent_write_whose_attempts_are_spent_behind_a_sleep_is_unknown() -> None:
    play, _ = asked_for(a_safe_write())
    play.begins(CALL)
    play.parks(CALL, "nap", DAY)
    play.skip(CALL)

    for _ in range(3):
        play.begins(CALL)
        play.finishes(CALL, outcome="error")

    assert play.status(CALL) == "outcome_unknown"
