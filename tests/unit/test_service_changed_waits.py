"""What skipping, changing and cancelling a wait do, and who may."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.core.codec import format_time
from perdure.errors import ForbiddenError, InvalidRequestError, NotFoundError, RequestConflictError, RequestError
from perdure.models.scripted import call
from perdure.service import LOCAL_CALLER
from perdure.testing.fixtures import open_stage
from tests.unit.steps.builders import OTHER, an_agent
from tests.unit.waiting import (
    WAIT,
    Remote,
    a_sleeper,
    an_asker,
    begun,
    calling,
    deploy,
    only_wait,
    refusal,
    waits,
)


async def test_a_skipped_wait_ends_at_once_and_the_model_is_told_how_long_it_was_and_why() -> None:
    async with open_stage(a_sleeper(3600, reason="tea")) as stage:
        await begun(stage)
        await stage.clock.advance(90)

        assert await stage.session().skip_wait(WAIT) == {"result": "recorded"}

        await stage.run_all()
        assert await stage.results() == {
            "durable_wait": ("succeeded", '{"status": "skipped", "waited_seconds": 90, "reason": "tea"}')
        }
        assert stage.timers.pending == []
        (skipped,) = [e["payload"] for e in await stage.events() if e["type"] == "wait.skipped"]
        assert skipped == {"tool_call_id": WAIT, "actor": {"issuer": "local", "subject": "local"}}


async def test_a_wait_that_is_given_another_time_ends_then_and_not_before() -> None:
    async with open_stage(a_sleeper(3600)) as stage:
        await begun(stage)
        later = stage.clock.now() + timedelta(days=30)

        await stage.session().change_wait(WAIT, later)
        (await stage.clock.advance(3601))
        await stage.fire_timers()
        still = await only_wait(stage)
        await stage.skip_timers()
        await stage.run_all()

        assert still["until"] == format_time(later)
        assert stage.clock.now() == later
        assert "completed" in (await stage.results())["durable_wait"][1]


async def test_a_time_is_kept_in_whole_milliseconds_so_that_its_timer_is_the_one_of_the_stored_session() -> None:
    async with open_stage(a_sleeper()) as stage:
        await begun(stage)
        later = (stage.clock.now() + timedelta(hours=1)).replace(microsecond=123_999)

        await stage.session().change_wait(WAIT, later)

        ((_, timer),) = stage.timers.pending
        assert timer.due_at == later.replace(microsecond=123_000)
        assert (await only_wait(stage))["until"] == format_time(timer.due_at)


@pytest.mark.parametrize("until", ["2001-01-01T00:00:00Z", "2001-01-01t01:00:00.123456789+01:00"])
async def test_a_time_that_has_passed_ends_a_wait_at_once(until: str) -> None:
    async with open_stage(a_sleeper(3600)) as stage:
        await begun(stage)

        await stage.session().change_wait(WAIT, until)
        await stage.fire_timers()
        await stage.run_all()

        assert (await stage.snapshot())["state"]["status"] == "waiting_for_user_message"


@pytest.mark.parametrize(
    "until",
    ["tomorrow", "", "2027-01-01", "2027-01-01T09:00:00", "2027-13-01T09:00:00Z", "2027-01-01T25:00:00Z",
     "2027-W01-1T09:00:00Z", "20270101T090000Z", "0001-01-01T00:00:00+23:59", "2027-01-01T09:00:00Z\n",
     "2027-01-01T09:00:00+01", "٢٠٢٧-01-01T09:00:00Z"],
)  # fmt: skip
async def test_what_is_no_time_with_an_offset_is_refused(until: str) -> None:
    async with open_stage(a_sleeper()) as stage:
        await begun(stage)

        assert await refusal(stage.session().change_wait(WAIT, until)) == (InvalidRequestError, "invalid_request")


async def test_a_time_without_a_zone_is_refused_of_python_too() -> None:
    async with open_stage(a_sleeper()) as stage:
        await begun(stage)

        with pytest.raises(InvalidRequestError):
            await stage.session().change_wait(WAIT, datetime(2027, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize(("days", "taken"), [(365, True), (365.001, False)])
async def test_a_wait_ends_within_365_days(days: float, taken: bool) -> None:
    async with open_stage(a_sleeper()) as stage:
        await begun(stage)
        change = stage.session().change_wait(WAIT, stage.clock.now() + timedelta(days=days))

        if taken:
            assert await change == {"result": "recorded"}
        else:
            assert await refusal(change) == (InvalidRequestError, "invalid_request")


async def test_a_durable_wait_needs_a_time_and_a_question_does_not() -> None:
    async with open_stage(a_sleeper()) as stage:
        await begun(stage)
        assert await refusal(stage.session().change_wait(WAIT, None)) == (InvalidRequestError, "invalid_request")
    async with open_stage(an_asker(deadline=timedelta(minutes=30))) as stage:
        await begun(stage)
        assert await stage.session().change_wait(WAIT, None) == {"result": "recorded"}
        assert "until" not in await only_wait(stage)
        assert await stage.skip_timers() == 0


async def test_the_deadline_of_a_question_is_moved_and_its_question_stays_the_same() -> None:
    async with open_stage(an_asker(deadline=timedelta(minutes=30), choices=["a"], allows_free_text=False)) as stage:
        await begun(stage)
        before = await only_wait(stage)
        later = stage.clock.now() + timedelta(hours=2)

        await stage.session().change_wait(WAIT, later.astimezone(UTC))
        await stage.clock.advance(3600)
        await stage.fire_timers()

        after = await only_wait(stage)
        assert after == before | {"until": format_time(later)}
        (shown,) = (await stage.snapshot())["pending_interrupts"]
        assert shown["question"] == "Which colour?"
        assert await refusal(stage.session().answer(WAIT, "b")) == (InvalidRequestError, "invalid_request")
        assert await stage.session().answer(WAIT, "a") == {"result": "resolved"}


@pytest.mark.parametrize(("how", "ends"), [("queue", False), ("steer", True), ("stop", True)])
async def test_a_queued_message_ends_no_wait_and_a_steered_one_or_a_stop_does(how: str, ends: bool) -> None:
    async with open_stage(a_sleeper()) as stage:
        await begun(stage)

        await (stage.stop() if how == "stop" else stage.send("hello?", delivery=how))

        assert ("timer" in [wait["kind"] for wait in await waits(stage)]) is not ends
        finished = [e["payload"] for e in await stage.events() if e["type"] == "tool_call_finished"]
        reasons = {"steer": ["steered"], "stop": ["turn_cancelled"], "queue": []}[how]
        assert [each["cancellation_reason"] for each in finished] == reasons


async def test_a_cancelled_wait_is_told_to_the_model() -> None:
    async with open_stage(a_sleeper()) as stage:
        await begun(stage)

        assert await stage.session().cancel_wait(WAIT) == {"result": "recorded"}

        await stage.run_all()
        assert (await stage.results())["durable_wait"][0] == "rejected"


@pytest.mark.parametrize("asks", [False, True])
async def test_cancelled_remote_work_is_asked_to_stop_and_what_it_asked_needs_no_answer(asks: bool) -> None:
    remote = Remote(asks=asks)
    async with open_stage(remote.agent()) as stage:
        await begun(stage)
        for _ in range(2 if asks else 1):
            await stage.clock.advance(60)
            await stage.run_next()

        await stage.session().cancel_wait(WAIT)
        await stage.run_all()

        assert remote.cancelled == ["job-1"]
        assert (await stage.results())["render"][0] == "outcome_unknown"
        assert (await stage.snapshot())["pending_interrupts"] == []
        ended = [e["payload"] for e in await stage.events() if e["type"] == "interrupt_resolved"]
        assert [each["cancellation_reason"] for each in ended] == (["cancelled"] if asks else [])


@pytest.mark.parametrize("operation", ["skip_wait", "cancel_wait"])
async def test_what_waits_for_a_person_is_neither_skipped_nor_cancelled(operation: str) -> None:
    async with open_stage(an_asker()) as stage:
        await begun(stage)

        with pytest.raises(InvalidRequestError, match="answer or decline"):
            await getattr(stage.session(), operation)(WAIT)


async def test_an_event_that_has_no_time_is_not_skipped() -> None:
    async with open_stage(an_agent(deploy, model=calling(call("deploy", target="web")))) as stage:
        await begun(stage)
        await stage.run_all()
        await stage.session().answer(f"{WAIT}-input-1", "eu")
        await stage.run_all()
        await stage.session().skip_wait(WAIT)
        await stage.run_all()

        assert await refusal(stage.session().skip_wait(WAIT)) == (RequestConflictError, "not_pending")


@pytest.mark.parametrize("operation", ["skip_wait", "cancel_wait", "change_wait"])
async def test_a_wait_that_is_over_is_told_apart_from_one_that_never_was(operation: str) -> None:
    async with open_stage(a_sleeper()) as stage:
        await begun(stage)
        await stage.session().skip_wait(WAIT)
        until = ("2027-01-01T00:00:00Z",) if operation == "change_wait" else ()

        async def act(wait_id: str) -> tuple[type[RequestError], str]:
            return await refusal(getattr(stage.session(), operation)(wait_id, *until))

        assert await act(WAIT) == (RequestConflictError, "not_pending")
        for never in ("call-2-1", "call-1-0", "nonsense", "call-99-0-input-1", "x" * 5000):
            assert await act(never) == (NotFoundError, "wait_not_found")


async def test_the_same_skip_with_the_same_key_is_one() -> None:
    async with open_stage(a_sleeper()) as stage:
        await begun(stage)
        session = stage.session()

        first = await session.skip_wait(WAIT, idempotency_key="k")
        version = (await stage.head()).version
        again = await session.skip_wait(WAIT, idempotency_key="k")

        assert first == again
        assert (await stage.head()).version == version
        other = session.change_wait(WAIT, "2027-01-01T00:00:00Z", idempotency_key="k")
        assert await refusal(other) == (RequestConflictError, "idempotency_mismatch")


@pytest.mark.parametrize(
    ("may", "agent", "taken"),
    [("approve", "asker", True), ("control", "asker", False), ("control", "sleeper", True),
     ("approve", "sleeper", False)],
)  # fmt: skip
async def test_a_deadline_is_moved_by_who_may_decide_and_a_wait_by_who_may_control(
    may: str, agent: str, taken: bool
) -> None:
    def authorize(principal: Any, operation: str, facts: Any) -> bool | None:
        return operation in ("read", may) if principal.actor.subject == "other" else None

    chosen = an_asker(deadline=timedelta(minutes=30)) if agent == "asker" else a_sleeper()
    async with open_stage(chosen, authorize=authorize) as stage:
        await begun(stage)
        until = stage.clock.now() + timedelta(hours=2)

        change = stage.service.change_wait(OTHER, "s-1", WAIT, until=until)

        if taken:
            assert await change == {"result": "recorded"}
        else:
            assert await refusal(change) == (ForbiddenError, "forbidden")


async def test_a_wait_of_a_session_that_was_never_written_is_not_found() -> None:
    async with open_stage(a_sleeper()) as stage:
        for operation in ("skip_wait", "cancel_wait"):
            skip = getattr(stage.service, operation)(LOCAL_CALLER, "s-1", WAIT)
            assert await refusal(skip) == (NotFoundError, "session_not_found")
