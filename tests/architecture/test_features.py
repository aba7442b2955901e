"""`docs/features.md` and `docs/field-cases.md` list every id once and name tests that exist."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
RUNTIME = ROOT / "layers" / "runtime"
DONE = {"features.md": "built", "field-cases.md": "covered"}
"""What each page calls a row of which nothing is missing."""

OPEN = ("partly", "later", "does not apply")

_ROW = re.compile(
    r"^\| (?P<id>[A-Z]+-?\d+) \| (?P<what>[^|]*) \| (?P<state>[^|]*) \| (?P<tests>[^|]*) \|$", re.MULTILINE
)
_IDS = re.compile(r"^Ids: (.+?)\.$", re.MULTILINE | re.DOTALL)
_TEST = re.compile(r"`([^`]+\.(?:py|mjs))::([^`]+)`")
_TEST_OF_A_CLIENT = re.compile(r"\bit\(\s*([\"`])(?P<name>.+?)\1,")


@dataclass(frozen=True)
class Row:
    """One row of a page."""

    id: str
    what: str
    state: str
    missing: str
    tests: tuple[tuple[str, str], ...]


def rows_of(page: str) -> list[Row]:
    """Return the rows of a page's tables."""
    rows = []
    for found in _ROW.finditer(page):
        state, _, missing = found["state"].partition(":")
        tests = tuple(_TEST.findall(found["tests"]))
        rows.append(Row(found["id"], found["what"].strip(), state.strip(), missing.strip(), tests))
    return rows


def ids_of(page: str) -> list[str]:
    """Return the ids that a page says it lists; `SESS-01..03` are three."""
    listed = _IDS.search(page)
    assert listed, "the page has no line `Ids: ….`"
    ids: list[str] = []
    for item in re.split(r",\s+", listed.group(1)):
        first, _, last = item.partition("..")
        prefix, _, number = first.rpartition("-")
        ids += [f"{prefix}-{n:02d}" for n in range(int(number), int(last) + 1)] if last else [first]
    return ids


def complaints(rows: Iterable[Row], ids: Iterable[str], done: str, tests: Mapping[str, set[str]]) -> list[str]:
    """Return what is wrong with a page. `tests` holds the names of the tests of each file."""
    rows = list(rows)
    times = Counter(row.id for row in rows)
    wrong = [f"{id_} is listed {times[id_]} times" for id_ in ids if times[id_] != 1]
    wrong += [f"{id_} is not among the ids" for id_ in times if id_ not in set(ids)]
    for row in rows:
        wrong += [f"{row.id}: {what}" for what in _complaints_of_row(row, done)]
        wrong += [
            f"{row.id}: there is no test {file}::{name}"
            for file, name in row.tests
            if name not in tests.get(file, set())
        ]
    return wrong


def _complaints_of_row(row: Row, done: str) -> list[str]:
    if not row.what:
        return ["it does not say what it is"]
    if row.state == done:
        return [] if row.tests and not row.missing else [f"what is {done} names its tests and misses nothing"]
    if row.state not in OPEN:
        return [f"the state {row.state!r} is unknown"]
    if row.state != "later" and not row.missing:
        return [f"what is said to be {row.state!r} says why"]
    return []


def known_tests(folder: Path) -> dict[str, set[str]]:
    """Return the names of the tests of each file below a folder: functions, or what `it` says in JavaScript."""
    known = {path.relative_to(folder).as_posix(): _tests_of(path) for path in folder.rglob("test_*.py")}
    for path in folder.rglob("*.mjs"):
        name = path.relative_to(folder)
        if "node_modules" not in name.parts:
            found = _TEST_OF_A_CLIENT.finditer(path.read_text(encoding="utf-8"))
            known[name.as_posix()] = {test["name"] for test in found}
    return known


def _tests_of(path: Path) -> set[str]:
    """Return the names of a file's tests; those of a suite that it takes over with `import *` are its own."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom) and node.module and node.names[0].name == "*":
            names |= _tests_of(RUNTIME.joinpath(*node.module.split(".")).with_suffix(".py"))
    return names


# --- the pages ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DONE)
def test_every_id_is_listed_once_with_a_state_and_tests_that_exist(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")

    assert len(ids_of(page)) > 90
    assert complaints(rows_of(page), ids_of(page), DONE[name], known_tests(TESTS)) == []


@pytest.mark.parametrize("name", DONE)
def test_every_line_of_a_table_is_read(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")

    lines = [line for line in page.splitlines() if re.match(r"\| [A-Z]+-?\d", line)]

    assert len(rows_of(page)) == len(lines)


# --- the rules themselves -------------------------------------------------------------------------------------------

PAGE = """
Ids: AWS-01..02, F001.

| id | what | state | test |
|---|---|---|---|
| AWS-01 | delays | built | `unit/test_a.py::test_it`<br>`unit/test_a.py::test_more` |
| AWS-02 | frames | partly: chunks |  |
| F001 | a cut | later |  |
"""
KNOWN = {"unit/test_a.py": {"test_it", "test_more"}}


def test_a_page_in_order_has_no_complaints() -> None:
    assert ids_of(PAGE) == ["AWS-01", "AWS-02", "F001"]
    assert complaints(rows_of(PAGE), ids_of(PAGE), "built", KNOWN) == []


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("AWS-01..02", "AWS-01..03", "AWS-03 is listed 0 times"),
        ("| F001 | a cut", "| AWS-02 | a cut", "AWS-02 is listed 2 times"),
        ("Ids: AWS-01..02, F001", "Ids: AWS-01..02", "F001 is not among the ids"),
        ("| delays |", "|  |", "AWS-01: it does not say what it is"),
        ("test_more`", "test_less`", "AWS-01: there is no test unit/test_a.py::test_less"),
        ("`unit/test_a.py::test_it`<br>`unit/test_a.py::test_more`", "", "AWS-01: what is built names its tests"),
        ("partly: chunks", "partly", "AWS-02: what is said to be 'partly' says why"),
        ("partly: chunks", "nearly", "AWS-02: the state 'nearly' is unknown"),
    ],
)
def test_a_page_that_is_out_of_order_is_found(right: str, wrong: str, complaint: str) -> None:
    page = PAGE.replace(right, wrong)

    found = complaints(rows_of(page), ids_of(page), "built", KNOWN)

    assert any(complaint in line for line in found), found
