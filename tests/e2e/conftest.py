"""One deployed stack for all end-to-end tests, which run in the order of `ORDER`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.emulator import E2E_BIN, GOOD, ROOT
from tests.e2e.stack import BUILT
from tests.e2e.world import World, deployed

HERE = Path(__file__).parent

ORDER = (
    "test_resources",
    "test_conversations",
    "test_remote_work",
    "test_sinks",
    "test_outsiders",
    "test_sockets",
    "test_streams",
    "test_sample_events",
    "test_operation",
    "test_faults",
    "test_later",
    "test_teardown",
    "test_roles",
)
"""What disturbs others comes later. What takes minutes begins early, and `test_later` looks at what became of it."""


TIMEOUT_SECONDS = 600
"""Of one test: what a crash leaves behind is found within minutes, as on AWS."""

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
        item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))
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
    with deployed(ROOT / "build" / "e2e") as found:
        yield found
        _seen.update(found.emulator.counted())
