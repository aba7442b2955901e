"""Reconnects of a model step: when the provider is called again, and what is left of the calls that failed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.agents.reconnect import LONGEST_ASKED_WAIT, PATIENT, QUICK, ReconnectPolicy
from perdure.core.usage import CallUsage
from perdure.models.scripted import Reply
from perdure.testing.clock import VirtualClock
from perdure.testing.fixtures import open_stage
from tests.unit.steps.builders import Provider, an_agent, failing


async def test_f019_a_provider_that_asks_for_a_wait_is_called_exactly_once_more_and_not_before() -> None:
    clock = VirtualClock()
    provider = Provider(clock, failing("rate_limited", status=429, retry_after_seconds=40), "at last")
    async with open_stage(an_agent(model=provider), clock=clock) as stage:
        await stage.send("hi")
        await stage.run_all()

        assert provider.waits == [40]
        assert (await stage.transcript())[-1] == ("assistant", "at last")
        assert (await stage.head()).usage.model_calls == 2


async def test_reconnects_wait_250_ms_and_double_and_after_the_fifth_the_turn_has_failed() -> None:
    clock = VirtualClock()
    provider = Provider(clock, failing())
    async with open_stage(an_agent(model=provider), clock=clock) as stage:
        await stage.send("hi")
        ran = await stage.run_all()

        assert provider.waits == [0.25, 0.5, 1, 2, 4]
        assert len(ran) == 1
        state = (await stage.snapshot())["state"]
        assert state["last_turn_error"] == {"code": "timeout", "message": "the provider failed: timeout"}
        announced = [e["payload"] for e in await stage.events() if e["type"] == "model_retry_scheduled"]
        assert [p["retry_in_ms"] for p in announced] == [250, 500, 1000, 2000, 4000]
        assert [p["attempt"] for p in announced] == [1, 2, 3, 4, 5]
        assert {p["reason"] for p in announced} == {"timeout"}


def test_our_own_wait_never_exceeds_30_seconds_and_a_longer_one_is_honoured_up_to_five_minutes() -> None:
    assert [PATIENT.delay_before(n, failing()) for n in range(1, 7)] == [
        *(timedelta(seconds=seconds) for seconds in (2, 4, 8, 16, 30)),
        None,
    ]
    longest = LONGEST_ASKED_WAIT.total_seconds()
    waits = [
        QUICK.delay_before(n, failing(retry_after_seconds=asked)) for n, asked in ((3, 0.1), (1, -5), (1, longest))
    ]
    assert waits == [timedelta(seconds=1), timedelta(milliseconds=250), LONGEST_ASKED_WAIT]
    assert QUICK.delay_before(1, failing(retry_after_seconds=longest + 1)) is None
    assert ReconnectPolicy(max_reconnects=1000).delay_before(1000, failing()) == timedelta(seconds=30)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (failing("auth", retryable=False, status=401), "auth"),
        (failing("invalid", retryable=False, status=400), "provider"),
        (failing("rate_limited", status=429, retry_after_seconds=301), "provider"),
    ],
    ids=["auth", "invalid", "asks-for-more-than-five-minutes"],
)
async def test_what_can_not_be_helped_by_waiting_fails_the_turn_at_once(error: Exception, code: str) -> None:
    clock = VirtualClock()
    provider = Provider(clock, error)
    async with open_stage(an_agent(model=provider), clock=clock) as stage:
        await stage.send("hi")
        await stage.run_all()

        assert len(provider.times) == 1
        assert (await stage.snapshot())["state"]["last_turn_error"]["code"] == code
        assert "model_retry_scheduled" not in await stage.event_types()


async def test_a_cut_answer_is_taken_back_from_the_viewers_never_stored_and_told_to_the_model_only() -> None:
    clock = VirtualClock()
    provider = Provider(clock, failing("malformed", partial_text="Half an ans"), "The whole answer.")
    async with open_stage(an_agent(model=provider), clock=clock) as stage:
        await stage.send("hi")
        await stage.run_all()

        types = await stage.event_types()
        assert types.index("model_started") < types.index("attempt_reset") < types.index("model_retry_scheduled")
        assert await stage.transcript() == [("user", "hi"), ("assistant", "The whole answer.")]
        assert "Half an ans" not in str([entry.messages for entry in await stage.entries()])
        note = provider.requests[1].messages[-1]
        assert "Half an ans" in note.text  # type: ignore[union-attr]
        await stage.send("and now?")
        await stage.run_all()
        assert "Half an ans" not in str(provider.requests[2].messages)


async def test_a_failure_before_any_text_takes_nothing_back() -> None:
    clock = VirtualClock()
    async with open_stage(an_agent(model=Provider(clock, failing(), "ok")), clock=clock) as stage:
        await stage.send("hi")
        await stage.run_all()

        assert "attempt_reset" not in await stage.event_types()


async def test_every_provider_call_has_a_usage_row_also_one_that_failed() -> None:
    clock = VirtualClock()
    usage = CallUsage(input_tokens=7, output_tokens=2)
    async with open_stage(an_agent(model=Provider(clock, failing(), Reply("ok", usage=usage))), clock=clock) as stage:
        await stage.send("hi")
        await stage.run_all()

        rows = [e["payload"]["recorded"] for e in await stage.events() if e["type"] == "usage_recorded"]
        assert [row["input_tokens"] for row in rows] == [
            {"provenance": "unavailable"},
            {"value": 7, "provenance": "reported"},
        ]
        assert (await stage.snapshot())["usage"]["model_calls"] == 2
