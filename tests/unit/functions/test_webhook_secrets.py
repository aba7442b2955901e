"""Webhooks' secrets come from the environment or from one secret, read when the first event comes and once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.aws.clients import Clients
from perdure.aws.webhook_secrets import WebhookSecrets
from perdure.errors import ConfigurationError
from perdure.testing.moto import aws_in_process

MISSING = "arn:aws:secretsmanager:us-east-1:123456789012:secret:missing-AbCdEf"
SHOP, CRM = "SHOP_HOOK_SECRET_OF_TESTS", "CRM_HOOK_SECRET_OF_TESTS"


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with aws_in_process() as aws:
        yield aws.clients


def a_secret(clients: Clients, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return str(clients.secrets.create_secret(Name="webhook-secrets", SecretString=text)["ARN"])


def test_every_webhook_finds_its_own_and_the_secret_is_read_once(clients: Clients) -> None:
    reads: list[str] = []
    clients.secrets.meta.events.register("before-call.secretsmanager.*", lambda model, **_: reads.append(model.name))
    look_up = WebhookSecrets(clients, a_secret(clients, {SHOP: "whsec_a", CRM: "whsec_b"}))
    reads.clear()

    assert [look_up(name) for name in (SHOP, CRM, "ANOTHER")] == ["whsec_a", "whsec_b", ""]
    assert reads == ["GetSecretValue"]


def test_a_variable_wins_and_then_nothing_is_read(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHOP, "whsec_of_the_environment")

    assert WebhookSecrets(clients, MISSING)(SHOP) == "whsec_of_the_environment"


def test_without_a_secret_there_is_the_environment_only(clients: Clients) -> None:
    assert WebhookSecrets(clients, "")(SHOP) == ""


def test_a_secret_that_does_not_exist_is_an_error_of_the_set_up_until_it_does(clients: Clients) -> None:
    look_up = WebhookSecrets(clients, "webhook-secrets")

    with pytest.raises(ConfigurationError, match="read the webhooks' secrets"):
        look_up(SHOP)

    a_secret(clients, {SHOP: "whsec_a"})
    assert look_up(SHOP) == "whsec_a"


@pytest.mark.parametrize("value", ["whsec_notjson", '["whsec_notjson"]', '{"SHOP": {"secret": "whsec_notjson"}}'])
def test_what_is_no_object_of_texts_is_refused_without_being_told(clients: Clients, value: str) -> None:
    with pytest.raises(ConfigurationError, match="must be a JSON object") as raised:
        WebhookSecrets(clients, a_secret(clients, value))(SHOP)

    assert "notjson" not in str(raised.value)
