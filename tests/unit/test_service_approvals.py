"""Approvals: told apart, decided once, in time, and by whoever may; and what the model hears of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolPolicy
from perdure.agents.stepwise import StepwiseRunner
from perdure.core import texts
from perdure.errors import InvalidRequestError, NotFoundError, RequestConflictError, RequestError
from perdure.models.scripted import call
from perdure.service import LOCAL_CALLER
from perdure.testing.fixtures import open_stage, redeployed
from tests.unit.desk import Desk, booking, pending
from tests.unit.steps.builders import an_agent, asking_for


async def test_f037_parallel_approvals_of_one_tool_are_told_apart() -> None:
    desk, model = Desk(), booking("r1", "r2", "r3")
    async with open_stage(desk.agent(model)) as stage:
        await stage.send("go")
        await stage.run_all()
        ids = await pending(stage)
        assert len(set(ids.values())) == 3

        await stage.approve(ids["r3"])
        await stage.approve(ids["r1"], approved=False, message="too big")
        assert len(model.requests) == 1
        await stage.approve(ids["r2"])
        await stage.run_all()

        assert sorted(desk.booked) == ["r2", "r3"]
        assert len(model.requests) == 2
        outputs = [getattr(item, "output", "") for item in model.requests[1].messages[-3:]]
        assert outputs == [f"{texts.DENIED} They wrote: too big", "booked r2", "booked r3"]


async def test_f039_a_sibling_that_ran_already_does_not_run_again_behind_an_approval() -> None:
    desk, model = Desk(), booking("r1", also=(call("log_visit"),))
    async with open_stage(desk.agent(model)) as stage:
        await stage.send("go")
        await stage.run_all()
        other = redeployed(stage, desk.agent(model))  # the worker is restarted

        await other.approve((await pending(other))["r1"])
        await other.run_all()

        assert (desk.visits, desk.booked) == (1, ["r1"])
        assert [i.tool_name for i in model.requests[1].messages[-2:]] == ["log_visit", "book"]  # type: ignore[union-attr]


async def test_f041_the_group_waits_until_its_last_approval_and_an_answered_one_never_comes_back() -> None:
    desk, model = Desk(), booking("p1", "p2")
    async with open_stage(desk.agent(model)) as stage:
        await stage.send("go")
        await stage.run_all()
        ids = await pending(stage)

        await stage.approve(ids["p1"])
        assert list(await pending(stage)) == ["p2"]
        await stage.run_all()
        assert list(await pending(stage)) == ["p2"]
        state = (await stage.snapshot())["state"]
        assert (state["status"], [w["id"] for w in state["waiting_for"]]) == ("running_tools", [ids["p2"]])

        await stage.approve(ids["p2"])
        await stage.run_all()
        assert len(model.requests) == 2


async def test_f043_an_approval_whose_agent_is_gone_stays_listed_and_fails_closed() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"), name="billing")) as stage:
        await stage.send("go")
        await stage.run_all()
        other = redeployed(stage, desk.agent(booking("r1"), name="billing_v2"))
        ids = await pending(other)

        (listed,) = (await other.snapshot())["pending_interrupts"]
        assert listed["blocked"] == "agent_missing"
        assert "blocked" not in (await stage.snapshot())["pending_interrupts"][0]
        with pytest.raises(RequestConflictError) as caught:
            await other.approve(ids["r1"])
        assert caught.value.code == "agent_missing"
        assert await pending(other) == ids

        assert await other.approve(ids["r1"], approved=False) == {"result": "resolved"}
        await other.run_all()
        assert desk.booked == []
        assert (await other.snapshot())["state"]["status"] == "waiting_for_user_message"


async def test_f043_an_approval_whose_tool_is_gone_is_listed_as_blocked_unless_a_runner_may_know_the_tool() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"))) as stage:
        await stage.send("go")
        await stage.run_all()

        without = redeployed(stage, an_agent(name=stage.deps.agents.default.name))
        with_runner = redeployed(stage, an_agent(name=stage.deps.agents.default.name, runner=StepwiseRunner()))

        assert [i.get("blocked") for i in (await without.snapshot())["pending_interrupts"]] == ["agent_missing"]
        assert [i.get("blocked") for i in (await with_runner.snapshot())["pending_interrupts"]] == [None]


async def test_f043_stopping_works_though_the_agent_is_gone() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"), name="billing")) as stage:
        await stage.send("go")
        await stage.run_all()
        other = redeployed(stage, desk.agent(booking("r1"), name="billing_v2"))

        assert await other.stop() == {"result": "recorded"}

        assert await pending(other) == {}


async def test_f045_an_approval_that_was_withdrawn_is_no_longer_open_and_never_shown_again() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("a1"))) as stage:
        await stage.send("go")
        await stage.run_all()
        interrupt = (await pending(stage))["a1"]
        await stage.stop()

        with pytest.raises(RequestConflictError) as caught:
            await stage.approve(interrupt)

        assert caught.value.code == "not_pending"
        assert (await stage.snapshot())["pending_interrupts"] == []
        settled = [e["payload"] for e in await stage.events() if e["type"] == "interrupt_resolved"]
        assert [(p["interrupt_id"], p["cancellation_reason"]) for p in settled] == [(interrupt, "turn_cancelled")]
        await stage.run_all()
        assert desk.booked == []


async def test_f046_the_first_decision_wins_and_every_later_one_hears_so() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"))) as stage:
        await stage.send("go")
        await stage.run_all()
        interrupt = (await pending(stage))["r1"]

        replies = await asyncio.gather(
            *(stage.approve(interrupt) for _ in range(2)), stage.approve(interrupt, approved=False),
            return_exceptions=True,
        )  # fmt: skip

        assert [r for r in replies if not isinstance(r, Exception)] == [{"result": "resolved"}]
        assert {r.code for r in replies if isinstance(r, RequestError)} == {"not_pending"}
        for message in await stage.run_all():  # the resume message is delivered twice
            await stage.run(message)
        assert desk.booked == ["r1"]


async def test_f046_the_same_decision_with_the_same_key_gets_the_same_answer_again() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"))) as stage:
        await stage.send("go")
        await stage.run_all()
        interrupt = (await pending(stage))["r1"]

        first = await stage.approve(interrupt, idempotency_key="k-1")
        again = await stage.approve(interrupt, idempotency_key="k-1")

        assert first == again == {"result": "resolved"}
        with pytest.raises(RequestConflictError) as caught:
            await stage.approve(interrupt, approved=False, idempotency_key="k-1")
        assert caught.value.code == "idempotency_mismatch"


@pytest.mark.parametrize("decisions", [(False, True), (True, False), (False, False)], ids=str)
async def test_f048_mixed_decisions_go_on_exactly_once_after_the_last(decisions: tuple[bool, bool]) -> None:
    desk, model = Desk(), booking("r1", "r2")
    async with open_stage(desk.agent(model)) as stage:
        await stage.send("go")
        await stage.run_all()
        ids = await pending(stage)

        for room, approved in zip(("r1", "r2"), decisions, strict=True):
            await stage.approve(ids[room], approved=approved)
        await stage.run_all()

        assert desk.booked == [room for room, approved in zip(("r1", "r2"), decisions, strict=True) if approved]
        assert len(model.requests) == 2
        statuses = [item.status for item in model.requests[1].messages[-2:]]  # type: ignore[union-attr]
        assert statuses == ["succeeded" if approved else "rejected" for approved in decisions]


@pytest.mark.parametrize(
    ("message", "text"),
    [("use the test account", f"{texts.DENIED} They wrote: use the test account"), (None, texts.DENIED_DEFAULT)],
)
async def test_f050_a_denial_is_a_result_that_the_model_sees(message: str | None, text: str) -> None:
    desk, model = Desk(), booking("r1")
    async with open_stage(desk.agent(model)) as stage:
        await stage.send("go")
        await stage.run_all()

        await stage.approve((await pending(stage))["r1"], approved=False, message=message)
        await stage.run_all()

        result = model.requests[1].messages[-1]
        assert (result.status, result.output) == ("rejected", text)  # type: ignore[union-attr]
        (shown,) = (await stage.snapshot())["tool_calls"]
        assert (shown["status"], shown["error"], shown["cancellation_reason"]) == ("rejected", text, "denied")


@pytest.mark.parametrize("head_start", range(8))
async def test_f063_an_approval_that_races_with_a_siblings_result_wakes_the_turn_exactly_once(head_start: int) -> None:
    desk, model = Desk(), booking("r1", also=(call("log_visit"),))
    async with open_stage(desk.agent(model)) as stage:
        await stage.send("go")
        await stage.run_next()
        interrupt = (await pending(stage))["r1"]
        sibling = stage.taken()

        async def approve() -> None:
            for _ in range(head_start):
                await asyncio.sleep(0)
            await stage.approve(interrupt)

        await asyncio.gather(stage.run(sibling), approve())
        await stage.run_all()

        assert (desk.visits, desk.booked) == (1, ["r1"])
        assert len(model.requests) == 2
        assert (await stage.event_types())[-1] == "turn_completed"


async def test_f063_an_answer_before_there_is_a_question_is_refused_and_does_no_harm() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"))) as stage:
        await stage.send("go")

        with pytest.raises(NotFoundError):
            await stage.approve("call-2-0")
        await stage.run_all()

        assert len(await pending(stage)) == 1
        assert desk.booked == []


async def test_an_approvals_message_reaches_the_model_and_the_decision_names_its_actor() -> None:
    desk, model = Desk(), booking("r1")
    async with open_stage(desk.agent(model)) as stage:
        await stage.send("go")
        await stage.run_all()

        await stage.approve((await pending(stage))["r1"], message="only this once")
        await stage.run_all()

        assert "only this once" in model.requests[1].messages[-1].output  # type: ignore[union-attr]
        (resolved,) = [e["payload"] for e in await stage.events() if e["type"] == "interrupt_resolved"]
        assert resolved["actor"] == {"issuer": "local", "subject": "local"}
        assert resolved["approved"] is True


@pytest.mark.parametrize("timer_first", [False, True])
async def test_f061_the_deadline_holds_at_the_decision_whether_its_timer_came_or_not(timer_first: bool) -> None:
    desk, model = Desk(), booking("r1")
    agent = desk.agent(model, tool_policies={"book": ToolPolicy(approval_deadline=timedelta(minutes=10))})
    async with open_stage(agent) as stage:
        await stage.send("go")
        await stage.run_all()
        interrupt = (await pending(stage))["r1"]
        await stage.clock.advance(601)
        if timer_first:
            await stage.fire_timers()

        with pytest.raises(RequestConflictError) as caught:
            await stage.approve(interrupt)
        await stage.fire_timers()
        await stage.run_all()

        assert caught.value.code == "deadline_passed"
        assert desk.booked == []
        assert await stage.results() == {"book": ("rejected", texts.APPROVAL_DEADLINE_PASSED)}
        assert (await stage.event_types()).count("interrupt_resolved") == 1


@pytest.mark.parametrize("interrupt_id", ["call-2-1", "call-1-0", "call-99-0", "nonsense", "model-1-0", "x" * 5000])
async def test_an_interrupt_that_never_existed_is_not_found(interrupt_id: str) -> None:
    async with open_stage(Desk().agent(booking("r1"))) as stage:
        await stage.send("go")
        await stage.run_all()

        with pytest.raises(NotFoundError) as caught:
            await stage.approve(interrupt_id)

        assert caught.value.code == "interrupt_not_found"


async def test_a_call_that_needed_no_approval_is_no_interrupt() -> None:
    async with open_stage(Desk().agent(asking_for("log_visit"))) as stage:
        await stage.send("go")
        await stage.run_next()

        with pytest.raises(NotFoundError):
            await stage.approve("call-2-0")


async def test_a_decision_about_other_arguments_than_were_shown_is_refused() -> None:
    desk = Desk()
    async with open_stage(desk.agent(booking("r1"))) as stage:
        await stage.send("go")
        await stage.run_all()
        (interrupt,) = (await stage.snapshot())["pending_interrupts"]

        with pytest.raises(RequestConflictError) as caught:
            await stage.approve(interrupt["interrupt_id"], arguments_hash="0" * 64)
        assert caught.value.code == "arguments_changed"
        await stage.approve(interrupt["interrupt_id"], arguments_hash=interrupt["arguments_hash"])
        await stage.run_all()

        assert desk.booked == ["r1"]


@pytest.mark.parametrize("decision", [{}, {"approved": True, "answer": "yes"}, {"answer": "yes"}, {"answer": " "}])
async def test_the_wrong_kind_of_decision_is_refused(decision: dict[str, Any]) -> None:
    async with open_stage(Desk().agent(booking("r1"))) as stage:
        await stage.send("go")
        await stage.run_all()

        with pytest.raises(InvalidRequestError):
            await stage.service.resolve_interrupt(LOCAL_CALLER, "s-1", "call-2-0", **decision)

        assert len(await pending(stage)) == 1
