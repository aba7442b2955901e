"""On what, and in which orders, the races are run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from perdure.testing.barriers import Order, lockstep, seeded, together
from tests.races.rig import ADAPTERS

ORDERS: dict[str, Callable[[], Order]] = {f"seed-{seed}": partial(seeded, seed) for seed in range(6)}
ORDERS |= {"lockstep": lambda: lockstep, "together": lambda: together}


@pytest.fixture(params=ORDERS)
def order(request: pytest.FixtureRequest) -> Order:
    return ORDERS[request.param]()


@pytest.fixture(params=ADAPTERS)
def adapter(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name
