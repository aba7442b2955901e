"""Remote work on the deployment: each look at it and each try to stop it is a message to a function of its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from perdure import function_tool
from perdure.agents.tools import ToolContext
from perdure.agents.waiting import TaskPending, ToolTask
from perdure.testing.lambda_harness import LambdaHarness
from tests.handlers.agents import SESSION, an_agent, results, send, snapshot
from tests.handlers.conftest import harness

__all__ = ["harness"]

DONE: set[str] = set()
SEEN: list[tuple[str, str]] = []
"""What the tool's functions were called with, in their order."""


def look(task_id: str, _context: ToolContext) -> str | TaskPending:
    """Look at the work."""
    SEEN.append(("look", task_id))
    return "built" if task_id in DONE else TaskPending()


def stop(task_id: str, _context: ToolContext) -> None:
    """Stop the work."""
    SEEN.append(("stop", task_id))


@function_tool(effect="idempotent_write", poll=look, cancel=stop)
def build() -> ToolTask:
    """Build something elsewhere, looked at every minute."""
    return ToolTask("quick", poll_interval=timedelta(minutes=1))


@function_tool(effect="idempotent_write", poll=look, cancel=stop, name="build")
def build_slowly() -> ToolTask:
    """Build something elsewhere, looked at every hour."""
    return ToolTask("slow", poll_interval=timedelta(hours=1))


@pytest.fixture(autouse=True)
def nothing_done() -> Iterator[None]:
    DONE.clear()
    SEEN.clear()
    yield
    DONE.clear()


def ran(harness: LambdaHarness, function: str) -> list[Any]:
    return [done for done in harness.invocations if done.function == function]


def begun(harness: LambdaHarness, tool: Any) -> None:
    """Let the tool start its work; everything else waits in the queues."""
    harness.agents = an_agent(tool)
    send(harness, "build it")
    for _ in range(2):
        harness.deliver_one()


def test_a_look_is_a_message_until_the_work_is_over(harness: LambdaHarness) -> None:
    begun(harness, build)
    harness.settle(timedelta(minutes=2, seconds=30))
    assert [("look", "quick")] * len(ran(harness, "poll_tool_task")) == SEEN
    assert len(SEEN) >= 2
    assert results(harness) == []

    DONE.add("quick")
    harness.settle(timedelta(minutes=2))

    assert results(harness) == [("build", "succeeded")]
    assert snapshot(harness)["state"]["status"] == "waiting_for_user_message"
    assert len(ran(harness, "call_tool")) == 1, "the tool itself ran once"
    assert ran(harness, "cancel_tool_task") == []


def test_a_look_that_is_further_away_than_a_message_can_wait_comes_in_its_time_and_once(harness: LambdaHarness) -> None:
    begun(harness, build_slowly)
    began = harness.clock.now()

    harness.advance(timedelta(minutes=59))
    assert SEEN == []
    DONE.add("slow")
    harness.settle(timedelta(minutes=3))

    assert SEEN == [("look", "slow")]
    assert results(harness) == [("build", "succeeded")]
    assert harness.clock.now() - began < timedelta(minutes=62)


def test_a_look_whose_message_is_lost_is_sent_again_by_the_sweep(harness: LambdaHarness) -> None:
    begun(harness, build)
    for message in list(harness.queues.messages):
        harness.queues.delete(message)
    DONE.add("quick")

    harness.settle(timedelta(minutes=10))

    assert SEEN == [("look", "quick")]
    assert results(harness) == [("build", "succeeded")]


def test_a_stop_has_the_work_stopped_by_its_own_function_while_the_session_goes_on(harness: LambdaHarness) -> None:
    begun(harness, build)

    assert harness.gateway.http("POST", f"{SESSION}/stop", {}).status == 200
    assert snapshot(harness)["state"]["status"] == "waiting_for_user_message", "nobody waits for the other side"
    harness.settle()

    assert ("stop", "quick") in SEEN
    assert SEEN.count(("stop", "quick")) == len(ran(harness, "cancel_tool_task")) == 1
    assert results(harness) == [("build", "outcome_unknown")], "it was asked to stop; whether it did nobody knows"


def test_a_cancellation_that_no_handler_can_take_does_not_hold_the_session(harness: LambdaHarness) -> None:
    begun(harness, build)
    harness.gateway.http("POST", f"{SESSION}/stop", {})

    def broken(function: str, _event: Any) -> None:
        if function == "cancel_tool_task":
            raise RuntimeError("can't be imported")

    harness.before_invocation = broken
    harness.settle(timedelta(hours=3))
    harness.before_invocation = lambda _function, _event: None
    send(harness, "build it")
    DONE.add("quick")
    harness.settle()

    assert results(harness)[-1] == ("build", "succeeded")
