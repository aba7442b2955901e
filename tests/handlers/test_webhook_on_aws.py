"""A webhook on AWS: its secret comes from Secrets Manager, and an outage there touches nothing else."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from perdure.core.entries import Actor
from perdure.service import Caller
from perdure.testing.gateway import ISSUER
from perdure.testing.lambda_harness import LambdaHarness
from perdure.webhooks import HookMessage, Webhook
from tests.audit.roles import WEBHOOK_SECRETS
from tests.handlers.conftest import harness

__all__ = ["harness"]

SECRET = b"a secret that nobody else knows"
PARCELS = Webhook(
    name="parcels",
    secret_env="PARCELS_HOOK_SECRET_OF_TESTS",
    handler=lambda event: HookMessage(f"order-{event['order']}", event["text"]),
    caller=Caller(tenant="acme", actor=Actor(issuer=ISSUER, subject="ann")),
)
EVENT = {"order": 7, "text": "the parcel is lost"}


@pytest.fixture
def hooked(harness: LambdaHarness) -> LambdaHarness:
    """A deployment with a webhook and its secret."""
    told = json.dumps({PARCELS.secret_env: SECRET.decode()})
    secret = harness.aws.clients.secrets.create_secret(Name=WEBHOOK_SECRETS, SecretString=told)["ARN"]
    harness._settings = dataclasses.replace(harness._settings, webhook_secrets_arn=secret)
    harness.webhooks = [PARCELS]
    return harness


def messages(harness: LambdaHarness) -> list[dict[str, Any]]:
    body = harness.gateway.http("GET", "/v1/sessions/order-7").body
    return list(body["messages"]) if "messages" in body else []


def test_a_signed_event_is_one_message_of_its_owners_session(hooked: LambdaHarness) -> None:
    first, again = (hooked.gateway.hook("parcels", EVENT, secret=SECRET) for _ in range(2))
    hooked.settle()

    assert [first.status, again.status] == [202, 202]
    assert [first.body["duplicate"], again.body["duplicate"]] == [False, True]
    said = messages(hooked)
    assert [message["role"] for message in said] == ["user", "assistant"]
    assert said[0]["parts"] == [{"type": "text", "text": "the parcel is lost"}]


def test_an_event_that_somebody_else_signed_changes_nothing(hooked: LambdaHarness) -> None:
    assert hooked.gateway.hook("parcels", EVENT, secret=b"a secret that somebody guessed").status == 401
    assert messages(hooked) == []


def test_while_the_secret_can_not_be_read_events_come_again_and_people_notice_nothing(hooked: LambdaHarness) -> None:
    down = [True]

    def fails(**_: Any) -> None:
        if down:
            raise ReadTimeoutError(endpoint_url="nowhere")

    hooked.aws.clients.secrets.meta.events.register("before-call.secretsmanager.GetSecretValue", fails)

    assert hooked.gateway.hook("parcels", EVENT, secret=SECRET).status == 503
    assert hooked.gateway.http("POST", "/v1/sessions/case-42/inputs", {"text": "hello"}).status == 202
    down.clear()
    assert hooked.gateway.hook("parcels", EVENT, secret=SECRET).status == 202
