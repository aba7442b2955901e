"""What goes wrong with queues, functions and the front door (field cases F100 to F114), on the real handlers over moto.

Most cases of this group are held where the code is: F103 and F104 in `tests/handlers`, F109 and F111 in
`tests/unit/aws`. Here are those that need the whole way.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from perdure import function_tool
from perdure.errors import StoreUnavailableError
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.streams.parts import MAX_FRAME_BYTES
from perdure.testing.lambda_harness import Crash, LambdaHarness
from tests.field.conftest import Deploy, a_viewer
from tests.handlers.agents import SESSION, results, send, snapshot
from tests.unit.steps.builders import an_agent, asking_for

SENT = "provide-client-params.sqs.SendMessage"


def bodies_sent(harness: LambdaHarness) -> list[str]:
    """Return a list to which the body of every queue message is added from now on."""
    bodies: list[str] = []
    harness.aws.clients.sqs.meta.events.register(SENT, lambda params, **_: bodies.append(params["MessageBody"]))
    return bodies


def test_f100_a_message_of_900_kilobytes_travels_as_ids(deploy: Deploy) -> None:
    model = ScriptedModel(lambda _: "read")
    harness = deploy(an_agent(model=model))
    bodies = bodies_sent(harness)
    large = "ab c" * (900 * 256)

    send(harness, large)
    harness.settle()

    assert [item.text for item in model.requests[0].messages if hasattr(item, "text")] == [large]
    assert len(bodies) == 1
    assert len(bodies[0]) < 1024
    assert "ab c" not in bodies[0]


def test_f100_ten_calls_at_once_are_ten_messages_and_no_batch_that_could_be_too_large(deploy: Deploy) -> None:
    @function_tool(effect="read")
    def search(text: str) -> str:
        return "found"

    calls = tuple(call("search", text="x" * 40_000) for _ in range(10))
    model = ScriptedModel(lambda request: "done" if tool_results(request) else Reply(calls=calls))
    harness = deploy(an_agent(search, model=model))
    bodies, batches = bodies_sent(harness), list[Any]()
    harness.aws.clients.sqs.meta.events.register(
        "provide-client-params.sqs.SendMessageBatch", lambda params, **_: batches.append(params)
    )

    send(harness, "Search.")
    harness.settle()

    assert len(results(harness)) == 10
    assert len([body for body in bodies if "call_tool" in body]) == 10
    assert max(map(len, bodies)) < 1024
    assert batches == []


def test_f100_a_send_that_fails_leaves_no_step_that_nobody_sends(deploy: Deploy) -> None:
    harness = deploy(an_agent(model=ScriptedModel(lambda _: "here")))
    failures = iter([True])

    def fail(**_: Any) -> None:
        if next(failures, False):
            raise StoreUnavailableError("the queue gave no answer")

    harness.aws.clients.sqs.meta.events.register(SENT, fail)

    reply = harness.gateway.http("POST", f"{SESSION}/inputs", {"text": "Hello?"})
    waiting = len(harness.queues.messages)
    harness.settle()

    assert reply.status == 202
    assert waiting == 0
    assert snapshot(harness)["messages"][-1]["parts"][0]["text"] == "here"


def test_f101_each_message_is_a_batch_of_its_own_so_none_fails_with_another(deploy: Deploy) -> None:
    @function_tool(effect="read")
    def fine() -> str:
        return "fine"

    @function_tool(effect="read")
    def broken() -> str:
        return "fine, too"

    harness = deploy(an_agent(fine, broken, model=asking_for("broken", "fine")))
    failed: list[str] = []

    def lose_the_first_tool(function: str, event: dict[str, Any]) -> None:
        if function == "call_tool" and not failed:
            failed.append(event["Records"][0]["messageId"])
            raise Crash

    harness.before_invocation = lose_the_first_tool

    send(harness, "Both.")
    harness.settle()

    batches = [len(done.event["Records"]) for done in harness.invocations if done.function == "call_tool"]
    assert set(batches) == {1}
    assert sorted(results(harness)) == [("broken", "succeeded"), ("fine", "succeeded")]


def test_f106_a_function_that_dies_behind_the_effect_repeats_the_search_and_not_the_payment(deploy: Deploy) -> None:
    paid: list[str] = []
    searched: list[str] = []

    @function_tool(effect="non_idempotent_write", requires_approval=False)
    def pay_invoice() -> str:
        paid.append("invoice")
        if len(paid) == 1:
            raise Crash
        return "paid"

    @function_tool(effect="read")
    def search() -> str:
        searched.append("search")
        if len(searched) == 1:
            raise Crash
        return "found"

    harness = deploy(an_agent(pay_invoice, search, model=asking_for("pay_invoice", "search")))

    send(harness, "Pay it, and search.")
    harness.settle()

    assert len(paid) == 1
    assert len(searched) == 2
    assert sorted(results(harness)) == [("pay_invoice", "outcome_unknown"), ("search", "succeeded")]


def test_f107_no_call_to_aws_is_tried_more_than_three_times_or_waits_for_more_than_seconds(deploy: Deploy) -> None:
    clients = deploy(an_agent()).aws.clients

    configs = {
        client.meta.service_model.service_name: client.meta.config
        for client in (clients.dynamodb, clients.sqs, clients.scheduler, clients.s3, clients.connections)
    }

    assert {config.retries["total_max_attempts"] for config in configs.values()} == {3}
    assert {config.connect_timeout for config in configs.values()} == {2}
    assert {name: config.read_timeout for name, config in configs.items() if config.read_timeout != 2} == {"s3": 20}


def test_f108_a_message_is_answered_at_once_whatever_time_its_model_takes(deploy: Deploy) -> None:
    harness = deploy(an_agent())
    slow = ScriptedModel(lambda _: "at last", delay=timedelta(seconds=45), clock=harness.clock)
    harness.agents = type(harness.agents)([an_agent(model=slow)])
    began = harness.clock.now()

    first = send(harness, "Think.", key="m-1")
    answered = harness.clock.now()
    again = send(harness, "Think.", key="m-1")
    harness.settle()

    assert answered - began < timedelta(seconds=2)
    assert first["turn_id"] == again["turn_id"] == "turn-1"
    assert again["duplicate"] is True
    assert len(slow.requests) == 1
    assert harness.clock.now() - began >= timedelta(seconds=45)
    assert snapshot(harness)["messages"][-1]["parts"][0]["text"] == "at last"


@pytest.mark.parametrize("output", ["x" * 200 * 1024, "\x01" * 40_000], ids=["large", "grows-when-escaped"])
def test_f112_what_is_too_large_for_a_frame_is_told_of_and_read_elsewhere(deploy: Deploy, output: str) -> None:
    @function_tool(effect="read")
    def fetch() -> str:
        return output

    harness = deploy(an_agent(fetch, model=asking_for("fetch")))
    send(harness, "Hello.")
    viewer = a_viewer(harness)

    harness.settle()

    (call,) = snapshot(harness)["tool_calls"]
    events = harness.gateway.http("GET", f"{SESSION}/events").body["events"]
    assert max(len(json.dumps(frame).encode()) for frame in viewer.frames) <= MAX_FRAME_BYTES
    assert viewer.sequences == [event["sequence"] for event in events][1:], "the first came with the snapshot"
    assert call["output"] == output
