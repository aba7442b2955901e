"""The conformance suites as a pytest plugin: what the ports promise, for anybody's adapters (spec TEST-04, STORE-15).

Needs pytest and pytest-asyncio, in either of its modes. In the top `conftest.py`:

    pytest_plugins = ["perdure.testing.conformance"]

    @pytest.fixture
    def open_adapter(tmp_path):
        @asynccontextmanager
        async def opened(name):
            async with MyStore.open(tmp_path / name) as store:
                yield Adapter(store=store, leases=…, another_store=…, erase=…)

        return opened

and in a test module the suites that are to run, of `store`, `values`, `store_races`, `session_list`, `leases`,
`results`, `queue` and `timers`:

    from perdure.testing.conformance.store import *

`queue` and `timers` want a fixture `open_delivery` instead. A test module may define either fixture anew, for another
adapter set. The suite picks all ids: each test has tenants of its own, so several runs may share one store.

PYTEST_DONT_REWRITE: nothing is asserted here, and a conftest may import this before pytest reads its plugins.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio

from perdure.ports import Leases, Results, SessionStore
from perdure.testing.conformance.adapter import Adapter, OpenAdapter
from perdure.testing.conformance.delivery import Delivery, OpenDelivery
from perdure.testing.conformance.scope import scoped

__all__ = ["Adapter", "Delivery", "OpenAdapter", "OpenDelivery"]


@pytest.fixture
def open_adapter() -> OpenAdapter:
    """Return a function that opens the adapter set. Yours; `OpenAdapter` says what it is asked for."""
    raise pytest.UsageError("these suites need a fixture `open_adapter`: see perdure.testing.conformance.OpenAdapter")


@pytest.fixture
def open_delivery() -> OpenDelivery:
    """Return a function that opens a queue with timers. Yours; `OpenDelivery` says what it is asked for."""
    raise pytest.UsageError("these suites need a fixture `open_delivery`: see perdure.testing.conformance.OpenDelivery")


@pytest_asyncio.fixture
async def adapter(open_adapter: OpenAdapter) -> AsyncIterator[Adapter]:
    """Open the adapter set for one test, under a name that no other test has, and close it once whatever happens."""
    name = f"t{uuid4().hex[:16]}"
    async with open_adapter(name) as opened:
        yield scoped(opened, name)


@pytest_asyncio.fixture
async def delivery(open_delivery: OpenDelivery) -> AsyncIterator[Delivery]:
    """Open a queue with timers for one test, and close it once whatever happens."""
    async with open_delivery() as opened:
        yield opened


@pytest.fixture
def store(adapter: Adapter) -> SessionStore:
    """Return the store of one worker."""
    return adapter.store


@pytest.fixture
def leases(adapter: Adapter) -> Leases:
    """Return the leases of one worker."""
    return adapter.leases


@pytest.fixture
def results(adapter: Adapter) -> Results:
    """Return where one worker makes outcomes known. An adapter without it has no use for the suite that asks for it."""
    if adapter.results is None:
        raise pytest.UsageError("the suite `results` needs an adapter with `results`: leave it out, or give it one")
    return adapter.results
