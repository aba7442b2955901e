"""What should be in flight follows from HEAD alone."""

from datetime import timedelta

from perdure.core.expected import Dispatch, Timer, expected_dispatches, expected_timers, sweep_due_at
from perdure.core.head import Head
from tests.unit.core.builders import a_read, a_safe_write, a_session, a_single_write, asked_for


def test_a_session_at_rest_expects_nothing() -> None:
    # STORE promise 5: a session that waits costs storage and nothing else.
    play = a_session()
    play.model_answers()

    assert expected_dispatches(play.head) == ()
    assert expected_timers(play.head) == ()
    assert sweep_due_at(play.head) is None
    assert sweep_due_at(Head()) is None


def test_a_running_turn_expects_its_model_step_and_a_look_after_thirty_seconds() -> None:
    # SESS-05
    play = a_session()

    assert play.dispatches == (Dispatch(kind="run_model", step_id="model-1-0", attempt=1),)
    assert sweep_due_at(play.head) == play.now + timedelta(seconds=30)


def test_every_call_is_a_step_of_its_own_on_the_queue_of_its_effect() -> None:
    # TOOL-01, TOOL-02
    play, (read, put, pay) = asked_for(a_read(), a_safe_write(), a_single_write())

    assert play.dispatches == (
        Dispatch(kind="call_tool", step_id=read, attempt=1),
        Dispatch(kind="call_tool", step_id=put, attempt=1),
        Dispatch(kind="call_single_attempt_tool", step_id=pay, attempt=1),
    )


def test_all_reads_and_only_eight_writes_are_sent_out() -> None:
    writes = [a_safe_write(f"put{n}") for n in range(10)]

    play, ids = asked_for(*writes, *(a_read(f"look{n}") for n in range(20)))

    assert play.dispatched == ids[:8] + ids[10:]


def test_a_finished_write_makes_room_for_the_next_one() -> None:
    play, ids = asked_for(*(a_safe_write(f"put{n}") for n in range(10)))

    play.runs(ids[3])

    assert play.dispatched == [*ids[:3], *ids[4:8], ids[8]]


def test_an_approval_does_not_push_out_a_write_that_already_runs() -> None:
    gated = a_single_write(gated=True)
    play, ids = asked_for(gated, *(a_safe_write(f"put{n}") for n in range(8)))

    play.approve(ids[0])

    assert play.dispatched == ids[1:]
    assert not play.starts(ids[0])
    play.runs(ids[5])
    assert ids[0] in play.dispatched
    assert play.starts(ids[0])


def test_a_write_that_had_to_wait_for_its_place_has_its_whole_budget_of_attempts() -> None:
    # MODEL-02, TOOL-02: 30 minutes are counted from the first attempt, which had not begun while it waited.
    play, ids = asked_for(*(a_safe_write(f"put{n}") for n in range(9)))
    play.wait(timedelta(minutes=40))
    play.runs(ids[0])

    assert sweep_due_at(play.head) is not None
    assert play.call(ids[8]).ready_at == play.now
    play.starts(ids[8])
    play.loses(ids[8])

    assert play.call(ids[8]).attempt == 2


def test_a_write_that_waits_for_its_place_is_no_reason_to_look_at_the_session() -> None:
    play, ids = asked_for(*(a_safe_write(f"put{n}") for n in range(9)))

    assert play.call(ids[8]).ready_at is None


def test_a_deadline_is_a_timer_that_the_sweep_looks_after() -> None:
    # APPR-03
    play, (pay,) = asked_for(a_single_write(gated=True, approval_deadline=timedelta(hours=1)))

    due = play.now + timedelta(hours=1)

    assert expected_timers(play.head) == (Timer(timer_id=pay, fence=play.head.version, due_at=due),)
    assert expected_dispatches(play.head) == ()
    assert sweep_due_at(play.head) == due + timedelta(seconds=60)


def test_while_only_a_person_is_awaited_nothing_is_scheduled() -> None:
    # APPR-01: no compute while waiting, for any time.
    play, _ = asked_for(a_single_write(gated=True))

    assert expected_timers(play.head) == ()
    assert sweep_due_at(play.head) is None


def test_a_retry_is_not_expected_before_its_time() -> None:
    play, (read,) = asked_for(a_read())

    play.finishes(read, "lookup failed with OSError", "error")

    (dispatch,) = play.dispatches
    assert dispatch == Dispatch(kind="call_tool", step_id=read, attempt=2, not_before=play.now + timedelta(seconds=1))
    assert sweep_due_at(play.head) == play.now + timedelta(seconds=31)
