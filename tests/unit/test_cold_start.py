"""A cold container of `run_model` loads what its steps need: whatever else is imported, each first turn waits for."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MAX_OWN_MODULES = 100
MAX_DATACLASSES = 124
"""Somewhat more than there are. A frozen dataclass takes about 0.4 ms to make: half of what the import takes."""

LATER = {
    "boto3": "with the first client",
    "httpx": "with the first request to a model",
    "mcp": "by agents that have MCP servers",
    "moto": "never",
    "perdure.api": "by the API's function",
    "perdure.checks": "by the API's function",
    "perdure.control": "by the API's function",
    "perdure.embedded": "never",
    "perdure.service": "by the API's function",
    "perdure.testing": "never",
    "perdure.webhooks": "by the API's function",
    "pydantic": "by agents that have tools, with the agents",
}
_PROGRAM = f"""
import dataclasses, json, sys
sys.path[:0] = [{str(ROOT / "functions" / "run_model")!r}, {str(ROOT / "layers" / "runtime")!r}]
made, process = [], dataclasses._process_class
dataclasses._process_class = lambda cls, *given: made.append(cls.__name__) or process(cls, *given)
import app
print(json.dumps([sorted(sys.modules), made]))
"""


@cache
def loaded() -> tuple[list[str], list[str]]:
    """Return the modules of a container that has imported its handler, and the dataclasses that were made for it."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    modules, made = json.loads(done.stdout)
    return modules, made


@pytest.mark.parametrize("package", LATER)
def test_a_container_of_the_model_step_does_not_load(package: str) -> None:
    modules, _ = loaded()

    assert [name for name in modules if name == package or name.startswith(f"{package}.")] == [], LATER[package]


def test_what_a_container_of_the_model_step_loads_does_not_creep_up() -> None:
    modules, made = loaded()
    own = [name for name in modules if name.split(".")[0] == "perdure"]

    assert {"perdure.steps.run_model", "perdure.aws.store"} <= set(own)
    assert len(own) <= MAX_OWN_MODULES
    assert "Head" in made
    assert len(made) <= MAX_DATACLASSES
