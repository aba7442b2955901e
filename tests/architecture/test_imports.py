"""Imports point inwards, and the core takes values instead of reaching for the world.

The rules read source text, so they see an import inside a function or under `TYPE_CHECKING` as well.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "layers" / "runtime"

# The modules of a layer may import nothing of the layers named beside it.
FORBIDDEN: dict[str, tuple[str, ...]] = {
    "perdure.ports": ("steps", "service", "api", "embedded", "aws", "cli"),
    "perdure.models": ("steps", "service", "api", "embedded", "aws", "cli"),
    "perdure.agents": ("steps", "service", "api", "embedded", "aws", "cli"),
    "perdure.steps": ("service", "api", "embedded", "aws", "cli"),
    "perdure.service": ("api", "embedded", "aws", "cli"),
    "perdure.aws": ("embedded", "cli"),
    "perdure.embedded": ("aws", "cli"),
}
# The innermost modules may import the standard library and these, nothing else.
INNERMOST = ("perdure.core", "perdure.errors")

# Packages that cost a cold start, and the only modules that may name them.
CONFINED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("boto3", "botocore", "types_boto3"): ("perdure.aws", "perdure.testing"),
    ("mcp",): ("perdure.mcp",),
}

IMPURE_MODULES = (
    "asyncio",
    "concurrent",
    "ctypes",
    "http",
    "importlib",
    "multiprocessing",
    "os",
    "random",
    "secrets",
    "shutil",
    "socket",
    "sqlite3",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib.request",
    "uuid",
)
IMPURE_NAMES = (
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
)
IMPURE_BUILTINS = ("__import__", "breakpoint", "eval", "exec", "input", "open", "print")


@dataclass(frozen=True)
class Import:
    """One imported name, in full: `from a.b import c` gives `a.b.c`."""

    target: str
    line: int


def imports_of(source: str, module: str = "perdure.example", *, is_package: bool = False) -> list[Import]:
    """Return what the source of `module` imports, relative and string imports resolved."""
    found: list[Import] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _base_of(node, module, is_package=is_package)
            names = [alias.name for alias in node.names]
            found += [Import(base if name == "*" else f"{base}.{name}", node.lineno) for name in names]
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__") and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                found.append(Import(first.value, node.lineno))
    return found


def arrow_violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """Return the imports of `module` that point outwards, each as one line of text."""
    imports = imports_of(source, module, is_package=is_package)
    bad: list[str] = []
    if _within(module, INNERMOST):
        bad += [
            f"line {i.line}: {module} imports {i.target}; it may import the standard library and "
            f"{' and '.join(INNERMOST)} only"
            for i in imports
            if not _within(i.target, INNERMOST) and i.target.split(".")[0] not in sys.stdlib_module_names
        ]
    for layer, outer in FORBIDDEN.items():
        if _within(module, (layer,)):
            forbidden = tuple(f"perdure.{name}" for name in outer)
            bad += [
                f"line {i.line}: {module} imports {i.target}, which lies further out"
                for i in imports
                if _within(i.target, forbidden)
            ]
    for packages, homes in CONFINED.items():
        if not _within(module, homes):
            bad += [
                f"line {i.line}: {module} imports {i.target}; only {' and '.join(homes)} may"
                for i in imports
                if _within(i.target, packages)
            ]
    return bad


def impurities(source: str) -> list[str]:
    """Return what the source reads from outside itself: clock, chance, environment, files, network."""
    tree = ast.parse(source)
    bad = [
        f"line {i.line}: imports {i.target}"
        for i in imports_of(source, "perdure.core.example")
        if _within(i.target, IMPURE_MODULES)
    ]
    known_as = _names_in_scope(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "environ":
            bad.append(f"line {node.lineno}: reads the environment")
        elif isinstance(node, ast.Attribute) and _dotted(node, known_as) in IMPURE_NAMES:
            bad.append(f"line {node.lineno}: reads the clock; take `now` as a value")
        elif isinstance(node, ast.Call) and _dotted(node.func, known_as) in IMPURE_BUILTINS:
            bad.append(f"line {node.lineno}: calls {_called(node)}()")
    return bad


def _base_of(node: ast.ImportFrom, module: str, *, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    package = module.split(".") if is_package else module.split(".")[:-1]
    package = package[: len(package) - (node.level - 1)]
    return ".".join([*package, *([node.module] if node.module else [])])


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _within(name: str, parents: tuple[str, ...]) -> bool:
    return any(name == parent or name.startswith(f"{parent}.") for parent in parents)


def _names_in_scope(tree: ast.Module) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _dotted(node: ast.expr, known_as: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, known_as)}.{node.attr}"
    return known_as.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def _modules() -> Iterator[tuple[str, Path]]:
    for root, folder in ((RUNTIME, RUNTIME / "perdure"), (ROOT, ROOT / "functions")):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


# --- the tree -----------------------------------------------------------------------------------


def test_imports_point_inwards() -> None:
    found = {
        str(path.relative_to(ROOT)): bad
        for module, path in _modules()
        if (bad := arrow_violations(path.read_text(), module, is_package=path.name == "__init__.py"))
    }

    assert found == {}


def test_the_core_reads_nothing_but_its_arguments() -> None:
    found = {
        str(path.relative_to(ROOT)): bad
        for module, path in _modules()
        if _within(module, ("perdure.core",)) and (bad := impurities(path.read_text()))
    }

    # The module that a class of commands names, and nothing else: `test_decide.py` looks at each of them.
    (decide,) = found.pop("layers/runtime/perdure/core/decide.py")
    assert decide.endswith("imports importlib.import_module")
    assert found == {}


# --- the rules themselves -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("perdure.core.head", "import pydantic"),
        ("perdure.core.head", "from perdure.ports import Clock"),
        ("perdure.core.head", "from perdure import ports"),
        ("perdure.core.head", "from ..ports import Clock"),
        ("perdure.core.head", "def f():\n    import perdure.steps.load"),
        ("perdure.errors", "from perdure.aws import limits"),
        ("perdure.ports", "from perdure.service import Perdure"),
        ("perdure.models.scripted", "import perdure.embedded.store as store"),
        ("perdure.agents.runner", "from perdure import cli"),
        ("perdure.steps.work", "from perdure.service import Perdure"),
        ("perdure.steps.work", "if TYPE_CHECKING:\n    from perdure.aws.store import Store"),
        ("perdure.service", "from perdure.api.routes import routes"),
        ("perdure.embedded.worker", "from perdure.aws import limits"),
        ("perdure.service", "from importlib import import_module\nimport_module('perdure.aws.store')"),
        ("perdure.embedded.store", "import boto3"),
        ("perdure.api.app", "from botocore.exceptions import ClientError"),
        ("functions.work.app", "import boto3"),
        ("perdure.agents.tools", "from mcp import ClientSession"),
    ],
)
def test_an_import_that_points_outwards_is_found(module: str, source: str) -> None:
    assert len(arrow_violations(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("perdure.core.head", "from dataclasses import dataclass\nfrom perdure.core.ids import SessionId"),
        ("perdure.core.head", "from perdure import errors\nfrom perdure.errors import ConflictError"),
        ("perdure.steps.work", "from perdure.agents import Agent\nfrom perdure.ports import Clock"),
        ("perdure.api.app", "from perdure.service import Perdure"),
        ("perdure.aws.store", "import boto3\nfrom botocore.config import Config"),
        ("perdure.testing.tables", "import boto3"),
        ("perdure.mcp.client", "from mcp import ClientSession"),
        ("perdure.agents.tools", "from perdure.mcp import servers"),
        ("functions.work.app", "from perdure.aws.bootstrap import runtime"),
    ],
)
def test_an_import_that_points_inwards_passes(module: str, source: str) -> None:
    assert arrow_violations(source, module) == []


def test_a_relative_import_of_a_package_starts_at_the_package() -> None:
    found = imports_of("from .ids import SessionId", "perdure.core", is_package=True)

    assert found == [Import("perdure.core.ids.SessionId", 1)]


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import datetime\ndatetime.now()",
        "from datetime import datetime as moment, UTC\nx = moment.now",
        "import datetime\ndatetime.datetime.utcnow()",
        "import datetime as dt\ndt.date.today()",
        "from datetime import datetime\nfield(default_factory=datetime.today)",
        "import time",
        "from time import monotonic",
        "import random",
        "from uuid import uuid4",
        "import os.path",
        "def f():\n    import secrets",
        "import asyncio",
        "import urllib.request",
        "open('state.json')",
        "x = platform.environ['HOME']",
    ],
)
def test_a_core_that_reaches_outside_is_found(source: str) -> None:
    assert len(impurities(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import datetime, timedelta\ndef due(now: datetime) -> datetime:\n    return now",
        "def f(context):\n    return context.now, context.today()",
        "from datetime import UTC, datetime\ndatetime.fromisoformat('2026-01-01T00:00:00+00:00')",
        "import hashlib\nimport urllib.parse",
        "def f(lease):\n    return lease.open()",
    ],
)
def test_a_core_that_takes_values_passes(source: str) -> None:
    assert impurities(source) == []
