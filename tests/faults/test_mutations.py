"""The sweep notices a broken product: each mutation makes it fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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


@pytest.mark.faults
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_sweep_notices_a_broken_product(mutation: Mutation, tmp_path: Path) -> None:
    root = a_copy(tmp_path)
    break_it(root, mutation)

    sweep = swept(root, mutation.sweep)

    assert sweep.returncode == 1, f"nobody noticed that {mutation.breaks} no longer holds:\n{sweep.stdout}"
    assert sweep.stdout.startswith("python -m perdure.testing.simulation --scenario"), sweep.stdout + sweep.stderr
    print(sweep.stdout)
