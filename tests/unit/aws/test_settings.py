"""Settings come from the environment, and what is missing is named; agents come from a module that is named there."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from datetime import timedelta

import pytest

from perdure.agents.definition import AgentDefinition, AgentRegistry
from perdure.aws.bootstrap import Runtime, load_agents, sinks_of, webhooks_of
from perdure.aws.settings import Settings
from perdure.errors import ConfigurationError
from perdure.models.scripted import ScriptedModel
from perdure.sinks import EventSink
from perdure.testing.moto import AwsInProcess
from perdure.webhooks import Webhook

AN_AGENT = AgentDefinition(name="support", model=ScriptedModel(lambda request: "hello"))
REQUIRED = [field.name for field in dataclasses.fields(Settings) if field.default is dataclasses.MISSING]
sinks = [EventSink("audit", lambda _: None, timeout=timedelta(seconds=240))]
TWO_AGENTS = [AN_AGENT, AgentDefinition(name="sales", model=AN_AGENT.model)]


@pytest.fixture
def environment(aws: AwsInProcess) -> dict[str, str]:
    return aws.environment(f"{__name__}:AN_AGENT")


def test_every_setting_is_read_from_the_variable_of_its_name(environment: dict[str, str]) -> None:
    settings = Settings.from_environment(environment | {"OTHER": "ignored"})

    read = {name.upper(): value for name, value in dataclasses.asdict(settings).items()}
    assert {name: read[name] for name in environment} == environment
    assert set(environment) == {name.upper() for name in REQUIRED}


@pytest.mark.parametrize("name", [name.upper() for name in REQUIRED])
@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_or_empty_variable_is_named(environment: dict[str, str], name: str, value: str | None) -> None:
    given = {other: text for other, text in environment.items() if other != name}
    if value is not None:
        given[name] = value

    with pytest.raises(ConfigurationError, match=f"missing or wrong: {name};"):
        Settings.from_environment(given)


@pytest.mark.parametrize(
    ("seconds", "good"), [("0", True), ("900", True), ("901", False), ("-1", False), ("soon", False)]
)
def test_a_schedule_fires_no_longer_before_its_time_than_a_message_can_wait(
    environment: dict[str, str], seconds: str, good: bool
) -> None:
    given = environment | {"SCHEDULE_LEAD_SECONDS": seconds}

    if good:
        assert Settings.from_environment(given).schedule_lead_seconds == int(seconds)
    else:
        with pytest.raises(ConfigurationError, match="SCHEDULE_LEAD_SECONDS"):
            Settings.from_environment(given)


@pytest.mark.parametrize(("seconds", "good"), [("900", True), ("901", False), ("", False)])
def test_a_stream_lasts_no_longer_than_its_function(environment: dict[str, str], seconds: str, good: bool) -> None:
    given = environment | {"STREAM_SECONDS": seconds}

    if good:
        assert Settings.from_environment(given).stream_seconds == int(seconds)
    else:
        with pytest.raises(ConfigurationError, match="STREAM_SECONDS"):
            Settings.from_environment(given)


def test_origins_are_a_list_and_the_sockets_address_is_that_of_its_stage(environment: dict[str, str]) -> None:
    given = environment | {"ALLOWED_ORIGINS": "https://a.example.com,https://b.example.com"}

    assert Settings.from_environment(given).origins == ["https://a.example.com", "https://b.example.com"]
    assert Settings.from_environment(environment | {"ALLOWED_ORIGINS": ""}).origins == []
    assert Settings.from_environment(given).socket_url == "wss://socket.execute-api.us-east-1.amazonaws.com/live"


@pytest.mark.parametrize("agents", ["agents", "agents:", ":agents", "a b:c"])
def test_agents_are_named_by_module_and_attribute(environment: dict[str, str], agents: str) -> None:
    with pytest.raises(ConfigurationError, match="PERDURE_AGENTS"):
        Settings.from_environment(environment | {"PERDURE_AGENTS": agents})


def test_agents_are_loaded_from_their_module_when_a_step_wants_them(
    aws: AwsInProcess, environment: dict[str, str]
) -> None:
    settings = Settings.from_environment(environment)

    assert Runtime(settings, clients=aws.clients).deps.agents.default is AN_AGENT
    assert [agent.name for agent in load_agents(f"{__name__}:TWO_AGENTS")] == ["support", "sales"]


@pytest.mark.parametrize("name", ["no_such_module:agents", f"{__name__}:no_such_agents"])
def test_agents_that_are_not_there_are_a_configuration_error(name: str) -> None:
    with pytest.raises(ConfigurationError, match="can't be loaded"):
        load_agents(name)


def test_a_container_starts_without_loading_agents_or_boto3() -> None:
    script = "import sys, perdure.aws.handlers, perdure.aws.bootstrap; print('boto3' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False"]


def test_webhooks_stand_beside_the_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    assert webhooks_of(f"{__name__}:TWO_AGENTS") == []

    hook = Webhook(name="shop", secret_env="S", handler=lambda _event: None)
    monkeypatch.setattr(sys.modules[__name__], "webhooks", [hook], raising=False)

    assert webhooks_of(f"{__name__}:TWO_AGENTS") == [hook]


def test_sinks_stand_beside_the_agents_and_a_stack_that_delivers_to_none_of_them_says_so(
    aws: AwsInProcess, environment: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    assert sinks_of(f"{__name__}:AN_AGENT") == sinks

    _ = runtime_with(environment | {"NOTICES_QUEUE_URL": "https://q"}, sinks, aws).deps
    assert caplog.records == []
    _ = runtime_with(environment, sinks, aws).deps
    (told,) = caplog.records
    assert "set DeliverNotices to on" in told.getMessage()


def test_a_sink_that_may_take_longer_than_its_function_is_refused(
    aws: AwsInProcess, environment: dict[str, str]
) -> None:
    slow = dataclasses.replace(sinks[0], timeout=timedelta(seconds=241))

    _ = runtime_with(environment, sinks, aws).notices
    with pytest.raises(ConfigurationError, match="timeout of sink 'audit' is longer than the 240 s"):
        _ = runtime_with(environment, [slow], aws).notices
    with pytest.raises(ConfigurationError, match="two sinks are called 'audit'"):
        _ = runtime_with(environment, [*sinks, *sinks], aws).notices


def runtime_with(environment: dict[str, str], given: list[EventSink], aws: AwsInProcess) -> Runtime:
    settings = Settings.from_environment(environment)
    return Runtime(settings, agents=AgentRegistry([AN_AGENT]), sinks=given, clients=aws.clients)
