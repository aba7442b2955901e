"""The sample events of `events/` have the shape that the services send: held against models that others made of it.

`tests/handlers/test_events.py` hands them to the handlers in process, `tests/build/test_built_events.py` to those that
were built; `events/README.md` says what each is and how to hand it over by hand.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from aws_lambda_powertools.utilities.parser import models
from pydantic import BaseModel

from perdure import EventSink
from perdure.aws.messages import NoticeMessage, QueueMessage, StepQueueMessage, TimerMessage
from perdure.aws.queues import group_id
from perdure.aws.relay import notices_of
from perdure.testing.virtual_stream import _is_wanted
from tests.build.cloudformation import ROOT, Template, read_template, target
from tests.handlers.test_events import FUNCTIONS, event

SHAPES: dict[str, type[BaseModel]] = {
    "api-health": models.APIGatewayProxyEventV2Model,
    "api-read-session": models.APIGatewayProxyEventV2Model,
    "api-resolve-interrupt": models.APIGatewayProxyEventV2Model,
    "api-send-input": models.APIGatewayProxyEventV2Model,
    "api-socket-ticket": models.APIGatewayProxyEventV2Model,
    "call-single-attempt-tool": models.SqsModel,
    "call-tool": models.SqsModel,
    "cancel-tool-task": models.SqsModel,
    "deliver-notices": models.SqsModel,
    "fire-timer": models.SqsModel,
    "poll-tool-task": models.SqsModel,
    "record-dead-letter": models.SqsModel,
    "relay-commits": models.DynamoDBStreamModel,
    "run-model": models.SqsModel,
    "socket-connect": models.APIGatewayWebSocketConnectEventModel,
    "socket-disconnect": models.APIGatewayWebSocketDisconnectEventModel,
    "socket-ping": models.APIGatewayWebSocketMessageEventModel,
    "socket-attach": models.APIGatewayWebSocketMessageEventModel,
    "stream-events": models.APIGatewayProxyEventModel,
    "sweep": models.EventBridgeModel,
}

QUEUE_EVENTS = sorted(name for name, model in SHAPES.items() if model is models.SqsModel)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_an_event_has_the_shape_of_its_service(name: str) -> None:
    SHAPES[name].model_validate(event(name))


def test_only_the_authorizers_events_have_no_model_and_are_requests_with_a_type_and_an_arn() -> None:
    asked, of_a_stream = event("socket-authorize"), event("authorize-stream")

    assert set(FUNCTIONS) - set(SHAPES) == {"socket-authorize", "authorize-stream"}
    assert of_a_stream.pop("type") == "REQUEST"
    assert of_a_stream.pop("methodArn").endswith(":klmno12345/live/GET/v1/sessions/case-42/events")
    models.APIGatewayProxyEventModel.model_validate(of_a_stream | {"isBase64Encoded": False, "body": None})
    assert of_a_stream["requestContext"]["resourcePath"] == event("stream-events")["resource"]
    assert asked.pop("type") == "REQUEST"
    assert asked.pop("methodArn").endswith(":fghij67890/live/$connect")
    models.APIGatewayWebSocketConnectEventModel.model_validate(asked | {"isBase64Encoded": False})
    assert asked["queryStringParameters"]["ticket"] == asked["multiValueQueryStringParameters"]["ticket"][0]


def only_record(name: str) -> dict[str, Any]:
    (record,) = event(name)["Records"]
    return dict(record)


@pytest.mark.parametrize("name", QUEUE_EVENTS)
def test_a_record_comes_from_the_queue_of_its_function_and_its_checksum_is_right(name: str) -> None:
    record = only_record(name)
    template = Template(read_template())
    queues = {q for function, q, _ in template.queue_events() if template.folder(function) == FUNCTIONS[name]}

    assert record["eventSourceARN"].split(":")[-1].split("-")[1] in queues
    assert record["md5OfBody"] == hashlib.md5(record["body"].encode()).hexdigest()


@pytest.mark.parametrize("name", QUEUE_EVENTS)
def test_a_record_holds_what_we_would_send_to_the_byte(name: str) -> None:
    record = only_record(name)
    others: dict[str, type[QueueMessage]] = {"fire-timer": TimerMessage, "deliver-notices": NoticeMessage}
    message = others.get(name, StepQueueMessage).read(record["body"])

    assert message.body() == record["body"]
    # A schedule sends without a group, and its role is the sender.
    group = record["attributes"].get("MessageGroupId")
    assert group == (None if name == "fire-timer" else group_id(message.tenant))


def test_the_batch_of_the_stream_passes_its_filter_and_becomes_the_message_of_its_session() -> None:
    records = event("relay-commits")["Records"]

    assert all(_is_wanted(record) for record in records)
    assert {record["dynamodb"]["StreamViewType"] for record in records} == {"KEYS_ONLY"}
    sinks = [EventSink("audit", lambda _: None)]
    assert [message.body() for message in notices_of(records, sinks)] == [only_record("deliver-notices")["body"]]


def test_a_dead_letter_says_which_queue_gave_it_up() -> None:
    attributes = only_record("record-dead-letter")["attributes"]
    queue = attributes["DeadLetterQueueSourceArn"].split(":")[-1].split("-")[1]
    redrive = Template(read_template()).of_type("AWS::SQS::Queue")[queue]["RedrivePolicy"]

    assert target(redrive["deadLetterTargetArn"]) in only_record("record-dead-letter")["eventSourceARN"]
    assert int(attributes["ApproximateReceiveCount"]) > redrive["maxReceiveCount"]


def test_claims_are_texts_as_api_gateway_hands_them_over() -> None:
    claims = event("api-send-input")["requestContext"]["authorizer"]["jwt"]["claims"]

    assert {"iss", "sub", "aud", "exp", "tenant"} <= set(claims)
    assert all(isinstance(value, str) for value in claims.values())


def test_the_readme_of_the_events_lists_each_with_its_function() -> None:
    page = (ROOT / "events" / "README.md").read_text(encoding="utf-8")
    logical = {Template(read_template()).folder(name): name for name in Template(read_template()).functions}
    rows = [line for line in page.splitlines() if line.startswith("| `")]

    for name, folder in FUNCTIONS.items():
        assert any(f"`{name}.json`" in row and f"`{logical[folder]}`" in row for row in rows), name
    assert len(rows) == len(FUNCTIONS)
