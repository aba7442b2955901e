"""The model provider's key comes from Secrets Manager, once, and only if nothing else has set it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure.aws.clients import Clients
from perdure.aws.model_key import KEY_VARIABLE, provide_model_key
from perdure.errors import ConfigurationError
from perdure.testing.moto import aws_in_process

MISSING = "arn:aws:secretsmanager:us-east-1:123456789012:secret:missing-AbCdEf"


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with aws_in_process() as aws:
        yield aws.clients


def a_secret(clients: Clients, value: str) -> str:
    return str(clients.secrets.create_secret(Name="model-key", SecretString=value)["ARN"])


def test_the_secret_becomes_the_variable_that_model_clients_read(clients: Clients) -> None:
    variables: dict[str, str] = {}

    provide_model_key(clients, a_secret(clients, "sk-7\n"), variables)

    assert variables == {KEY_VARIABLE: "sk-7"}


def test_a_key_that_is_there_already_wins(clients: Clients) -> None:
    variables = {KEY_VARIABLE: "mine"}

    provide_model_key(clients, MISSING, variables)

    assert variables == {KEY_VARIABLE: "mine"}


def test_a_secret_that_does_not_exist_is_an_error_of_the_set_up(clients: Clients) -> None:
    variables: dict[str, str] = {}

    with pytest.raises(ConfigurationError, match="read the model key"):
        provide_model_key(clients, MISSING, variables)

    assert variables == {}
