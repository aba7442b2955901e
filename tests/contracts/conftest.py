"""The adapter sets that the contract suites run against. To add one, add a line to `ADAPTERS`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from perdure.ports import Leases, SessionKey, SessionStore

# Name of the adapter set: where its `open_adapter(folder)` is, an async context manager that yields an `Adapter`
# with nothing stored in it; `module` or `module:function`. Imported when a test wants it.
ADAPTERS = {
    "sqlite": "tests.contracts.sqlite_adapter",
    "sqlite-cold": "tests.contracts.sqlite_adapter:open_cold_adapter",
    "dynamodb": "tests.contracts.dynamodb",
}


@dataclass(frozen=True)
class Adapter:
    """One adapter set, open and empty.

    Attributes:
        store: The store of one worker.
        leases: Its leases.
        another_store: Returns the store of another worker on the same data, as a new process would make it.
        erase: Deletes what was stored of a session besides HEAD, as retention and purge will: the entries below a
            version and, when told to, the receipts. What only HEAD holds is left alone.
    """

    store: SessionStore
    leases: Leases
    another_store: Callable[[], SessionStore]
    erase: Callable[[SessionKey, int, bool], Awaitable[None]]


@pytest.fixture(params=ADAPTERS)
async def adapter(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Adapter]:
    module, _, function = ADAPTERS[request.param].partition(":")
    open_adapter = getattr(import_module(module), function or "open_adapter")
    async with open_adapter(tmp_path) as opened:
        yield opened


@pytest.fixture
def store(adapter: Adapter) -> SessionStore:
    return adapter.store


@pytest.fixture
def leases(adapter: Adapter) -> Leases:
    return adapter.leases
