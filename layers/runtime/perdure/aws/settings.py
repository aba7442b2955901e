"""Names and addresses that the template hands to the functions. The only reader of the environment in this package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from perdure.aws.limits import SCHEDULE_LEAD
from perdure.errors import ConfigurationError

_LEAD_SECONDS = int(SCHEDULE_LEAD.total_seconds())


class Settings(BaseModel):
    """One deployment's names. Each field is an environment variable of the same name in capitals.

    Raises:
        ConfigurationError: From `from_environment`: a variable is missing or empty; the message names it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    table_name: str = Field(min_length=1)
    run_model_queue_url: str = Field(min_length=1)
    call_tool_queue_url: str = Field(min_length=1)
    call_single_attempt_tool_queue_url: str = Field(min_length=1)
    timers_queue_url: str = Field(min_length=1)
    timers_queue_arn: str = Field(min_length=1)
    schedule_group: str = Field(min_length=1)
    schedule_role_arn: str = Field(min_length=1)
    bucket_name: str = Field(min_length=1)
    socket_endpoint: str = Field(min_length=1)
    perdure_agents: str = Field(min_length=3, pattern=r"^[\w.]+:\w+$")
    tenant_claim: str = Field(default="tenant", min_length=1)
    schedule_lead_seconds: int = Field(default=_LEAD_SECONDS, ge=0, le=_LEAD_SECONDS)
    model_key_secret_arn: str = ""  # set for functions that call models, if there is such a secret

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read the settings; None: from this process's environment."""
        given = os.environ if environment is None else environment
        fields: dict[str, Any] = {
            name: given[name.upper()] for name in cls.model_fields if given.get(name.upper()) is not None
        }
        try:
            return cls(**fields)
        except ValidationError as error:
            wrong = sorted({str(problem["loc"][0]).upper() for problem in error.errors()})
            raise ConfigurationError(
                f"these environment variables are missing or wrong: {', '.join(wrong)}; "
                "template.yaml sets them for every function (PERDURE_AGENTS is `module:attribute`)"
            ) from None

    @property
    def step_queue_urls(self) -> dict[str, str]:
        """Queue URLs by kind of step."""
        return {
            "run_model": self.run_model_queue_url,
            "call_tool": self.call_tool_queue_url,
            "call_single_attempt_tool": self.call_single_attempt_tool_queue_url,
        }
