"""The catalogue: what a session lives through, each with an agent, a script of the user, and what may differ.

A new feature adds its scenario here, and is swept from then on. A scenario's clean run has to be the same whatever
the seed, apart from the order of what ends at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from perdure.core.limits import MAX_PARALLEL_WRITES
from perdure.testing.simulation.agents import IDEMPOTENT, ONCE, READ, agent, failing_model
from perdure.testing.simulation.control_scenarios import CONTROL
from perdure.testing.simulation.ending import Ending, differences
from perdure.testing.simulation.ending_scenarios import ENDINGS
from perdure.testing.simulation.invariants import check
from perdure.testing.simulation.scenario import Scenario
from perdure.testing.simulation.schedule_scenarios import SCHEDULES
from perdure.testing.simulation.wait_scenarios import WAITS
from perdure.testing.simulation.world import User


async def _ask(user: User) -> None:
    await user.send("Where is my order?")
    await user.settled()


async def _ask_twice(user: User) -> None:
    await _ask(user)
    await user.send("And now?")
    await user.settled()


async def _approve(user: User) -> None:
    await _ask(user)
    await user.approve()
    await user.settled()


async def _reject(user: User) -> None:
    await _ask(user)
    await user.approve(False)
    await user.settled()


async def _approve_late(user: User) -> None:
    """Approve after the first deadline and before the one that replaced it."""
    await user.send("Where is my order?")
    while not await user.postpone_deadlines(timedelta(minutes=20)):
        await user.wait(timedelta(minutes=1))
    await user.wait(timedelta(minutes=25))
    check(await user.approve() == "resolved", "the old deadline counted after it was moved")
    await user.settled()


async def _let_expire(user: User) -> None:
    await _ask(user)
    await user.wait(timedelta(minutes=15))
    await user.settled()


async def _queue(user: User) -> None:
    await user.send("Where is my order?")
    await user.when("in-look_up")
    await user.send("And one more thing.")
    await user.settled()


async def _resend(user: User) -> None:
    await user.send("Where is my order?", key="same")
    await user.settled()
    await user.send("Where is my order?", key="same")
    await user.send("And now?", key="other")
    await user.send("Where is my order?", key="same")
    await user.settled()


def _stop_at(moment: str) -> Callable[[User], Awaitable[None]]:
    async def script(user: User) -> None:
        await user.send("Where is my order?")
        await user.when(moment)
        await user.stop()
        await user.settled()
        await user.send("Where is my order?")
        await user.settled()

    return script


async def _stop_waiting(user: User) -> None:
    await _ask(user)
    await user.stop()
    await user.settled()


def _stopped(clean: Ending, run: Ending, may_be_unknown: bool) -> list[str]:
    """A stop may come too late, or before there is anything to keep: then the turn ends in another legal way."""
    found = differences(clean, run, may_be_unknown=may_be_unknown)
    if not found:
        return []
    if run.work or run.pending or run.waiting or run.error:
        return found
    if len(run.turns) != len(clean.turns) or any(t not in ("turn_completed", "turn_cancelled") for t in run.turns):
        return found
    legal = {"succeeded", "rejected", "outcome_unknown"} if may_be_unknown else {"succeeded", "rejected"}
    odd = {status for _, _, status in run.calls.values()} - legal
    return [f"a stopped turn has calls that are {odd}"] if odd else []


def _given_up(clean: Ending, run: Ending, may_be_unknown: bool) -> list[str]:
    """A call may have been given up before it began; then it says so, and the turn goes on."""
    found = differences(clean, run, may_be_unknown=may_be_unknown)
    statuses = {status for _, _, status in run.calls.values()}
    legal = {"succeeded", "failed", *(["outcome_unknown"] if may_be_unknown else [])}
    as_usual = (run.turns, run.work, run.pending, run.waiting) == (clean.turns, (), (), ())
    return [] if as_usual and statuses <= legal else found


_T1 = agent(("look_up", READ))

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(name="t1", about="one message, one read, one answer", agent=_T1, script=_ask, viewer=True),
    Scenario(name="sink", about="t1, whose events are delivered to a sink", agent=_T1, script=_ask, sink=True),
    Scenario(name="t1-cold", about="t1, each step through the queue", agent=_T1, script=_ask, hot=False),
    Scenario(name="answer", about="two turns without a tool", agent=agent(), script=_ask_twice),
    Scenario(name="t1-inline", about="t1 in one function", agent=agent(("look_up", READ), inline=True), script=_ask),
    Scenario(
        name="two-reads", about="two parallel reads", agent=agent(("look_up", READ), ("count", READ)), script=_ask
    ),
    Scenario(
        name="two-writes",
        about="two parallel idempotent writes",
        agent=agent(("save", IDEMPOTENT), ("mark", IDEMPOTENT)),
        script=_ask,
    ),
    Scenario(
        name="eight-tools",
        about="eight parallel calls: four reads, two idempotent writes, two payments",
        agent=agent(("look_up", READ), ("count", READ), ("save", IDEMPOTENT), ("pay", ONCE), calls=2),
        script=_ask,
        large=True,
    ),
    Scenario(
        name="many-writes",
        about=f"{MAX_PARALLEL_WRITES + 2} parallel writes, of which {MAX_PARALLEL_WRITES} run at a time",
        agent=agent(("save", IDEMPOTENT), calls=MAX_PARALLEL_WRITES + 2),
        script=_ask,
        large=True,
    ),
    Scenario(name="payment", about="a call that runs at most once", agent=agent(("pay", ONCE)), script=_ask),
    Scenario(
        name="payment-inline",
        about="a call that runs at most once, in the model's own function",
        agent=agent(("pay", ONCE), inline=True),
        script=_ask,
    ),
    Scenario(
        name="payment-cold",
        about="payment, each step through the queue",
        agent=agent(("pay", ONCE)),
        script=_ask,
        hot=False,
    ),
    Scenario(
        name="long-payment",
        about="a call that runs longer than a lease is good for",
        agent=agent(("pay", ONCE), tool_takes=200.0),
        script=_ask,
        large=True,
    ),
    Scenario(
        name="checkpoints",
        about="a write that saves where it is, and goes on from there when its worker died",
        agent=agent(("save", IDEMPOTENT), pieces=2),
        script=_ask,
    ),
    Scenario(
        name="approved",
        about="a payment that a person approves",
        agent=agent(("pay", ONCE), asks=True),
        script=_approve,
    ),
    Scenario(
        name="rejected", about="a payment that a person rejects", agent=agent(("pay", ONCE), asks=True), script=_reject
    ),
    Scenario(
        name="expired",
        about="a payment that nobody decides on in time",
        agent=agent(("pay", ONCE), asks=True, deadline=timedelta(minutes=3)),
        script=_let_expire,
    ),
    Scenario(
        name="moved-deadline",
        about="a payment whose deadline is moved, and that is approved after the old one",
        agent=agent(("pay", ONCE), asks=True, deadline=timedelta(minutes=20)),
        script=_approve_late,
    ),
    Scenario(
        name="two-approvals",
        about="two payments that a person approves one after the other",
        agent=agent(("pay", ONCE), asks=True, calls=2),
        script=_approve,
        large=True,
    ),
    Scenario(
        name="model-retry",
        about="a provider that fails twice and then answers",
        agent=failing_model(times=2, retryable=True),
        script=_ask,
    ),
    Scenario(
        name="model-error",
        about="a provider that refuses the request",
        agent=failing_model(times=10**6, retryable=False),
        script=_ask,
    ),
    Scenario(
        name="model-exhausted",
        about="a provider that never answers",
        agent=failing_model(times=10**6, retryable=True),
        script=_ask,
    ),
    Scenario(
        name="policy-stop",
        about="a stop policy that ends the turn behind its tool",
        agent=agent(("look_up", READ), stops=True),
        script=_ask,
    ),
    Scenario(
        name="not-accepted",
        about="an answer that the agent's check does not accept",
        agent=agent(("look_up", READ), accepts=False),
        script=_ask,
    ),
    Scenario(
        name="queued",
        about="a message that comes in mid-turn",
        agent=agent(("look_up", READ), tool_takes=5.0),
        script=_queue,
    ),
    Scenario(
        name="stop-in-model",
        about="a stop while the model works, and another turn",
        agent=agent(("look_up", READ), model_takes=10.0),
        script=_stop_at("in-model"),
        compare=_stopped,
    ),
    Scenario(
        name="stop-in-read",
        about="a stop while a read runs, and another turn",
        agent=agent(("look_up", READ), tool_takes=10.0),
        script=_stop_at("in-look_up"),
        compare=_stopped,
    ),
    Scenario(
        name="stop-in-payment",
        about="a stop while a payment runs, and another turn",
        agent=agent(("pay", ONCE), tool_takes=10.0),
        script=_stop_at("in-pay"),
        compare=_stopped,
    ),
    Scenario(
        name="stop-in-approval",
        about="a stop while a person is awaited",
        agent=agent(("pay", ONCE), asks=True, deadline=timedelta(days=1)),
        script=_stop_waiting,
        compare=_stopped,
    ),
    Scenario(
        name="large-output",
        about="an output that needs a place of its own",
        agent=agent(("look_up", READ), ("save", IDEMPOTENT), output="0123456789" * 1_000),
        script=_ask,
    ),
    Scenario(
        name="huge-output",
        about="an output that goes to S3",
        agent=agent(("look_up", READ), output="0123456789" * 40_000),
        script=_ask,
    ),
    Scenario(
        name="dead-letter",
        about="a read of whose message a copy becomes a dead letter",
        agent=_T1,
        script=_ask,
        compare=_given_up,
        hot=False,
        given_up=True,
    ),
    Scenario(name="resend", about="a message that is sent again with its key", agent=_T1, script=_resend, large=True),
    *CONTROL,
    *ENDINGS,
    *WAITS,
    *SCHEDULES,
)

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
