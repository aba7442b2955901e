"""What goes wrong with sessions in DynamoDB (field cases F025, F090 to F098), on the real handlers over moto."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from perdure import function_tool
from perdure.aws.limits import MAX_ITEM_BYTES
from perdure.core.limits import MAX_TOOL_OUTPUT_BYTES
from perdure.models.scripted import Reply, ScriptedModel, call, tool_results
from perdure.testing.counting import item_size
from perdure.testing.lambda_harness import LambdaHarness
from perdure.testing.moto import refuse_what_the_service_would
from tests.field.conftest import Deploy, a_viewer
from tests.handlers.agents import SESSION, send, snapshot
from tests.unit.steps.builders import an_agent, asking_for


def result_of(harness: LambdaHarness) -> str:
    """Return the output of the latest turn's one call, as a viewer reads it."""
    page = harness.gateway.http("GET", f"{SESSION}/messages", query={"limit": 2})
    assert page.status == 200, page.body
    (result,) = page.body["messages"][0]["parts"]
    return str(result["output"])


def test_f025_control_characters_of_a_tool_reach_the_model_and_the_viewer_as_they_are(deploy: Deploy) -> None:
    text = "a\u0000b\u001b[31mred\u2028\U0001f680"

    @function_tool(effect="read")
    def cat() -> str:
        return text

    model = asking_for("cat")
    harness = deploy(an_agent(cat, model=model))

    send(harness, "Show it.\u0000")
    harness.settle()

    assert tool_results(model.requests[1])[0].output == text
    assert result_of(harness) == text
    assert snapshot(harness)["messages"][0]["parts"][0]["text"] == "Show it.\u0000"


def test_f090_numbers_are_the_same_for_the_tool_the_model_and_the_viewer(deploy: Deploy) -> None:
    sent = {"score": 0.1, "n": 3, "t": 1753000000.123456, "neg0": -0.0, "tiny": 5e-324, "large": 2**53 + 1}
    got: list[dict[str, Any]] = []

    @function_tool(effect="read")
    def measure(numbers: dict[str, Any]) -> dict[str, Any]:
        got.append(numbers)
        return numbers | {"big": math.inf, "nan": math.nan}

    model = ScriptedModel(
        lambda request: "done" if tool_results(request) else Reply(calls=(call("measure", numbers=sent),))
    )
    harness = deploy(an_agent(measure, model=model))

    send(harness, "Measure.")
    harness.settle()

    as_read = json.loads(result_of(harness))
    as_asked = json.loads(tool_results(model.requests[1])[0].output)
    assert _exactly(got[0]) == _exactly(sent)
    assert _exactly(as_read) == _exactly(as_asked) == _exactly(sent | {"big": None, "nan": None})


def _exactly(numbers: dict[str, Any]) -> dict[str, tuple[type, str]]:
    """Return type and digits of each number: `-0.0 == 0.0`, and `Decimal("0.5") == 0.5`."""
    return {name: (type(value), repr(value)) for name, value in numbers.items()}


