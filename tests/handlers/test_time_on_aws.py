"""Deadlines, delays and long steps on the deployment."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.agents.reconnect import ReconnectPolicy
from perdure.agents.tools import function_tool
from perdure.errors import ModelCallError
from perdure.models import ScriptedModel
from perdure.models.base import ModelRequest
from perdure.testing.lambda_harness import Crash, LambdaHarness
from tests.handlers.agents import SESSION, an_agent, results, send, snapshot


@function_tool(effect="non_idempotent_write")
def pay() -> str:
    """Pay."""
    return "paid"


def test_a_deadline_beyond_the_longest_delay_passes_on_the_second_by_a_schedule(harness: LambdaHarness) -> None:
    harness.agents = an_agent(pay, deadline=timedelta(hours=2))
    send(harness, "Pay.")
    harness.settle()
    (interrupt,) = snapshot(harness)["pending_interrupts"]
    scheduled = harness.schedules.pending()

    harness.settle(timedelta(hours=3))

    deadline = datetime.fromisoformat(interrupt["deadline"])
    passed = harness.clock.now() - deadline
    assert len(scheduled) == 1
    assert harness.schedules.pending() == []
    assert timedelta(0) <= passed < timedelta(seconds=2)
    assert results(harness) == [("pay", "rejected")]


def test_a_wait_beyond_the_longest_delay_is_sent_on_and_ends_on_time_also_when_the_gate_was_closed(
    harness: LambdaHarness,
) -> None:
    # U-7, U-13: an hour is four delays of a message, and a pause that ends in it changes nothing.
    asked: list[datetime] = []

    def reply(_: ModelRequest) -> str:
        asked.append(harness.clock.now())
        if len(asked) == 1:
            raise ModelCallError("come back in an hour", kind="rate_limited", retryable=True)
        return "at last"

    policy = ReconnectPolicy(delay=lambda number, error: timedelta(hours=1))
    harness.agents = AgentRegistry([AgentDefinition(name="test", model=ScriptedModel(reply), reconnect=policy)])
    send(harness, "hi")
    harness.settle(timedelta(minutes=20))
    harness.gateway.http("POST", f"{SESSION}/pause", {})
    harness.settle(timedelta(minutes=20))
    harness.gateway.http("POST", f"{SESSION}/resume", {})

    harness.settle(timedelta(hours=1))

    assert len(asked) == 2
    assert timedelta(0) <= asked[1] - asked[0] - timedelta(hours=1) < timedelta(seconds=2)
    assert snapshot(harness)["state"]["status"] == "waiting_for_user_message"


def test_a_short_deadline_needs_no_schedule(harness: LambdaHarness) -> None:
    harness.agents = an_agent(pay, deadline=timedelta(minutes=10))
    send(harness, "Pay.")
    harness.deliver_one()

    assert harness.schedules.pending() == []
    assert [message.queue for message in harness.queues.messages] == ["timers"]

    harness.settle()

    assert results(harness) == [("pay", "rejected")]


def test_a_timer_that_became_a_dead_letter_fires_after_all(harness: LambdaHarness) -> None:
    harness.agents = an_agent(pay, deadline=timedelta(minutes=10))
    send(harness, "Pay.")
    harness.deliver_one()
    (timer,) = harness.queues.messages
    harness.clock.advance(601)

    done = harness.invoke("record_dead_letter", harness.queues.event(timer))

    assert done.answer == {"batchItemFailures": []}
    assert snapshot(harness)["pending_interrupts"] == []


def test_a_decision_takes_its_schedule_away(harness: LambdaHarness) -> None:
    harness.agents = an_agent(pay, deadline=timedelta(hours=2))
    send(harness, "Pay.")
    harness.settle()
    (interrupt,) = snapshot(harness)["pending_interrupts"]

    harness.gateway.http("POST", f"{SESSION}/interrupts/{interrupt['interrupt_id']}", {"approved": True})
    harness.settle()

    assert harness.schedules.pending() == []
    assert results(harness) == [("pay", "succeeded")]


def test_a_timer_whose_schedule_was_lost_is_fired_by_the_sweep(harness: LambdaHarness) -> None:
    harness.agents = an_agent(pay, deadline=timedelta(hours=2))
    send(harness, "Pay.")
    harness.settle()
    name = harness.schedules.pending()[0][1]
    harness.aws.clients.scheduler.delete_schedule(GroupName=harness.aws.schedule_group, Name=name)

    harness.settle(timedelta(hours=3))

    assert results(harness) == [("pay", "rejected")]


def test_a_long_step_whose_handler_dies_late_is_found_as_soon_as_one_that_dies_early(harness: LambdaHarness) -> None:
    died: list[datetime] = []

    @function_tool(effect="read")
    async def think() -> str:
        """Think."""
        if not died:
            await asyncio.sleep(8 * 60)
            died.append(harness.clock.now())
            raise Crash
        return "thought"

    harness.agents = an_agent(think)
    send(harness, "Think.")

    harness.settle()

    assert results(harness) == [("think", "succeeded")]
    answered = datetime.fromisoformat(snapshot(harness)["messages"][-1]["created_at"])
    assert answered - died[0] < timedelta(minutes=4)


def test_a_step_ends_itself_before_its_function_would_be_killed(harness: LambdaHarness) -> None:
    runs: list[datetime] = []

    @function_tool(effect="read")
    async def forever() -> str:
        """Never end."""
        runs.append(harness.clock.now())
        await asyncio.sleep(3600)
        return "never"

    harness.agents = an_agent(forever, tool_timeout=timedelta(hours=2))
    send(harness, "Go.")

    harness.settle(timedelta(hours=3))

    invoked = [done for done in harness.invocations if done.function == "call_tool"]
    assert all(done.error is None and done.took <= timedelta(seconds=870) for done in invoked)
    assert results(harness) == [("forever", "failed")]
    assert snapshot(harness)["state"]["status"] == "waiting_for_user_message"


def test_a_message_that_comes_again_while_its_step_runs_does_not_run_it_twice(harness: LambdaHarness) -> None:
    runs: list[str] = []

    @function_tool(effect="read")
    def look() -> str:
        """Look."""
        runs.append("ran")
        if len(runs) == 1:
            (message,) = [m for m in harness.queues.messages if m.queue == "call-tool"]
            second = harness.invoke("call_tool", harness.queues.event(message))
            assert second.answer == {"batchItemFailures": []}
        return "seen"

    harness.agents = an_agent(look)
    send(harness, "Look.")

    harness.settle()

    assert runs == ["ran"]
    assert results(harness) == [("look", "succeeded")]


def test_a_stop_while_a_tool_runs_ends_the_turn_when_the_tool_has_ended(harness: LambdaHarness) -> None:
    replies = []

    @function_tool(effect="idempotent_write", requires_approval=False)
    def book() -> str:
        """Book."""
        replies.append(harness.gateway.http("POST", f"{SESSION}/stop", {}).body)
        return "booked"

    harness.agents = an_agent(book)
    send(harness, "Book.")

    harness.settle()

    assert replies == [{"result": "recorded"}]
    assert results(harness) == [("book", "succeeded")]
    assert snapshot(harness)["messages"][-1]["role"] == "tool"
    assert snapshot(harness)["state"]["status"] == "waiting_for_user_message"
