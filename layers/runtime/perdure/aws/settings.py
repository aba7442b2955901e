"""Names and addresses that the template hands to the functions. The only reader of the environment in this package."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from perdure.aws.limits import MAX_STREAM, SCHEDULE_LEAD
from perdure.errors import ConfigurationError

_LEAD_SECONDS = int(SCHEDULE_LEAD.total_seconds())
STREAM_SECONDS = int(MAX_STREAM.total_seconds())
_AGENTS = re.compile(r"[\w.]+:\w+")
_SECONDS = {"schedule_lead_seconds": _LEAD_SECONDS, "stream_seconds": STREAM_SECONDS}
"""Settings that are whole numbers of seconds, and the most that each may be."""

_MAY_BE_EMPTY = ("model_key_secret_arn", "webhook_secrets_arn", "allowed_origins", "notices_queue_url")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One deployment's names. Each field is an environment variable of the same name in capitals.

    Raises:
        ConfigurationError: From `from_environment`: a variable is missing or empty; the message names it.
    """

    table_name: str
    run_model_queue_url: str
    call_tool_queue_url: str
    call_single_attempt_tool_queue_url: str
    poll_tool_task_queue_url: str
    cancel_tool_task_queue_url: str
    timers_queue_url: str
    timers_queue_arn: str
    schedule_group: str
    schedule_role_arn: str
    bucket_name: str
    socket_endpoint: str
    perdure_agents: str
    tenant_claim: str = "tenant"
    schedule_lead_seconds: int = _LEAD_SECONDS
    model_key_secret_arn: str = ""  # set for functions that call models, if there is such a secret
    webhook_secrets_arn: str = ""  # set for the function that answers the HTTP API, if there is such a secret
    notices_queue_url: str = ""  # empty: this deployment delivers to no sinks
    stream_url: str = ""  # set for the functions that answer a request for it
    stream_seconds: int = STREAM_SECONDS
    allowed_origins: str = ""  # set for authorizers and for the function behind the stream API; separated by commas
    jwt_issuer: str = ""  # set for the authorizer of the stream API
    jwt_audience: str = ""  # the same; separated by commas

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read the settings; None: from this process's environment."""
        given = os.environ if environment is None else environment
        read = {field: given.get(field.name.upper()) for field in fields(cls)}
        wrong = [
            field.name
            for field, value in read.items()
            if (value is None and field.default is MISSING) or (value is not None and not _fits(field.name, value))
        ]
        if wrong:
            raise ConfigurationError(
                f"these environment variables are missing or wrong: {', '.join(sorted(map(str.upper, wrong)))}; "
                "template.yaml sets them for every function (PERDURE_AGENTS is `module:attribute`)"
            )
        values: dict[str, Any] = {field.name: value for field, value in read.items() if value is not None}
        values |= {name: int(values[name]) for name in _SECONDS if name in values}
        return cls(**values)

    @property
    def origins(self) -> list[str]:
        """Origins whose pages may open streams and sockets; none: the stack names none."""
        return [origin for origin in self.allowed_origins.split(",") if origin]

    @property
    def socket_url(self) -> str:
        """Where a client opens a WebSocket."""
        return f"wss://{self.socket_endpoint.removeprefix('https://')}"

    @property
    def step_queue_urls(self) -> dict[str, str]:
        """Queue URLs by kind of step."""
        return {
            "run_model": self.run_model_queue_url,
            "call_tool": self.call_tool_queue_url,
            "call_single_attempt_tool": self.call_single_attempt_tool_queue_url,
            "poll_tool_task": self.poll_tool_task_queue_url,
            "cancel_tool_task": self.cancel_tool_task_queue_url,
            "write_title": self.run_model_queue_url,  # a model call like others, with the same rights
        }


def _fits(name: str, value: str) -> bool:
    if name == "perdure_agents":
        return _AGENTS.fullmatch(value) is not None
    if name in _SECONDS:
        return value.isdecimal() and int(value) <= _SECONDS[name]
    return name in _MAY_BE_EMPTY or bool(value)
