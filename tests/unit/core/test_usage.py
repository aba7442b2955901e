"""Tokens and costs with their provenance: what is not known is never zero."""

import json
from dataclasses import replace
from typing import Any

import pytest

from perdure.core.codec import decode, encode
from perdure.core.commands import AttemptLost
from perdure.core.entries import Entry
from perdure.core.head import Head
from perdure.core.public import public_event
from perdure.core.usage import (
    NO_USAGE,
    CallUsage,
    UsageTotals,
    call_figures,
    total_figures,
    whole_number,
)
from tests.unit.core.builders import SOME_USAGE, Play, a_read, a_session

FULL = CallUsage(input_tokens=212, output_tokens=20, cached_input_tokens=100, reasoning_tokens=5)
UNKNOWN = {"provenance": "unavailable"}


def totals_of(*calls: CallUsage) -> dict[str, Any]:
    return total_figures(UsageTotals().plus(calls))


def test_figures_of_one_call_are_reported_and_those_of_a_session_computed() -> None:
    # USE-02, USE-03
    assert call_figures(FULL)["input_tokens"] == {"value": 212, "provenance": "reported"}
    assert totals_of(FULL, FULL)["input_tokens"] == {"value": 424, "provenance": "computed"}


def test_a_counter_that_is_null_is_unknown_and_makes_the_sum_a_floor() -> None:
    # F015, USE-04
    half = CallUsage(input_tokens=212)

    assert call_figures(half)["output_tokens"] == UNKNOWN
    assert totals_of(FULL, half)["output_tokens"] == {"value": 20, "provenance": "computed", "partial": True}
    assert totals_of(FULL, half)["input_tokens"] == {"value": 424, "provenance": "computed"}


def test_a_zero_that_was_reported_is_a_zero() -> None:
    # F015
    assert totals_of(CallUsage(input_tokens=0))["input_tokens"] == {"value": 0, "provenance": "computed"}


def test_a_call_that_reported_nothing_is_counted_and_unknown() -> None:
    # F017, USE-05, USE-06
    totals = totals_of(NO_USAGE)

    assert totals["model_calls"] == 1
    assert totals["input_tokens"] == totals["output_tokens"] == UNKNOWN
    assert "cost" not in totals


def test_a_floor_stays_a_floor_whatever_comes_later() -> None:
    # USE-04
    assert totals_of(NO_USAGE, FULL, FULL)["input_tokens"] == {"value": 424, "provenance": "computed", "partial": True}


def test_a_session_without_calls_has_no_figures_and_no_calls() -> None:
    # USE-07
    assert totals_of() == {
        "input_tokens": UNKNOWN,
        "output_tokens": UNKNOWN,
        "cached_input_tokens": UNKNOWN,
        "reasoning_tokens": UNKNOWN,
        "model_calls": 0,
    }


def test_costs_of_one_currency_add_up_exactly() -> None:
    # USE-04
    cents = CallUsage(cost="0.1", currency="USD")

    assert totals_of(cents, cents, cents)["cost"] == {"value": "0.3", "currency": "USD", "provenance": "computed"}


def test_a_tiny_cost_is_plain_decimal_text() -> None:
    tiny = CallUsage(cost="0.0000001", currency="USD")

    assert totals_of(tiny)["cost"]["value"] == "0.0000001"


@pytest.mark.parametrize("second", [CallUsage(), CallUsage(cost="1", currency="EUR"), CallUsage(cost="1")])
def test_a_cost_that_is_missing_or_in_another_currency_is_lost_and_never_recovers(second: CallUsage) -> None:
    # USE-04
    dollar = CallUsage(cost="1", currency="USD")

    assert "cost" not in totals_of(dollar, second)
    assert "cost" not in totals_of(dollar, second, dollar)
    assert "cost" not in totals_of(second, dollar)


@pytest.mark.parametrize("text", ["free", "NaN", "Infinity", ""])
def test_a_cost_that_is_no_number_is_a_missing_one_and_fails_no_step(text: str) -> None:
    assert "cost" not in totals_of(CallUsage(cost=text, currency="USD"))


@pytest.mark.parametrize(
    ("reported", "read"),
    [(7, 7), (0, 0), (7.0, 7), (7.5, None), (-1, None), (True, None), ("7", None), (None, None), (float("inf"), None)],
)
def test_a_token_count_is_a_whole_number_or_unknown(reported: object, read: int | None) -> None:
    # USE-02
    assert whole_number(reported) == read
    assert whole_number(float("nan")) is None