@pytest.mark.parametrize("kilobytes", [399, 2048], ids=["beside-the-item-limit", "in-the-bucket"])
def test_f092_a_result_near_or_over_the_item_limit_is_kept_whole_and_the_session_goes_on(
    deploy: Deploy, kilobytes: int
) -> None:
    large = "é" * (kilobytes * 1024 // 2)

    @function_tool(effect="read")
    def fetch() -> str:
        return large

    model = asking_for("fetch", answer="fetched")
    harness = deploy(an_agent(fetch, model=model, tool_output_limit=None))

    for question in ("Fetch it.", "And again."):
        send(harness, question)
        harness.settle()

    outputs = [m.output for m in model.requests[-1].messages if hasattr(m, "output")]
    assert outputs == [large, large]
    assert result_of(harness) == large
    assert max(_sizes_of_items(harness)) < MAX_ITEM_BYTES


def test_f092_many_messages_make_no_item_grow(deploy: Deploy) -> None:
    harness = deploy(an_agent(model=ScriptedModel(lambda _: "I see. " * 40)))

    sizes = []
    for number in range(12):
        send(harness, f"Message {number}. " * 20)
        harness.settle()
        sizes.append(max(_sizes_of_items(harness)))

    assert max(sizes) < 16 * 1024
    assert len(snapshot(harness)["messages"]) == 24


def _sizes_of_items(harness: LambdaHarness) -> list[int]:
    pages = harness.aws.clients.dynamodb.get_paginator("scan").paginate(TableName=harness.aws.table)
    return [item_size(item) for page in pages for item in page["Items"]]


def test_f094_a_result_that_no_place_is_meant_for_ends_in_one_attempt_that_names_tool_size_and_limit(
    deploy: Deploy,
) -> None:
    runs: list[int] = []

    @function_tool(effect="read")
    def dump() -> str:
        runs.append(1)
        return "x" * (MAX_TOOL_OUTPUT_BYTES + 1)

    model = asking_for("dump", answer="too much")
    harness = deploy(an_agent(dump, model=model))

    send(harness, "Dump it.")
    harness.settle()

    (result,) = tool_results(model.requests[1])
    assert len(runs) == 1
    assert result.status == "failed"
    for named in ("dump", str(MAX_TOOL_OUTPUT_BYTES + 1), str(MAX_TOOL_OUTPUT_BYTES)):
        assert named in result.output
    assert snapshot(harness)["state"]["status"] == "waiting_for_user_message"
    assert harness.queues.messages == []


def test_f095_a_turn_makes_no_transaction_so_none_can_conflict(deploy: Deploy) -> None:
    @function_tool(effect="non_idempotent_write", requires_approval=False)
    def pay() -> str:
        return "paid"

    harness = deploy(an_agent(pay, model=asking_for("pay")))
    operations: set[str] = set()
    harness.aws.clients.dynamodb.meta.events.register(
        "before-call.dynamodb", lambda model, **_: operations.add(model.name)
    )

    send(harness, "Pay.", key="m-1")
    harness.settle()

    assert "UpdateItem" in operations
    assert operations.isdisjoint({"TransactWriteItems", "TransactGetItems", "BatchWriteItem"})


def test_f097_a_subscription_past_its_ttl_is_not_served_though_it_is_still_there(deploy: Deploy) -> None:
    harness = deploy(an_agent())
    send(harness, "Hello.")
    short, long = a_viewer(harness, token_seconds=600), a_viewer(harness)
    heard = short.sequences

    harness.clock.advance(601)
    rows = harness.aws.clients.dynamodb.scan(TableName=harness.aws.table)["Items"]
    send(harness, "Hello again.")
    harness.settle()

    assert f"SUB#{short.connection_id}" in {row["sk"]["S"] for row in rows}
    assert short.sequences == heard
    assert len(long.sequences) > len(heard)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (f"{SESSION}/inputs", {"text": ""}, 400),
        (f"{SESSION}/inputs", {"text": "hi", "message_id": ""}, 400),
        ("/v1/sessions//inputs", {"text": "hi"}, 400),
    ],
    ids=["text", "message-id", "session-id"],
)
def test_f098_an_empty_id_or_text_is_refused_at_the_edge(
    deploy: Deploy, path: str, body: dict[str, Any], status: int
) -> None:
    harness = deploy(an_agent())

    reply = harness.gateway.http("POST", path, body)

    assert reply.status == status
    assert reply.body["error"]["code"] == "invalid_request"
    assert harness.aws.clients.dynamodb.scan(TableName=harness.aws.table)["Count"] == 0


def test_f098_a_caller_without_a_tenant_is_refused(deploy: Deploy) -> None:
    harness = deploy(an_agent())

    reply = harness.gateway.http("POST", f"{SESSION}/inputs", {"text": "hi"}, tenant="")

    assert reply.status == 403


def test_f098_an_empty_result_is_legal_and_no_model_sees_nothing(deploy: Deploy) -> None:
    @function_tool(effect="read")
    def look() -> str:
        return ""

    model = asking_for("look")
    harness = deploy(an_agent(look, model=model))

    send(harness, "Look.")
    harness.settle()

    assert tool_results(model.requests[1])[0].output == '""'
    assert result_of(harness) == '""'


@pytest.mark.parametrize(
    "request_",
    [
        {"Key": {"pk": {"S": ""}, "sk": {"S": "HEAD"}}},
        {"Item": {"pk": {"S": "a"}, "sk": {"S": ""}}},
        {"Item": {"pk": {"S": "a"}, "sk": {"S": "b"}}, "ExpressionAttributeValues": {}},
        {"Key": {"pk": {"S": "a"}, "sk": {"S": "b"}}, "ExpressionAttributeValues": {":unused": {"S": "x"}}},
    ],
    ids=["empty-partition-key", "empty-sort-key", "empty-values", "unused-value"],
)
def test_f098_the_test_kit_refuses_what_the_service_would(request_: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        refuse_what_the_service_would(request_)
