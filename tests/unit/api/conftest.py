from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.api.builders import Api, Desk, a_runtime


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def api(tmp_path: Path, desk: Desk) -> AsyncIterator[Api]:
    """The local user's API on a new database."""
    async with a_runtime(tmp_path, desk) as runtime:
        yield Api(runtime.service)
