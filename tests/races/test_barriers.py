"""The races of real life, call by call, on the real adapters (spec TEST-05).

Each runs in orders drawn at random, in lockstep (nobody commits before all are about to) and all at once. What holds is
the same in all of them: one winner, a clear word to the loser, nothing lost and nothing twice.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from perdure import ToolContext, ToolPolicy, function_tool
from perdure.agents.definition import AgentDefinition
from perdure.core.limits import LEASE_DURATION, LEASE_GRACE, START_LEASE
from perdure.errors import RequestConflictError
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results, user_texts
from perdure.service import LOCAL_CALLER
from perdure.steps.call_tool import call_tool
from perdure.steps.recover import sweep_session
from perdure.steps.run_model import run_model
from perdure.steps.waking import fire_timer
from perdure.testing.barriers import Order, in_order
from perdure.testing.fixtures import SESSION
from tests.races.conftest import ORDERS
from tests.races.rig import Rig, open_rig
from tests.unit.steps.builders import an_agent, asking_for

pytestmark = pytest.mark.slow


class Bodies:
    """What the tools really did."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def tool(self, effect: Any, name: str = "work", *, requires_approval: bool = False) -> Any:
        @function_tool(effect=effect, name=name, requires_approval=requires_approval)
        async def body(context: ToolContext) -> str:
            self.ran.append(context.tool_call_id)
            return "ok"

        return body

    def numbered(self) -> Any:
        @function_tool(effect="read", name="work")
        async def body(context: ToolContext, n: int) -> str:
            self.ran.append(context.tool_call_id)
            return f"result {n}"

        return body


async def refund_awaiting_approval(rig: Rig) -> str:
    """Bring the session to a refund that awaits a person; returns its id."""
    await rig.stage.send("refund order 7")
    await rig.stage.run_all()
    (interrupt,) = (await rig.stage.snapshot())["pending_interrupts"]
    return str(interrupt["interrupt_id"])


def refund_agent(bodies: Bodies) -> AgentDefinition:
    policy = ToolPolicy(approval_deadline=timedelta(hours=1))
    refund = bodies.tool("non_idempotent_write", "refund", requires_approval=True)
    return an_agent(refund, model=asking_for("refund"), tool_policies={"refund": policy})


async def test_of_two_decisions_on_one_approval_the_first_holds_and_the_second_is_told(
    adapter: str, order: Order
) -> None:
    bodies = Bodies()
    async with open_rig(adapter, refund_agent(bodies)) as rig:
        refund = await refund_awaiting_approval(rig)

        for name, approved in (("anna", True), ("bert", False)):
            rig.race.start(name, rig.service(name).resolve_interrupt(LOCAL_CALLER, "s-1", refund, approved=approved))
        outcomes = await rig.race.run(order)
        await rig.finish()

        (late,) = [name for name, outcome in outcomes.items() if isinstance(outcome, RequestConflictError)]
        assert outcomes[late].code == "not_pending"
        approved = late == "bert"
        assert (await rig.stage.results())["refund"][0] == ("succeeded" if approved else "rejected")
        assert len(bodies.ran) == approved


async def test_an_approval_and_its_deadline_never_both_hold(adapter: str, order: Order) -> None:
    bodies = Bodies()
    async with open_rig(adapter, refund_agent(bodies)) as rig:
        refund = await refund_awaiting_approval(rig)
        ((_, timer),) = rig.stage.timers.pending
        await rig.stage.clock.advance(3600)

        rig.race.start("anna", rig.service("anna").resolve_interrupt(LOCAL_CALLER, "s-1", refund, approved=True))
        rig.race.start("timer", fire_timer(rig.worker("timer"), SESSION, timer.timer_id, timer.fence))
        outcomes = await rig.race.run(order)
        await rig.finish()

        refused = isinstance(outcomes["anna"], RequestConflictError)
        assert outcomes["timer"] is None
        assert refused or outcomes["anna"] == {"result": "resolved"}
        assert (await rig.stage.results())["refund"][0] == ("rejected" if refused else "succeeded")
        assert len(bodies.ran) == (not refused)


async def test_a_stop_and_the_final_answer_end_the_turn_once(adapter: str, order: Order) -> None:
    async with open_rig(adapter, an_agent()) as rig:
        await rig.stage.send("hello")
        message = rig.stage.taken()

        rig.race.start("worker", run_model(rig.worker("worker"), message))
        rig.race.start("anna", rig.service("anna").stop(LOCAL_CALLER, "s-1"))
        outcomes = await rig.race.run(order)
        await rig.finish()

        assert not [outcome for outcome in outcomes.values() if isinstance(outcome, Exception)]
        ends = [event for event in await rig.stage.event_types() if event.startswith("turn_c")]
        assert ends in (["turn_completed"], ["turn_cancelled"])
        said = [text for role, text in await rig.stage.transcript() if role == "assistant"]
        assert said in ([], ["Hello!"])
        assert said or ends == ["turn_cancelled"]


