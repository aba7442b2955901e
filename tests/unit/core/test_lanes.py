"""Calls of one lane run one at a time (spec TOOL-18)."""

from __future__ import annotations

from datetime import timedelta

from perdure.core.commands import RequestedCall
from tests.unit.core.builders import a_read, a_single_write, asked_for

HOUR = timedelta(hours=1)


def in_lane(tool_name: str = "deploy", **changes: object) -> RequestedCall:
    return a_single_write(tool_name, lane="deploys", **changes)


def test_calls_of_one_lane_run_one_after_another_in_the_models_order_and_others_beside_them() -> None:
    play, (first, second, third, free) = asked_for(in_lane(), in_lane(), a_read(lane="deploys"), a_read())
    assert play.dispatched == [first, free]

    play.runs(first)
    assert play.dispatched == [second, free]
    play.runs(second)
    assert play.dispatched == [third, free]


def test_an_approval_does_not_hold_the_lane() -> None:
    play, (gated, second) = asked_for(in_lane(gated=True), in_lane())
    assert play.dispatched == [second]

    play.approve(gated)
    assert play.dispatched == [second]
    play.runs(second)
    assert play.dispatched == [gated]


def test_a_question_of_a_tool_that_did_nothing_yet_gives_the_lane_free() -> None:
    play, (first, second) = asked_for(in_lane(), in_lane())
    play.begins(first)

    play.asks(first)

    assert play.dispatched == [second]
    play.answer(f"{first}-input-1", "yes")
    assert play.dispatched == [second]
    play.runs(second)
    assert play.dispatched == [first]


def test_a_call_that_sleeps_between_its_parts_keeps_the_lane() -> None:
    play, (first, second) = asked_for(in_lane(), in_lane())
    play.begins(first)
    play.parks(first, "nap", HOUR)
    assert play.dispatches == ()

    play.skip(first)
    assert play.dispatched == [first]
    play.runs(first)
    assert play.dispatched == [second]


def test_remote_work_keeps_the_lane_until_it_is_over_however_far_away_its_next_look_is() -> None:
    play, (first, second) = asked_for(in_lane(), in_lane())
    play.begins(first)
    play.starts_task(first, HOUR)
    assert play.dispatches == ()

    play.skip(first)
    play.finishes(first)

    assert play.dispatched == [second]


def test_a_retry_keeps_the_lane() -> None:
    play, (first, second) = asked_for(a_read(lane="l"), a_read(lane="l"))

    play.finishes(first, outcome="error")

    assert play.dispatched == [first]
    play.loses(first, final=True)
    assert play.dispatched == [second]


def test_what_waits_in_line_is_withdrawn_with_its_turn() -> None:
    play, (first, second) = asked_for(in_lane(), in_lane())
    play.begins(first)

    play.send("other", delivery="steer")

    assert play.status(second) == "rejected"
    play.finishes(first)
    assert play.turn.turn_id == "turn-2"
