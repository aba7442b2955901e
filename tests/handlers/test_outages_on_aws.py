"""Calls to AWS that give no answer at all, after every try of the SDK: what that costs, in time and in attempts.

What a function has to know before it can do anything it asks for again by itself. Only a message that was never sent
waits for the sweep.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from perdure import function_tool
from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.core.history import ToolResultItem
from perdure.models import ScriptedModel
from perdure.models.base import ModelRequest
from perdure.models.scripted import Reply, call
from perdure.testing.lambda_harness import SWEEP_EVERY, LambdaHarness
from tests.audit.roles import clients_of
from tests.handlers.agents import SESSION, an_agent, results, send, snapshot
from tests.handlers.conftest import harness
from tests.handlers.test_viewers_on_aws import LOOK_UP, a_viewer

__all__ = ["harness"]

Says = Callable[[str, str, dict[str, Any]], bool]
SIBLINGS = 6
"""So many calls at once make their outcomes known before they commit them together."""

calls: list[int] = []


@function_tool(effect="non_idempotent_write")
def refund() -> str:
    """Pay back."""
    calls.append(1)
    return "paid"


@function_tool(effect="non_idempotent_write", requires_approval=False)
def charge(number: int) -> str:
    """Charge once."""
    calls.append(number)
    return f"charged {number}"


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


@contextlib.contextmanager
def silent(harness: LambdaHarness, says: Says) -> Iterator[list[tuple[str, str]]]:
    """Let calls of functions go unanswered, and collect which. `says` gets function, operation and parameters."""
    met: list[tuple[str, str]] = []

    def asked(params: dict[str, Any], model: Any, **_: Any) -> None:
        function = harness.running
        if function is not None and says(function, model.name, params):
            met.append((function, model.name))
            raise ReadTimeoutError(endpoint_url="nowhere")

    emitters = [client.meta.events for client in clients_of(harness.aws.clients)]
    for emitter in emitters:
        emitter.register("provide-client-params.*.*", asked)
    try:
        yield met
    finally:
        for emitter in emitters:
            emitter.unregister("provide-client-params.*.*", asked)


def took(harness: LambdaHarness, function: str) -> list[float]:
    return [done.took.total_seconds() for done in harness.invocations if done.function == function]


@pytest.mark.parametrize("operation", ["PutItem", "GetItem", "Query"], ids=["claim", "load", "history"])
def test_a_step_whose_start_meets_an_outage_goes_on_when_it_is_over(harness: LambdaHarness, operation: str) -> None:
    harness.agents = an_agent(refund)
    for _ in range(3):
        send(harness, "hello" * 600)  # enough for the log; HEAD alone does not hold it
        harness.settle()
        harness.gateway.http("POST", f"{SESSION}/stop", {})
        harness.settle()
    harness.cold_start()
    send(harness, "again")
    began = harness.clock.now()
    left = [2]

    def says(function: str, asked: str, params: dict[str, Any]) -> bool:
        if function != "run_model" or asked != operation or not left[0]:
            return False
        if "BETWEEN" not in params.get("KeyConditionExpression", "BETWEEN"):
            return False  # no range of the log
        left[0] -= 1
        return True

    with silent(harness, says) as met:
        done = harness.deliver_one()

    assert met == [("run_model", operation)] * 2
    assert done is not None
    assert done.answer == {"batchItemFailures": []}
    assert snapshot(harness)["pending_interrupts"], "the step has run"
    assert harness.clock.now() - began < timedelta(seconds=5)


def test_an_outage_that_does_not_end_leaves_the_step_to_the_sweep(harness: LambdaHarness) -> None:
    harness.agents = an_agent(refund)
    send(harness, "hello")

    with silent(harness, lambda function, asked, _: (function, asked) == ("run_model", "PutItem")):
        done = harness.deliver_one()
    assert done is not None
    assert done.answer is not None
    assert len(done.answer["batchItemFailures"]) == 1

    harness.settle()
    assert snapshot(harness)["pending_interrupts"]
    assert len(took(harness, "sweep")) >= 1


def test_an_outcome_of_a_write_among_many_is_kept_through_an_outage(harness: LambdaHarness) -> None:
    def script(request: ModelRequest) -> Reply:
        if isinstance(request.messages[-1], ToolResultItem):
            return Reply(text="done")
        return Reply(calls=tuple(call("charge", number=number) for number in range(SIBLINGS)))

    harness.agents = AgentRegistry([AgentDefinition(name="test", model=ScriptedModel(script), tools=[charge])])
    send(harness, "charge")
    left = [3]

    def says(_function: str, asked: str, params: dict[str, Any]) -> bool:
        if asked != "PutItem" or not left[0] or not params["Item"]["sk"]["S"].startswith("RESULT#"):
            return False
        left[0] -= 1
        return True

    with silent(harness, says) as met:
        harness.settle()

    assert met == [("call_single_attempt_tool", "PutItem")] * 3
    assert results(harness) == [("charge", "succeeded")] * SIBLINGS
    assert sorted(calls) == list(range(SIBLINGS))


def test_when_every_kind_of_call_goes_unanswered_once_only_the_message_that_was_not_sent_waits(
    harness: LambdaHarness,
) -> None:
    """The tour of the end-to-end tests in which every call fails three times: as often as the SDK asks."""
    harness.agents = an_agent(refund, deadline=timedelta(hours=2))
    seen: set[str] = set()

    def says(_function: str, asked: str, _params: dict[str, Any]) -> bool:
        first = asked not in seen
        seen.add(asked)
        return first

    began = harness.clock.now()
    with silent(harness, says) as met:
        send(harness, "hello", key="ask")
        while not (waiting := snapshot(harness)["pending_interrupts"]):
            harness._do_next() if harness.queues.next_message() else harness.advance(timedelta(seconds=1))
        asked_after = harness.clock.now() - began
        approval = f"{SESSION}/interrupts/{waiting[0]['interrupt_id']}"
        assert harness.gateway.http("POST", approval, {"approved": True}, key="yes").status == 200
        harness.settle()

    assert {operation for _, operation in met} >= {
        "GetItem",
        "Query",
        "PutItem",
        "UpdateItem",
        "SendMessage",
        "CreateSchedule",
        "DeleteSchedule",
    }
    assert asked_after < SWEEP_EVERY + timedelta(seconds=10)
    assert results(harness) == [("refund", "succeeded")]
    assert calls == [1]


def test_a_viewer_whose_first_frame_was_lost_is_told_with_its_next_ping_that_it_is_attached(
    harness: LambdaHarness,
) -> None:
    """Where nothing more happens no commit makes up for it, and its client drops what it is sent until then."""
    send(harness, LOOK_UP)
    harness.settle()
    viewer = a_viewer(harness)
    end = snapshot(harness)["cursor"]
    lost = iter([ReadTimeoutError(endpoint_url="https://socket.example")])

    def lose(_connection_id: str) -> None:
        for error in lost:
            raise error

    harness.gateway.during_post = lose
    harness.gateway.send(viewer, {"type": "attach", "session_id": "case-42", "after": end})
    before = [frame["type"] for frame in viewer.frames]
    harness.gateway.send(viewer, {"type": "ping"})

    assert before == []
    assert [frame["type"] for frame in viewer.frames] == ["attached", "pong"]


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "attach", "session_id": "case-42", "after": "broken"},
        {"type": "resume", "requestId": "r-1", "id": "case-42"},
        {"type": "command", "request_id": "r-1", "operation": "no_such_operation"},
        {"type": "command", "request_id": "r-1", "operation": "list_messages", "session_id": "case-42"},
    ],
)
def test_a_connection_on_which_an_answer_was_lost_ends_so_that_nobody_waits_for_it(
    harness: LambdaHarness, frame: dict[str, Any]
) -> None:
    """Only what API Gateway itself passes on, a small answer to a frame that has one, can't be lost."""
    send(harness, "x" * 40_000)
    harness.settle()
    viewer = a_viewer(harness)
    posts: list[str] = []

    def lose(connection_id: str) -> None:
        posts.append(connection_id)
        raise ReadTimeoutError(endpoint_url="https://socket.example")

    harness.gateway.during_post = lose
    answer = harness.gateway.send(viewer, frame)

    assert (answer == {}, viewer.closed) == (bool(posts), bool(posts))
