"""What the tests of AG-UI runs stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure import AgentDefinition
from perdure.testing.fixtures import Stage, open_stage
from tests.unit.api.ag_ui.runs import AgUiClient, Desk, desk_model


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def stage(desk: Desk) -> AsyncIterator[Stage]:
    async with open_stage(desk.agent, AgentDefinition(name="other", model=desk_model())) as stage:
        yield stage


@pytest.fixture
def client(stage: Stage) -> AgUiClient:
    return AgUiClient(stage)