def test_every_provider_call_has_its_row_and_its_event() -> None:
    # USE-01: failed ones included.
    play = a_session()

    play.model_answers(usage=(NO_USAGE, FULL))

    shown = [public_event(event, play.last, index, "s-1") for index, event in enumerate(play.last.events)]
    first, second = [event["payload"] for event in shown if event["type"] == "usage_recorded"]
    assert play.last.usage == (NO_USAGE, FULL)
    assert first["recorded"] == call_figures(NO_USAGE)
    assert second["recorded"] == call_figures(FULL)
    assert first["session"] == totals_of(NO_USAGE)
    assert second["session"] == totals_of(NO_USAGE, FULL) == total_figures(play.head.usage)
    assert play.head.usage.model_calls == 2


def test_totals_of_a_session_go_on_over_its_turns() -> None:
    # USE-01, USE-06
    play = a_session()
    play.model_answers(usage=(FULL,))
    play.send("more")

    play.model_answers(usage=(FULL,))

    assert play.head.usage.input_tokens == 424


# --- what a turn used -----------------------------------------------------------------------------------------------


def told_at_the_end(play: Play) -> list[dict[str, Any]]:
    """Return the usage of each turn that is over, as its terminal event tells it when it is read from the log."""
    return [
        public_event(event, stored, index, "s-1")["payload"]["usage"]
        for stored in (decode(Entry, json.loads(json.dumps(encode(entry)))) for entry in play.log)
        for index, event in enumerate(stored.events)
        if event.type in ("turn_completed", "turn_failed", "turn_cancelled")
    ]


def test_a_turn_tells_at_its_end_what_its_own_calls_used() -> None:
    # USE-05, USE-06
    play = a_session()
    (call,) = play.model_asks(a_read(), usage=(NO_USAGE, FULL))
    play.send("more")
    play.runs(call)
    play.model_answers(usage=(FULL,))
    play.model_ends("failed", usage=(FULL,))

    first, second = told_at_the_end(play)

    assert first == totals_of(NO_USAGE, FULL, FULL)
    assert second == totals_of(FULL)
    assert play.head.usage == UsageTotals().plus((NO_USAGE, FULL, FULL, FULL))


def test_a_turn_that_ends_before_anything_was_reported_says_so() -> None:
    # USE-05
    play = a_session()
    play.loses(play.step.step_id, final=True)
    play.send("again")
    play.stop()
    play.model_ends("aborted", usage=(NO_USAGE,))

    failed, cancelled = told_at_the_end(play)

    assert failed == totals_of()
    assert cancelled == totals_of(NO_USAGE)


def test_a_late_report_counts_for_the_turn_that_it_belongs_to() -> None:
    # USE-06
    play = a_session()
    step = play.step
    play.loses(step.step_id)
    play.model_answers(step_id=step.step_id, attempt=1, usage=(FULL,))  # of the attempt that was given up
    play.model_answers()
    play.send("more")
    play.model_answers(step_id=step.step_id, turn_id="turn-1", attempt=1, usage=(FULL,))
    play.model_answers(usage=(FULL,))

    first, second = told_at_the_end(play)

    assert first == totals_of(FULL, SOME_USAGE)
    assert second == totals_of(FULL)


@pytest.mark.parametrize("ends", ["tried again", "given up", "stopped"])
def test_what_an_attempt_used_that_was_given_up_counts_for_its_turn(ends: str) -> None:
    # USE-06
    play = a_session()
    if ends == "stopped":
        play.stop()
    step = play.step.step_id
    lost = AttemptLost(step_id=step, attempt=1, claimed=True, reason="it broke", turn_id="turn-1", usage=(FULL,))

    play.apply(replace(lost, final=ends == "given up"))
    if play.head.turn:
        play.model_answers(usage=())

    assert told_at_the_end(play) == [totals_of(FULL)]


def test_the_usage_of_a_running_turn_is_on_record_with_each_commit() -> None:
    # USE-06
    play = a_session()

    play.model_asks(a_read(), usage=(FULL,))

    assert decode(Head, json.loads(json.dumps(encode(play.head)))).turn == play.turn
    assert play.turn.usage == UsageTotals().plus((FULL,))


def test_totals_are_short_where_they_are_kept_and_read_back_the_same() -> None:
    for calls in ((FULL,), (NO_USAGE,), (FULL, NO_USAGE), (CallUsage(input_tokens=1, cost="1", currency="EUR"),)):
        totals = UsageTotals().plus(calls)

        stored = json.dumps(encode(totals))

        assert decode(UsageTotals, json.loads(stored)) == totals
    assert encode(UsageTotals().plus((FULL, FULL))) == {"counts": [2, 424, 40, 200, 10]}
    assert encode(UsageTotals()) == {}
