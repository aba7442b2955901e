"""`docs/testing.md` is right: every example on it is run."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import perdure

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")

SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
REAL_CLIENTS = "Real clients"
"""Has a command and no example."""

OWN_STORE = "A store of your own"
MY_STORE = """
from tests.contracts.toy_store import ToyLeases, ToyStore, open_toy


def open_my_store(path):
    return open_toy(ToyStore(), ToyLeases())
"""


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the page says is at hand; its agents are a module in a folder of their own."""
    (tmp_path / "my_agents.py").write_text(blocks(PAGE)[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(ROOT)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    at_hand = {"asyncio": asyncio, "perdure": perdure, "replace": replace, "Path": Path, "tmp_path": tmp_path}
    yield {**vars(import_module("my_agents")), **at_hand}
    del sys.modules["my_agents"]


@pytest.mark.parametrize("section", [name for name in SECTIONS if name not in (OWN_STORE, REAL_CLIENTS)])
def test_the_example_of_a_section_runs(section: str, names: dict[str, Any]) -> None:
    (source,) = blocks(SECTIONS[section])

    work = eval(compile(source, "testing.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.iscoroutine(work):
        asyncio.run(work)


@pytest.mark.slow
def test_the_store_of_the_page_runs_the_suites(tmp_path: Path) -> None:
    for source in blocks(SECTIONS[OWN_STORE]):
        name = source.splitlines()[0].removeprefix("# ")
        (tmp_path / name).write_text(source)
    (tmp_path / "my_store.py").write_text(MY_STORE)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT} .\n")

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 0, done.stdout


def test_every_module_that_the_page_names_is_told_of_in_the_package() -> None:
    import perdure.testing

    assert perdure.testing.__doc__ is not None
    for module in sorted(set(re.findall(r"perdure\.testing\.(\w+)", PAGE))):
        assert f"`{module}`" in perdure.testing.__doc__