async def test_two_workers_with_one_message_run_the_model_once(adapter: str, order: Order) -> None:
    model = ScriptedModel(lambda _: "Hello!")
    async with open_rig(adapter, an_agent(model=model)) as rig:
        await rig.stage.send("hello")
        message = rig.stage.taken()

        for name in ("anna", "bert"):
            rig.race.start(name, run_model(rig.worker(name), message))
        await rig.race.run(order)
        await rig.finish()

        assert len(model.requests) == 1
        assert await rig.stage.transcript() == [("user", "hello"), ("assistant", "Hello!")]


@pytest.mark.parametrize("effect", ["read", "idempotent_write", "non_idempotent_write"])
async def test_two_workers_with_one_message_run_the_tool_once(adapter: str, order: Order, effect: str) -> None:
    bodies = Bodies()
    async with open_rig(adapter, an_agent(bodies.tool(effect), model=asking_for("work"))) as rig:
        await rig.stage.send("go")
        await rig.stage.run_next()
        message = rig.stage.taken()

        for name in ("anna", "bert"):
            rig.race.start(name, call_tool(rig.worker(name), message))
        await rig.race.run(order)
        await rig.finish()

        assert len(bodies.ran) == 1
        assert (await rig.stage.results())["work"][0] == "succeeded"


async def test_a_sweep_beside_a_live_worker_takes_nothing_from_it(adapter: str, order: Order) -> None:
    bodies = Bodies()
    async with open_rig(adapter, an_agent(bodies.tool("read"), model=asking_for("work"))) as rig:
        await rig.stage.send("go")
        await rig.stage.run_next()
        message = rig.stage.taken()
        await rig.stage.clock.advance(START_LEASE.total_seconds())  # overdue, but its worker comes just now

        rig.race.start("worker", call_tool(rig.worker("worker"), message))
        rig.race.start("sweep", sweep_session(rig.worker("sweep"), SESSION))
        rig.race.start("sweep 2", sweep_session(rig.worker("sweep 2"), SESSION))
        await rig.race.run(order)
        await rig.finish()

        assert len(bodies.ran) == 1
        assert (await rig.stage.results())["work"][0] == "succeeded"


async def test_a_sweep_and_a_worker_that_wakes_from_the_dead_run_a_write_once_at_most(
    adapter: str, order: Order
) -> None:
    bodies = Bodies()
    async with open_rig(adapter, an_agent(bodies.tool("non_idempotent_write"), model=asking_for("work"))) as rig:
        await rig.stage.send("go")
        await rig.stage.run_next()
        message = rig.stage.taken()
        rig.race.start("worker", call_tool(rig.worker("worker"), message))
        await rig.race.through("worker", "leases.claim")
        await rig.stage.clock.advance((LEASE_DURATION + LEASE_GRACE).total_seconds())

        rig.race.start("sweep", sweep_session(rig.worker("sweep"), SESSION))
        await rig.race.run(order)
        await rig.finish()

        status = (await rig.stage.results())["work"][0]
        assert (status, len(bodies.ran)) in (("succeeded", 1), ("outcome_unknown", 1), ("outcome_unknown", 0))


async def test_a_message_that_comes_as_the_turn_ends_gets_its_own_turn(adapter: str, order: Order) -> None:
    model = ScriptedModel(lambda request: f"answer {len(user_texts(request))}")
    async with open_rig(adapter, an_agent(model=model)) as rig:
        await rig.stage.send("one")
        message = rig.stage.taken()

        rig.race.start("worker", run_model(rig.worker("worker"), message))
        for name in ("anna", "bert"):
            rig.race.start(name, rig.service(name).send_input(LOCAL_CALLER, "s-1", text=name))
        await rig.race.run(order)
        await rig.finish()

        transcript = await rig.stage.transcript()
        assert transcript[:2] == [("user", "one"), ("assistant", "answer 1")]
        assert [role for role, _ in transcript] == ["user", "assistant"] * 3
        assert sorted(text for role, text in transcript[2:] if role == "user") == ["anna", "bert"]


