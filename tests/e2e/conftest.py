"""One deployed stack for all end-to-end tests, which run in the order of `ORDER`."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.emulator import E2E_BIN, ROOT, Emulator
from tests.e2e.outside import AUDIENCE, ISSUER, MODEL_KEY, Outside
from tests.e2e.people import User
from tests.e2e.stack import BUILT, Stack, artifacts

HERE = Path(__file__).parent

ORDER = ("test_resources", "test_conversations", "test_sockets", "test_faults", "test_operation", "test_teardown")
"""What disturbs others comes later."""


@dataclass
class World:
    """What tests get."""

    emulator: Emulator
    outside: Outside
    stack: Stack
    folder: Path
    scenarios: list[str] = field(default_factory=list)

    def user(self, **claims: Any) -> User:
        """Return somebody with a good token; by default Anna of the tenant `shop`."""
        return User(self.stack, self.outside, self.outside.issuer.token(**claims))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.e2e)
        if inspect.iscoroutinefunction(getattr(item, "function", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"))
    ours.sort(key=lambda item: ORDER.index(item.path.stem))
    places = [place for place, item in enumerate(items) if HERE in item.path.parents]
    for place, item in zip(places, ours, strict=True):
        items[place] = item


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """The stack, deployed; torn down at the end, whatever happened. What the processes wrote stays in `build/e2e`."""
    if not (BUILT / "template.yaml").is_file() or not (E2E_BIN / "ministack").is_file():
        pytest.fail("the end-to-end tests need what `make e2e` sets up: run that")
    folder = ROOT / "build" / "e2e"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    emulator = Emulator(folder)
    with Outside(folder, gateway_port=emulator.port, callback_port=emulator.injector_port) as outside:
        try:
            emulator.start(proxy=outside.proxy, authority=outside.authority)
            stack = Stack(emulator, {})
            secret = stack.client("secretsmanager").create_secret(Name="model-key", SecretString=MODEL_KEY)
            stack.deploy(
                artifacts(folder / "built"),
                JwtIssuer=ISSUER,
                JwtAudience=AUDIENCE,
                AgentsModule="deployed_agents:agents",
                ModelBaseUrl=outside.model_url,
                ModelKeySecretArn=secret["ARN"],
                LogLevel="DEBUG",
            )
            yield World(emulator=emulator, outside=outside, stack=stack, folder=folder)
        finally:
            emulator.stop()
            shutil.rmtree(folder / "built", ignore_errors=True)
