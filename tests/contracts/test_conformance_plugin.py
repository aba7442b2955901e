"""The conformance suites as somebody else uses them: a plugin, a fixture, an import; and stores that they catch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contracts.wrong_stores import CAUGHT_BY

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow

CONFTEST = """
import pytest
from tests.contracts.toy_store import ToyLeases, ToyStore, open_toy

pytest_plugins = ["perdure.testing.conformance"]

SHARED = ToyStore(), ToyLeases()


@pytest.fixture
def open_adapter():
    return lambda name: open_toy(*SHARED)
"""
SUITES = """
from perdure.testing.conformance.leases import *
from perdure.testing.conformance.session_list import *
from perdure.testing.conformance.store import *
from perdure.testing.conformance.store_races import *
from perdure.testing.conformance.values import *
"""
ONE_FAILS = """
import contextlib
import pytest
from perdure.testing.conformance.leases import test_a_step_without_a_claim_has_no_lease
from tests.contracts.toy_store import ToyLeases, ToyStore, open_toy

CLOSED = []


@pytest.fixture
def open_adapter():
    @contextlib.asynccontextmanager
    async def opened(name):
        async with open_toy(ToyStore(), ToyLeases()) as adapter:
            try:
                yield adapter
            finally:
                CLOSED.append(name)
    return opened


async def test_that_fails(adapter):
    assert adapter is None


def test_every_adapter_was_closed_once():
    assert len(CLOSED) == len(set(CLOSED)) == 2
"""
WRONG = """
import pytest
from tests.contracts import wrong_stores
from tests.contracts.toy_store import ToyLeases, ToyStore, open_toy


@pytest.fixture(params=wrong_stores.CAUGHT_BY, ids=lambda wrong: wrong.__name__)
def open_adapter(request):
    wrong = request.param()
    pair = (wrong, ToyLeases()) if isinstance(wrong, ToyStore) else (ToyStore(), wrong)
    return lambda name: open_toy(*pair)
"""

RunTests = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_tests(tmp_path: Path) -> RunTests:
    """Return a function that runs pytest on a folder of its own, in a process of its own, as a stranger would."""

    def run(source: str, *options: str, conftest: str = CONFTEST) -> subprocess.CompletedProcess[str]:
        (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
        (tmp_path / "conftest.py").write_text(conftest)
        (tmp_path / "test_my_store.py").write_text(source)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    return run


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_a_store_of_somebody_else_runs_the_suites_by_a_plugin_a_fixture_and_an_import(
    run_tests: RunTests, mode: str
) -> None:
    done = run_tests(SUITES, f"--asyncio-mode={mode}")

    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout
    assert "warning" not in done.stdout
    assert int(done.stdout.splitlines()[-1].split()[0]) > 100


def test_every_adapter_is_closed_once_even_when_its_test_fails(run_tests: RunTests) -> None:
    done = run_tests(ONE_FAILS, "--asyncio-mode=auto")

    assert "1 failed, 2 passed" in done.stdout, done.stdout


def test_a_suite_without_an_adapter_says_what_it_needs(run_tests: RunTests) -> None:
    done = run_tests(SUITES, "-x", conftest='pytest_plugins = ["perdure.testing.conformance"]')

    assert done.returncode == 1
    assert "these suites need a fixture `open_adapter`" in done.stdout


def test_every_wrong_store_is_caught_by_the_test_that_is_about_what_it_gets_wrong(run_tests: RunTests) -> None:
    caught_by = {wrong.__name__: test for wrong, test in CAUGHT_BY.items()}
    names = " or ".join(set(caught_by.values()))

    done = run_tests(SUITES + WRONG, "-k", names, "--tb=no", "-rf", "--timeout=30")

    failed = [line.split("::")[1].split(" ")[0] for line in done.stdout.splitlines() if line.startswith("FAILED")]
    caught = {wrong for wrong, test in caught_by.items() for line in failed if line.startswith(f"{test}[{wrong}")}
    assert caught == set(caught_by), done.stdout
