"""What `Results` promises, against every adapter that has it: SQLite commits one by one and needs none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.testing.conformance import Adapter, OpenAdapter
from perdure.testing.conformance.results import *  # noqa: F403  the tests of the suite, whichever they are
from perdure.testing.fixtures import CollectingResults
from tests.contracts import dynamodb, sqlite_adapter


@asynccontextmanager
async def with_results_in_memory(folder: Path) -> AsyncIterator[Adapter]:
    """Open what the tests of steps run on: SQLite, and outcomes that are collected."""
    async with sqlite_adapter.open_adapter(folder) as adapter:
        yield replace(adapter, results=CollectingResults())


@pytest.fixture(params=["dynamodb", "in memory"])
def open_adapter(request: pytest.FixtureRequest, tmp_path: Path) -> OpenAdapter:
    opens = dynamodb.open_adapter if request.param == "dynamodb" else with_results_in_memory
    return lambda _: opens(tmp_path)
