"""What holds for the whole suite: its plugins, and that no function does on AWS what its role does not allow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from perdure.testing import permissions

if TYPE_CHECKING:
    from perdure.testing.lambda_harness import LambdaHarness

pytest_plugins = ["perdure.testing.conformance", "pytester"]

_seen: list[permissions.Watch] = []
"""The watch of all harnesses of this run, from the moment when the first one is made."""


def _watch(harness: LambdaHarness) -> None:
    from tests.audit import roles

    if not _seen:
        _seen.append(permissions.Watch(roles.grants_of_template()))
    roles.watch(harness, _seen[0])


permissions.WATCHERS.append(_watch)


@pytest.fixture(autouse=True)
def _nothing_was_refused() -> Iterator[None]:
    yield
    refused = _seen[0].take_refused() if _seen else []
    assert not refused, f"a role in template.yaml does not allow what its function did: {refused}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--permissions", action="store_true", help="report what functions use and what their roles allow")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--permissions") and _seen:
        from tests.audit.report import report

        terminalreporter.write_line(report(_seen[0]))
