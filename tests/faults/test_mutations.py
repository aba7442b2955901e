"""The sweep notices a broken product: each mutation makes it fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.build.cloudformation import ROOT
from tests.faults.mutations import MUTATIONS, Mutation

PACKAGE = Path("layers/runtime/perdure")


def a_copy(place: Path) -> Path:
    """Return a root with a copy of the package, and with the handlers that its AWS adapters are run by."""
    shutil.copytree(ROOT / PACKAGE, place / PACKAGE, ignore=shutil.ignore_patterns("__pycache__", "console"))
    shutil.copytree(ROOT / "functions", place / "functions", ignore=shutil.ignore_patterns("__pycache__"))
    return place


def break_it(root: Path, mutation: Mutation) -> None:
    for name, old, new in mutation.edits:
        path = root / PACKAGE / name
        source = path.read_text(encoding="utf-8")
        assert source.count(old) == 1, f"{name} has changed: let the edit of {mutation.name} follow it"
        path.write_text(source.replace(old, new), encoding="utf-8")


def swept(root: Path, arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a sweep of the copy in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "perdure.testing.simulation", *arguments.split(), "--first", "--jobs", "1"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "layers/runtime"), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_edit_applies_to_the_source_as_it_is(mutation: Mutation) -> None:
    for name, old, _ in mutation.edits:
        assert (ROOT / PACKAGE / name).read_text(encoding="utf-8").count(old) == 1, f"{name}: {old}"


@pytest.fixture(scope="module")
def sweeps(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[subprocess.CompletedProcess[str]]]]:
    """The sweeps of all mutations that were asked for, as many at a time as there are cores."""

    def sweep(mutation: Mutation) -> subprocess.CompletedProcess[str]:
        root = a_copy(tmp_path_factory.mktemp(mutation.name))
        break_it(root, mutation)
        return swept(root, mutation.sweep)

    asked = [item for item in request.session.items if getattr(item, "originalname", "") == NOTICED]
    mutations: list[Mutation] = [item.callspec.params["mutation"] for item in asked]  # type: ignore[attr-defined]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {mutation.name: pool.submit(sweep, mutation) for mutation in mutations}
        pool.shutdown(cancel_futures=True)


@pytest.mark.faults
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_sweep_notices_a_broken_product(
    mutation: Mutation, sweeps: dict[str, Future[subprocess.CompletedProcess[str]]]
) -> None:
    sweep = sweeps[mutation.name].result()

    assert sweep.returncode == 1, f"nobody noticed that {mutation.breaks} no longer holds:\n{sweep.stdout}"
    assert sweep.stdout.startswith("python -m perdure.testing.simulation --scenario"), sweep.stdout + sweep.stderr
    print(sweep.stdout)


NOTICED = test_the_sweep_notices_a_broken_product.__name__
