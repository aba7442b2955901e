"""What SAM made of functions and layers: the right files, for the right platform, and handlers that import.

pydantic-core and cryptography have machine code, built for arm64. Where the tests run on another machine, those of the
development environment stand in for them; everything else comes from the artifacts.
"""

from __future__ import annotations

import filecmp
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.build.cloudformation import ROOT, Template

pytestmark = pytest.mark.build

MAX_UNZIPPED_BYTES = 250 * 1024 * 1024
"""A function and all its layers, unpacked (Lambda quotas)."""

HANDLERS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/app.py"))


def files_below(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".mypy_cache" not in path.parts
    }


def python_path(built: Path, function: str, stand_ins: Path) -> list[str]:
    """Return where Lambda would look for modules, with the stand-ins first."""
    layers = [str(built / layer / "python") for layer in ("RuntimeLayer", "AgentsLayer", "DependenciesLayer")]
    return [str(built / function), str(stand_ins), *layers]


@pytest.fixture(scope="session")
def stand_ins(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with this machine's build of the packages that have machine code; empty where arm64's own runs."""
    folder = tmp_path_factory.mktemp("stand-ins")
    if platform.machine() in ("aarch64", "arm64") and sys.version_info[:2] == (3, 13):
        return folder
    installed = Path(sysconfig.get_paths()["platlib"])
    for name in ("pydantic_core*", "cryptography*", "cffi*", "_cffi_backend*"):
        for path in installed.glob(name):
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="session")
def environment(template: Template) -> dict[str, str]:
    """What the template gives to every function, with values of the right form."""
    names = template.globals["Environment"]["Variables"]
    values = {name: f"https://example.com/{name.lower()}" for name in names if name.endswith(("_URL", "_ENDPOINT"))}
    values |= {name: f"arn:aws:test:us-east-1:123456789012:{name.lower()}" for name in names if name.endswith("_ARN")}
    values |= {name: name.lower() for name in names if name not in values}
    parameters = template.document["Parameters"]
    values |= {
        name: str(parameters[value["Ref"]]["Default"])
        for name, value in names.items()
        if isinstance(value, dict) and parameters.get(value.get("Ref"), {}).get("Default", "") != ""
    }
    return values | {
        "POWERTOOLS_LOG_LEVEL": "INFO",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "PATH": os.environ["PATH"],
    }


# --- files -------------------------------------------------------------------------------------------------------


def test_every_function_ships_its_handler_and_nothing_else(built: Path, template: Template) -> None:
    for name in template.functions:
        started_by = template.functions[name].get("Handler", "app.handler")
        assert files_below(built / name) == {"app.py"} | ({started_by} - {"app.handler"}), name
        assert filecmp.cmp(built / name / "app.py", ROOT / "functions" / template.folder(name) / "app.py", False), name


def test_what_the_adapter_starts_is_executable_and_runs_the_app_with_the_layers_on_its_path(
    built: Path, template: Template, stand_ins: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    script = built / "StreamFunction" / "run.sh"
    where = tmp_path / "task"
    where.mkdir()
    (where / "app.py").write_text("import sys; print(sys.path[1:3])")

    done = subprocess.run(
        [script],
        env={"LAMBDA_TASK_ROOT": str(where), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == str([str(where), "/opt/python"])


def test_the_runtime_layer_is_the_package_and_nothing_else(built: Path) -> None:
    source = ROOT / "layers" / "runtime"
    layer = built / "RuntimeLayer" / "python"

    assert files_below(layer) == files_below(source)
    assert [name for name in files_below(layer) if not filecmp.cmp(layer / name, source / name, False)] == []
    assert {path.name for path in layer.iterdir()} == {"perdure"}


def test_the_agents_layer_holds_the_module_that_the_template_names(built: Path, template: Template) -> None:
    module = template.document["Parameters"]["AgentsModule"]["Default"].partition(":")[0].split(".")[0]
    layer = built / "AgentsLayer" / "python"

    assert (layer / f"{module}.py").is_file() or (layer / module / "__init__.py").is_file()
    assert not [name for name in files_below(layer) if name.startswith("tests/")]


def test_the_dependencies_are_those_of_the_lock(built: Path) -> None:
    lock = (ROOT / "layers" / "dependencies" / "requirements.txt").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE))
    shipped = dict(
        path.name.removesuffix(".dist-info").rsplit("-", 1)
        for path in (built / "DependenciesLayer" / "python").glob("*.dist-info")
    )

    assert {name.lower().replace("_", "-"): version for name, version in shipped.items()} == locked


def test_machine_code_is_for_the_platform_of_the_functions(built: Path) -> None:
    native = list((built / "DependenciesLayer").rglob("*.so"))

    assert native
    # Bytes 18 and 19 of an ELF file: 183 is AArch64. A name may leave it open (`.abi3.so`).
    assert [path.name for path in native if path.read_bytes()[18:20] != (183).to_bytes(2, "little")] == []
    names = (".cpython-313-aarch64-linux-gnu.so", ".abi3.so")
    assert [path.name for path in native if not path.name.endswith(names)] == []


def test_a_function_with_its_layers_fits_into_lambda(built: Path, template: Template) -> None:
    layers = [*template.of_type("AWS::Serverless::LayerVersion")]
    size = sum(path.stat().st_size for layer in layers for path in (built / layer).rglob("*") if path.is_file())

    assert size < MAX_UNZIPPED_BYTES / 2, "half of it is left for users' agents and what they import"


# --- imports -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", HANDLERS)
def test_a_handler_imports_from_the_artifacts_alone(
    built: Path, template: Template, stand_ins: Path, environment: dict[str, str], folder: str
) -> None:
    function = next(name for name in template.functions if template.folder(name) == folder)
    path = python_path(built, function, stand_ins)
    code = (
        f"import json, sys; sys.path[:0] = {path!r}; sys.dont_write_bytecode = True\n"
        "import app, perdure\n"
        "started = getattr(app, 'handler', None) or app.app\n"
        "print(json.dumps({'callable': callable(started), 'perdure': perdure.__file__}))"
    )

    # -S: without the site-packages of the environment that runs the tests; -P: without the working directory.
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", code], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "callable": True,
        "perdure": str(built / "RuntimeLayer" / "python" / "perdure" / "__init__.py"),
    }


def test_the_layers_ship_bytecode_that_a_container_takes_whatever_the_times_of_its_files(
    built: Path, template: Template
) -> None:
    for layer in template.of_type("AWS::Serverless::LayerVersion"):
        sources = list((built / layer / "python").rglob("*.py"))
        compiled = [path.parent / "__pycache__" / f"{path.stem}.cpython-313.pyc" for path in sources]

        assert sources, layer
        assert [str(path) for path in compiled if not path.is_file()] == []
        # The second word of a file of bytecode (PEP 552): 3: it goes by the hash of its source, which is checked.
        assert {path.read_bytes()[4:8] for path in compiled} == {b"\3\0\0\0"}, layer


def test_everything_that_ships_compiles_with_the_python_of_lambda(built: Path, template: Template) -> None:
    found = sorted(Path.home().glob(".pyenv/versions/3.13*/bin/python3.13"))
    lambda_python = str(found[-1]) if found else "python3.13"
    folders = [str(built / name) for name in (*template.functions, "RuntimeLayer", "AgentsLayer")]
    code = (
        "import pathlib, sys\n"
        "for folder in sys.argv[1:]:\n"
        "    for path in pathlib.Path(folder).rglob('*.py'):\n"
        "        compile(path.read_bytes(), str(path), 'exec')\n"
        "print(sys.version_info[:2])"
    )

    done = subprocess.run([lambda_python, "-c", code, *folders], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout.strip()) == (0, "(3, 13)"), done.stderr
