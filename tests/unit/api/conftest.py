from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import perdure
from perdure.embedded.server import create_app
from tests.unit.api.builders import Api, Desk, a_runtime


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def api(tmp_path: Path, desk: Desk) -> AsyncIterator[Api]:
    """The local user's API on a new database."""
    async with a_runtime(tmp_path, desk) as runtime:
        yield Api(runtime.service)


@pytest.fixture(params=["in-process", "http"])
async def runtime(request: pytest.FixtureRequest, tmp_path: Path, desk: Desk) -> AsyncIterator[Any]:
    """What `perdure.open` and `perdure.connect` give, over the same desk."""
    async with a_runtime(tmp_path, desk) as embedded:
        if request.param == "in-process":
            yield embedded
            return
        transport = httpx.ASGITransport(create_app(embedded.service))
        async with perdure.connect("http://127.0.0.1:8787", transport=transport) as client:
            yield client
