"""A deployment in this process, with the example's tools and a scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.agents.definition import AgentRegistry
from perdure.agents.example import support_agent
from perdure.testing.lambda_harness import LambdaHarness
from perdure.testing.moto import aws_in_process
from tests.build.cloudformation import ROOT


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LambdaHarness]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PERDURE_SHOP_FILE", str(tmp_path / "shop.jsonl"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with aws_in_process() as aws:
        yield LambdaHarness(aws, AgentRegistry([support_agent()]), ROOT / "functions")