async def test_twenty_sends_with_one_key_are_one_message(adapter: str, order: Order) -> None:
    async with open_rig(adapter, an_agent()) as rig:
        for number in range(20):
            name = f"sender-{number}"
            sending = rig.service(name).send_input(LOCAL_CALLER, "s-1", text="hello", idempotency_key="k-1")
            rig.race.start(name, sending)
        outcomes = await rig.race.run(order)
        await rig.finish()

        assert Counter(reply["duplicate"] for reply in outcomes.values()) == {False: 1, True: 19}
        assert len({(reply["message_id"], reply["turn_id"]) for reply in outcomes.values()}) == 1
        assert await rig.stage.transcript() == [("user", "hello"), ("assistant", "Hello!")]
        assert max(rig.race.trace.lost().values(), default=0) <= 1


async def test_twenty_messages_at_once_on_aws_all_hold_and_none_loses_race_after_race(order: Order) -> None:
    async with open_rig("dynamodb", an_agent()) as rig:
        for number in range(20):
            name = f"sender-{number}"
            rig.race.start(name, rig.service(name).send_input(LOCAL_CALLER, "s-1", text=name))
        outcomes = await rig.race.run(order)
        lost = rig.race.trace.lost()
        await rig.finish()

        assert not [outcome for outcome in outcomes.values() if isinstance(outcome, Exception)]
        said = [text for role, text in await rig.stage.transcript() if role == "user"]
        assert sorted(said) == sorted(outcomes)
        assert max(lost.values(), default=0) <= 3


async def test_a_late_rejection_loses_to_an_approval_exactly_as_the_calls_say(adapter: str) -> None:
    bodies = Bodies()
    async with open_rig(adapter, refund_agent(bodies)) as rig:
        refund = await refund_awaiting_approval(rig)
        rig.race.start("anna", rig.service("anna").resolve_interrupt(LOCAL_CALLER, "s-1", refund, approved=True))
        rig.race.start("bert", rig.service("bert").resolve_interrupt(LOCAL_CALLER, "s-1", refund, approved=False))

        order = in_order("anna store.load", "bert store.load", "anna store.commit", "bert store.commit")
        outcomes = await rig.race.run(order)

        trace = rig.race.trace
        assert trace.precedes(trace.find("bert", "store.load"), trace.find("anna", "store.commit"))
        assert trace.precedes(trace.find("anna", "store.commit"), trace.find("bert", "store.commit"))
        assert trace.find("bert", "store.commit").error == "StaleSessionError"
        assert outcomes["anna"] == {"result": "resolved"}
        assert isinstance(outcomes["bert"], RequestConflictError)
        await rig.finish()


async def a_race_of_results(rig: Rig, many: int, order: Order) -> dict[str, Any]:
    """Have this many tool calls of one response end at once, each in a worker of its own."""
    await rig.stage.send("go")
    await rig.stage.run_next()
    for number in range(many):
        rig.race.start(f"worker-{number}", call_tool(rig.worker(f"worker-{number}"), rig.stage.taken()))
    return await rig.race.run(order)


def asking_for_many(many: int) -> ScriptedModel:
    calls = tuple(call("work", n=number) for number in range(many))
    return ScriptedModel(lambda request: "done" if tool_results(request) else Reply(calls=calls))


async def test_eight_results_at_once_all_hold(adapter: str, order: Order) -> None:
    bodies = Bodies()
    async with open_rig(adapter, an_agent(bodies.numbered(), model=asking_for_many(8))) as rig:
        outcomes = await a_race_of_results(rig, 8, order)
        await rig.finish()

        assert list(outcomes.values()) == [None] * 8
        assert len(bodies.ran) == len(set(bodies.ran)) == 8
        assert max(rig.race.trace.lost().values(), default=0) <= 1


@pytest.mark.parametrize(
    ("adapter", "name", "most"),
    [
        ("sqlite", "lockstep", 0),
        ("sqlite", "together", 0),
        ("embedded", "together", 1),
        ("dynamodb", "seed-0", 1),
        ("dynamodb", "lockstep", 1),
        ("dynamodb", "together", 1),
    ],
)
async def test_x14_sixty_four_results_at_once_all_hold_with_bounded_retries(adapter: str, name: str, most: int) -> None:
    bodies = Bodies()
    async with open_rig(adapter, an_agent(bodies.numbered(), model=asking_for_many(64))) as rig:
        outcomes = await a_race_of_results(rig, 64, ORDERS[name]())
        lost = rig.race.trace.lost()
        await rig.finish()

        assert list(outcomes.values()) == [None] * 64
        assert len(bodies.ran) == len(set(bodies.ran)) == 64
        assert max(lost.values(), default=0) <= most
