"""The adapter sets that the conformance suites run against. To add one, add a line."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path

import pytest

from perdure.testing.conformance import Adapter, OpenAdapter, OpenDelivery
from tests.contracts.delivery import DELIVERIES

# Name of the adapter set: where its `open_adapter(folder)` is, an async context manager that yields an `Adapter`;
# `module` or `module:function`. Imported when a test wants it.
ADAPTERS = {
    "sqlite": "tests.contracts.sqlite_adapter",
    "sqlite-cold": "tests.contracts.sqlite_adapter:open_cold_adapter",
    "dynamodb": "tests.contracts.dynamodb",
}


@pytest.fixture(params=ADAPTERS)
def open_adapter(request: pytest.FixtureRequest, tmp_path: Path) -> OpenAdapter:
    module, _, function = ADAPTERS[request.param].partition(":")
    open_in_folder = getattr(import_module(module), function or "open_adapter")

    def open_named(name: str) -> AbstractAsyncContextManager[Adapter]:
        folder = tmp_path / name
        folder.mkdir()
        opened: AbstractAsyncContextManager[Adapter] = open_in_folder(folder)
        return opened

    return open_named


@pytest.fixture(params=DELIVERIES)
def open_delivery(request: pytest.FixtureRequest) -> OpenDelivery:
    return DELIVERIES[request.param]
