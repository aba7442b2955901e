"""One deployed stack for all end-to-end tests, which run in the order of `ORDER`."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.emulator import E2E_BIN, GOOD, ROOT, Emulator
from tests.e2e.outside import AUDIENCE, ISSUER, MODEL_KEY, Outside
from tests.e2e.people import User
from tests.e2e.stack import BUILT, Stack, artifacts

HERE = Path(__file__).parent

LEAD_SECONDS = 10
"""Schedules begin at two minutes and this, instead of at seventeen minutes."""

ORDER = (
    "test_resources",
    "test_conversations",
    "test_sockets",
    "test_operation",
    "test_faults",
    "test_later",
    "test_teardown",
)
"""What disturbs others comes later. What takes minutes begins early, and `test_later` looks at what became of it."""


@dataclass
class World:
    """What tests get."""

    emulator: Emulator
    outside: Outside
    stack: Stack
    folder: Path
    begun: set[str] = field(default_factory=set)
    """Names of what was begun and is looked at later."""

    def user(self, **claims: Any) -> User:
        """Return somebody with a good token; by default Anna of the tenant `shop`."""
        return User(self.stack, self.outside, self.outside.issuer.token(**claims))


_seen: dict[tuple[str, str, str], int] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was covered: scenarios, AWS actions, and the faults that they met."""
    if not _seen:
        return
    passed = [report for report in terminalreporter.stats.get("passed", []) if "tests/e2e" in report.nodeid]
    actions: dict[str, dict[str, int]] = {}
    for (service, operation, what), count in _seen.items():
        actions.setdefault(f"{service}:{operation}", {})[what] = count
    terminalreporter.section("the deployed stack")
    for action, kinds in sorted(actions.items()):
        faults = {what: count for what, count in kinds.items() if what != GOOD}
        told = ", ".join(f"{count} x {what}" for what, count in sorted(faults.items()))
        terminalreporter.write_line(f"{action:46}{sum(kinds.values()):6} calls  {told}")
    faulty = sum(count for (_, _, what), count in _seen.items() if what != GOOD)
    terminalreporter.write_line(
        f"{len(passed)} scenarios, {len(actions)} AWS actions, {faulty} calls that were made to fail"
    )


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
                ScheduleLeadSeconds=str(LEAD_SECONDS),
            )
            yield World(emulator=emulator, outside=outside, stack=stack, folder=folder)
            _seen.update(emulator.counted())
        finally:
            emulator.stop()
            shutil.rmtree(folder / "built", ignore_errors=True)
