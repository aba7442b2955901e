"""Each trace of `races.md` is the name of a test, once at least; README.md says which."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "tests" / "races" / "README.md").read_text(encoding="utf-8")
PLACES = ("tests", "layers/runtime/perdure/testing/conformance")

LISTED = {int(number): text for number, text in re.findall(r"^\| X(\d+) (.*)$", README, re.MULTILINE)}
NAMES = re.compile(r"`(test_\w+)`")


def names_of_tests() -> set[str]:
    files = [file for place in PLACES for file in (ROOT / place).rglob("*.py")]
    return {name for file in files for name in re.findall(r"def (test_x\d+_\w+)", file.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("trace", range(1, 15))
def test_a_trace_has_a_test_of_its_name_and_the_readme_tells_which(trace: int) -> None:
    there = {name for name in names_of_tests() if name.startswith(f"test_x{trace}_")}
    told = set(NAMES.findall(LISTED[trace]))

    assert told
    assert told <= there
