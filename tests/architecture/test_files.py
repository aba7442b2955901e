"""What holds for files as such: their size, and that they name no machine and no registry."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

HANDLER_LINES = 20
FILE_LINES = 400
COUNTED = {".js", ".mjs", ".py", ".ts"}

# Files that may be longer, each with the reason. A file that got shorter again has to leave.
ALLOWED: dict[str, str] = {}

# Put together from pieces, so that this file does not name what it looks for.
LEAKS = {
    "a path of one machine": [r"(?<![\w.~-])/" + "work/", r"(?<![\w.~-])/" + r"root/\."],
    "the host of a package registry": [
        "files.python" + "hosted",
        "pypi" + r"\.org/simple",
        "registry" + r"\.npmjs",
        "registry" + r"\.yarnpkg",
        "deb" + r"\.debian\.org",
        "proxy" + r"\.golang\.org",
    ],
    "the option that names a registry": [
        r"(?m)^\s*--(?:extra-)?" + r"index-url\b",
        r"(?m)^\s*--find" + r"-links\b",
    ],
}


def leaks(text: str) -> list[str]:
    """Return what the text gives away about the machine or the registry it was written with."""
    return [
        f"{what}: {match.group()}"
        for what, patterns in LEAKS.items()
        for pattern in patterns
        if (match := re.search(pattern, text))
    ]


def size_violations(lines_of: dict[str, int], allowed: dict[str, str]) -> list[str]:
    """Return the files that are too long without a reason, and the reasons without a long file."""
    too_long = [
        f"{name} has {lines} lines, of {FILE_LINES}: split it, or name the reason in ALLOWED"
        for name, lines in lines_of.items()
        if lines > FILE_LINES and not allowed.get(name)
    ]
    stale = [name for name in allowed if lines_of.get(name, 0) <= FILE_LINES]
    return too_long + [f"{name} is in ALLOWED and needs it no longer" for name in stale]


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """Every file that is committed, or would be by `git add .`."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return [path for path in paths if path.is_file() and not path.is_symlink()]


# --- the tree -----------------------------------------------------------------------------------


def test_every_handler_can_be_read_at_a_glance() -> None:
    sizes = {path.parent.name: _lines(path) for path in (ROOT / "functions").glob("*/app.py")}

    assert {name: lines for name, lines in sizes.items() if lines > HANDLER_LINES} == {}


def test_no_file_grows_past_its_limit_without_a_reason(files: list[Path]) -> None:
    lines_of = {str(path.relative_to(ROOT)): _lines(path) for path in files if path.suffix in COUNTED}

    assert size_violations(lines_of, ALLOWED) == []


def test_no_file_names_a_machine_or_a_registry(files: list[Path]) -> None:
    found = {
        str(path.relative_to(ROOT)): given_away
        for path in files
        if (given_away := leaks(path.read_text(encoding="utf-8", errors="ignore")))
    }

    assert found == {}


# --- the rules themselves -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "see /" + "work/main/pyproject.toml",
        "/" + "root/.venv/bin/python",
        "https://files.python" + "hosted.org/packages/a.whl",
        '"resolved": "https://registry' + '.npmjs.org/ai"',
        "deb http://deb" + ".debian.org/debian stable main",
        "pydantic==2.14.4\n--extra-" + "index-url https://example.org/simple",
    ],
)
def test_a_text_that_names_a_machine_or_a_registry_is_found(text: str) -> None:
    assert len(leaks(text)) == 1


@pytest.mark.parametrize("text", ["layers/work/app.py", "functions/work/", "the root/.git folder"])
def test_an_ordinary_path_passes(text: str) -> None:
    assert leaks(text) == []


def test_a_long_file_needs_a_reason_and_a_reason_needs_a_long_file() -> None:
    lines_of = {"long.py": FILE_LINES + 1, "reasoned.py": FILE_LINES + 1, "short.py": FILE_LINES}
    allowed = {"reasoned.py": "one table", "short.py": "was long once"}

    found = size_violations(lines_of, allowed)

    assert [line.split()[0] for line in found] == ["long.py", "short.py"]
